/** The page: reads the model, draws noise, shows records. */

import { Conditions } from "./conditions.js";
import { element } from "./dom.js";
import { editorOf } from "./editors.js";
import { Generator } from "./generator.js";
import { Layout } from "./layout.js";
import { normals } from "./noise.js";
import { showProbabilities } from "./panel.js";
import { Records } from "./records.js";

const MOST_NUMBERS = 2 ** 24; // in the noise of one pass: 64 MB, and a few times that while it runs
const MOST_RECORDS = 500;
const SLOW = 300; // milliseconds after which the page says that it is busy
const find = (id) => document.getElementById(id);
const status = (text) => (find("status").textContent = text);

async function start() {
  status("Loading the model …");
  const response = await fetch("model.json");
  if (!response.ok) throw new Error(`model.json: ${response.status} ${response.statusText}`);
  const layout = new Layout(await response.json());
  document.title = `${layout.name}: one-step generator`;
  find("name").textContent = layout.name;
  const generator = new Generator(layout);
  const page = new Page(layout, generator);
  window.dmf = {
    layout,
    noise: (seed, n) => normals(seed, n * layout.length * layout.vocabulary),
    generate: (noise, tokens, observed) => generator.generate(noise, tokens, observed),
    text: (tokens) => layout.text(Int32Array.from(tokens)),
  };
  await generator.ready();
  find("controls").disabled = false;
  await page.sample();
}

class Page {
  #running = false;
  #outdated = false;

  constructor(layout, generator) {
    Object.assign(this, { layout, generator, conditions: new Conditions(layout) });
    const box = this.#recordBox();
    this.records = new Records(
      box,
      this.conditions,
      (record, position) => this.#inspect(record, position),
      (record, position) => this.#toggle(record, position),
    );
    this.#limitCount();
    this.#listen();
  }

  /** The element that holds the records: a body of a table for rows. */
  #recordBox() {
    const { arrangement } = this.layout;
    this.editor = editorOf(this.conditions, () => this.sample());
    find("editor").append(...this.editor.controls);
    const made = element(arrangement === "row" ? "tbody" : "div", {
      id: "records", class: `records ${arrangement}`, tabindex: 0, role: "grid", "aria-label": "Records",
      "aria-describedby": "keys",
    });
    const parts = [...this.editor.above, made];
    find("output").append(...(arrangement === "row" ? [element("table", {}, ...parts)] : parts));
    const longest = Math.max(...this.layout.symbolsAt(0).map((symbol) => symbol.length));
    made.style.setProperty("--length", Math.min(64, this.layout.size * Math.min(longest, 2) + 2));
    return made;
  }

  #limitCount() {
    const numbers = this.layout.length * this.layout.vocabulary;
    this.most = Math.max(1, Math.min(MOST_RECORDS, Math.floor(MOST_NUMBERS / numbers)));
    find("count").max = this.most;
    find("count").value = Math.min(this.most, Number(find("count").value));
  }

  #listen() {
    find("form").addEventListener("submit", (event) => {
      event.preventDefault();
      find("seed").value = (this.#number("seed") + 1) % 2 ** 32;
      this.sample();
    });
    find("seed").addEventListener("change", () => this.sample());
    find("count").addEventListener("change", () => this.sample());
    find("release").addEventListener("click", () => {
      this.conditions.clear();
      this.sample();
    });
    // Enter in a field generates with what it says; the button takes the next seed.
    find("form").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
      event.preventDefault();
      this.sample();
    });
  }

  /** The whole number in a field, moved to its limits. */
  #number(id) {
    const { min, max, valueAsNumber } = find(id);
    const number = Math.max(Number(min), Math.min(Number(max), Math.trunc(valueAsNumber) || 0));
    find(id).value = number;
    return number;
  }

  /** Generate and show records. A call during a pass starts another one after it. */
  async sample() {
    this.#outdated = true;
    if (this.#running) return;
    this.#running = true;
    find("output").setAttribute("aria-busy", true);
    try {
      while (this.#outdated) {
        this.#outdated = false;
        await this.#pass();
      }
    } catch (error) {
      status(`The model cannot run: ${error.message}`);
    } finally {
      this.#running = false;
      find("output").setAttribute("aria-busy", false);
    }
  }

  async #pass() {
    const { length, vocabulary } = this.layout;
    const [count, seed] = [this.#number("count"), this.#number("seed")];
    const { tokens, observed } = this.conditions.inputs(count);
    this.editor.update();
    find("release").disabled = !this.conditions.count;
    const noise = normals(seed, count * length * vocabulary);
    const slow = setTimeout(() => status("Generating …"), SLOW);
    const generated = this.generator.generate(noise, tokens, observed);
    const result = await generated.finally(() => clearTimeout(slow));
    this.laws = result.probabilities;
    this.shown = Array.from({ length: count }, (_, record) =>
      result.tokens.subarray(record * length, (record + 1) * length),
    );
    this.records.show(this.shown);
    if (this.place) this.#inspect(...this.place);
    const records = count === 1 ? "1 record" : `${count} records`;
    status(`${records} in one forward pass of ${result.milliseconds.toFixed(0)} ms`);
  }

  #inspect(record, position) {
    this.place = [record, position];
    if (!this.laws || record >= this.shown.length) return;
    const isFixed = this.conditions.at(position) !== undefined;
    const { layout } = this;
    const start = (record * layout.length + position) * layout.vocabulary;
    const law = this.laws.subarray(start, start + layout.symbolsAt(position).length);
    showProbabilities(find("panel"), { layout, record, position, law, isFixed });
  }

  /** Fix a position at the symbol that a record has there, or free it again. */
  #toggle(record, position) {
    if (this.conditions.at(position) !== undefined) this.conditions.release(position);
    else this.conditions.fix(position, this.shown[record][position]);
    this.sample();
  }
}

start().catch((error) => status(`The page cannot start: ${error.message}`));
