/** The view of trained runs: one, or two side by side. */

import { element } from "../web/dom.js";
import { showProbabilities } from "../web/panel.js";
import { latest, wholeNumber } from "./api.js";
import { RunPanel } from "./run_panel.js";

const COMPARED = [1, 4, 16]; // numbers of steps
const SLOW = 300; // milliseconds after which the page says that it is busy
const WIDE = "(min-width: 721px)";
const find = (id) => document.getElementById(id);

export class RunsView {
  constructor({ runs, bounds }, report) {
    Object.assign(this, { runs, report, panels: [] });
    this.update = latest(find("runs"), () => this.#update().catch(report));
    find("steps").max = bounds.steps;
    find("count").max = Math.max(...runs.map((run) => run["most records"]));
    const names = runs.map((run, i) => element("option", { value: i }, `${i + 1}. ${run.name}`));
    find("second").append(element("option", { value: "" }, "none"), ...names);
    find("second-field").hidden = runs.length < 2;
    this.#listen();
    this.#choose(0);
  }

  #listen() {
    const form = find("sampling");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      find("seed").value = (wholeNumber(find("seed")) + 1) % 2 ** 32;
      this.update();
    });
    // Enter in a field generates with what it says; the button takes the next seed.
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
      event.preventDefault();
      this.update();
    });
    for (const id of ["seed", "count", "compare"]) find(id).addEventListener("change", this.update);
    find("steps").addEventListener("input", () => {
      find("steps-shown").textContent = find("steps").value;
      this.update();
    });
    find("second").addEventListener("change", () => this.#choose(this.panels[0].number));
  }

  /** Show a run, and the second one if there is one. */
  #choose(first) {
    const second = find("second").value;
    const numbers = [first, ...(second === "" ? [] : [Number(second)])];
    this.panels = numbers.map((number, place) => {
      const { runs, update } = this;
      const point = (chosen) => this.#inspect(chosen);
      const choose = place === 0 ? (other) => this.#choose(other) : undefined;
      return new RunPanel({ runs, number, place, update, point, choose });
    });
    find("panels").replaceChildren(...this.panels.map(({ box }) => box));
    find("panels").classList.toggle("pair", this.panels.length > 1);
    find("law").replaceChildren();
    // On a phone the probabilities would hide records.
    const corner = { panel: this.panels[0], column: 0, record: 0, position: 0 };
    this.pointed = matchMedia(WIDE).matches ? corner : undefined;
    if (!find("runs").hidden) this.update();
  }

  show() {
    return this.update();
  }

  get #steps() {
    const chosen = Number(find("steps").value);
    return find("compare").checked ? [...new Set([...COMPARED, chosen])].sort((a, b) => a - b) : [chosen];
  }

  async #update() {
    const [count, seed, steps] = [wholeNumber(find("count")), wholeNumber(find("seed")), this.#steps];
    const slow = setTimeout(() => (find("status").textContent = "Generating …"), SLOW);
    try {
      await Promise.all(this.panels.map((panel) => panel.sample(count, seed, steps)));
    } finally {
      clearTimeout(slow);
    }
    const made = this.panels[0].shown;
    find("status").textContent = `${made} ${made === 1 ? "record" : "records"} from seed ${seed}`;
    if (this.pointed) this.#inspect(this.pointed);
    find("runs").dataset.question = JSON.stringify({ count, seed, steps });
    this.report(null);
  }

  /** Show the probabilities at a position of a record. */
  #inspect(pointed) {
    this.pointed = pointed;
    const { panel, column, record, position } = pointed;
    const law = panel.law(column, record, position);
    if (!law) return;
    const { layout, conditions } = panel;
    const isFixed = conditions.at(position) !== undefined;
    showProbabilities(find("law"), { layout, record, position, law, isFixed });
    find("law").append(element("p", {}, `${panel.facts.name}, ${panel.columns[column].label}`));
  }
}
