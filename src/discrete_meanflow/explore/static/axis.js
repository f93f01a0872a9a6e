/** Two handles on one time axis. */

import { element } from "../web/dom.js";

const FIRST_T = 0.6; // where its handle is at first

export class TimeAxis {
  /**
   * @param box the element to fill.
   * @param shortest the least distance between the handles.
   * @param onChange called when a handle has moved.
   */
  constructor(box, shortest, onChange) {
    Object.assign(this, { box, shortest, onChange });
    this.handles = {
      r: this.#handle("r", "First time r", 0),
      t: this.#handle("t", "Last time t", FIRST_T),
    };
    const labels = Object.entries(this.handles).map(([name, { shown }]) =>
      element("label", { for: name }, `${name} = `, shown),
    );
    const ends = ["0", "1"].map((end) => element("span", { class: "tick" }, end));
    const inputs = Object.values(this.handles).map(({ input }) => input);
    const track = element("div", { class: "track" }, ...inputs);
    box.append(labels[0], element("div", { class: "line" }, ends[0], track, ends[1]), labels[1]);
    this.#show();
  }

  get r() {
    return Number(this.handles.r.input.value);
  }

  get t() {
    return Number(this.handles.t.input.value);
  }

  #handle(name, label, value) {
    const input = element("input", {
      id: name, type: "range", min: 0, max: 1, step: this.shortest, value, "aria-label": label,
    });
    input.addEventListener("input", () => {
      this.#limit(name);
      this.#show();
      this.onChange();
    });
    return { input, shown: element("output", { for: name }) };
  }

  /** Keep the handle that moves on its side of the other one. */
  #limit(name) {
    const { r, t } = this.handles;
    if (name === "r") r.input.value = Math.min(this.r, this.t - this.shortest);
    else t.input.value = Math.max(this.t, this.r + this.shortest);
  }

  #show() {
    for (const { input, shown } of Object.values(this.handles)) {
      shown.textContent = Number(input.value).toFixed(2);
    }
    this.box.style.setProperty("--r", this.r);
    this.box.style.setProperty("--t", this.t);
    // Where both are at the end, only r can move.
    this.handles.r.input.classList.toggle("above", this.r > 0.5);
  }
}
