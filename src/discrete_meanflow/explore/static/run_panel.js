/** One run: its controls, its records at several numbers of steps, and its evaluation. */

import { Conditions } from "../web/conditions.js";
import { element } from "../web/dom.js";
import { editorOf } from "../web/editors.js";
import { Layout } from "../web/layout.js";
import { ask } from "./api.js";
import { Column } from "./column.js";
import { drawQuality } from "./plots.js";

export class RunPanel {
  /**
   * @param runs facts of all runs.
   * @param number of the run that is shown.
   * @param place of the panel on the page.
   * @param update generates the records of all panels.
   * @param point called with the panel, column, record and position that are pointed at.
   * @param choose called with the number of another run; without it, the run cannot be changed.
   */
  constructor({ runs, number, place, update, point, choose }) {
    Object.assign(this, { number, update, point, facts: runs[number] });
    this.layout = new Layout(this.facts);
    this.conditions = new Conditions(this.layout);
    this.columns = [];
    this.editor = editorOf(this.conditions, update, `-${place}`);
    this.release = element("button", { type: "button", disabled: "" }, "Clear fixed");
    this.release.addEventListener("click", () => {
      this.conditions.clear();
      update();
    });
    const isTable = this.layout.arrangement === "row";
    this.box = element("section", { class: "panel run", "aria-label": `Run ${this.facts.name}` },
      this.#heading(runs, place, choose),
      element("div", { class: "controls editor-bar" }, ...this.editor.controls, this.release),
      ...(isTable ? [] : this.editor.above),
      (this.output = element("div", { class: `output side ${this.layout.arrangement}` })),
      ...this.#quality(place),
    );
  }

  #heading(runs, place, choose) {
    const { name, kind, length, parameters, note } = this.facts;
    const about = `${kind}, ${length} positions, ${parameters.toLocaleString("en")} parameters`;
    const parts = [element("small", {}, about)];
    if (note) parts.push(element("p", { class: "note" }, note));
    if (!choose || runs.length < 2) return element("div", {}, element("h2", {}, name), " ", ...parts);
    const options = runs.map((run, i) => element("option", { value: i }, `${i + 1}. ${run.name}`));
    const select = element("select", { id: `run-${place}`, "aria-label": "Run" }, ...options);
    select.value = this.number;
    select.addEventListener("change", () => choose(Number(select.value)));
    return element("div", {}, select, " ", ...parts);
  }

  #quality(place) {
    const { evaluation } = this.facts;
    if (!evaluation) {
      const text = "No evaluation yet: dmf evaluate writes the quality at each number of steps.";
      return [element("p", { class: "hint" }, text)];
    }
    const names = Object.keys(evaluation.scores);
    const options = names.map((name) => element("option", {}, name));
    this.score = element("select", { id: `score-${place}` }, ...options);
    this.score.addEventListener("change", () => this.#drawQuality());
    this.meaning = element("p", { class: "hint" });
    this.chart = element("div", { class: "plot", role: "img", "aria-label": "Quality against steps" });
    const label = element("label", { for: this.score.id }, "Quality against steps ");
    const heading = element("div", { class: "quality" }, label, this.score);
    return [element("div", { class: "chart" }, heading, this.chart, this.meaning)];
  }

  async #drawQuality() {
    if (!this.score) return;
    const { evaluation } = this.facts;
    this.meaning.textContent = evaluation.scores[this.score.value];
    await drawQuality(this.chart, evaluation, this.score.value, this.steps.at(-1));
  }

  /** Generate and show records. */
  async sample(count, seed, steps) {
    this.steps = steps;
    this.shown = Math.min(count, this.facts["most records"]);
    const fixed = this.conditions.pairs();
    const { columns } = await ask(`api/runs/${this.number}/samples`, {
      count: this.shown, seed, steps, fixed,
    });
    if (this.columns.length !== columns.length) this.#build(columns.length);
    columns.forEach((answer, i) => this.columns[i].show(answer));
    this.editor.update();
    this.release.disabled = !this.conditions.count;
    await this.#drawQuality();
  }

  #build(count) {
    this.columns = Array.from({ length: count }, (_, i) => new Column(this, i));
    this.output.replaceChildren(...this.columns.map(({ box }) => box));
    this.output.classList.toggle("single", count === 1);
  }

  /** Fix a position at the symbol that a record has there, or free it again. */
  toggle(position, token) {
    if (this.conditions.at(position) !== undefined) this.conditions.release(position);
    else this.conditions.fix(position, token);
    this.update();
  }

  /** The probabilities of the symbols at a position; undefined if it is not shown. */
  law(column, record, position) {
    const pairs = this.columns[column]?.laws?.[record]?.[position];
    if (!pairs) return undefined;
    const law = new Float32Array(this.layout.symbolsAt(position).length);
    for (const [token, probability] of pairs) law[token] = probability;
    return law;
  }
}
