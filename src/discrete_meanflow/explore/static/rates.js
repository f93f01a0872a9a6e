/** The rates of a chain as a table of number fields. */

import { element } from "../web/dom.js";

export class Rates {
  /**
   * @param table the element to fill.
   * @param most the largest rate.
   * @param onEdit called when a rate has been edited.
   */
  constructor(table, most, onEdit) {
    Object.assign(this, { table, most });
    table.addEventListener("input", ({ target }) => {
      const isValid = target.value !== "" && target.checkValidity();
      const { y, x } = target.dataset;
      const rates = this.values.map((row) => [...row]);
      if (isValid) rates[y][x] = target.valueAsNumber;
      const isChain = isValid && rates.flat().some(Boolean);
      target.setAttribute("aria-invalid", !isChain);
      if (!isChain) return;
      this.values = rates;
      this.#showDiagonal();
      onEdit();
    });
  }

  get size() {
    return this.values.length;
  }

  /** Show rates `[y][x]`. */
  show(rates) {
    this.values = rates;
    const states = [...rates.keys()];
    const heading = states.map((x) => element("th", { scope: "col" }, String(x)));
    const rows = states.map((y) =>
      element("tr", {}, element("th", { scope: "row" }, String(y)), ...states.map((x) => this.#cell(y, x))),
    );
    this.table.replaceChildren(
      element("thead", {}, element("tr", {}, element("th", { "aria-label": "to y, from x" }, "y\\x"), ...heading)),
      element("tbody", {}, ...rows),
    );
    this.#showDiagonal();
  }

  #cell(y, x) {
    if (y === x) return element("td", { class: "diagonal" });
    const input = element("input", {
      type: "number", min: 0, max: this.most, step: "any", value: this.values[y][x],
      "data-y": y, "data-x": x, "aria-label": `rate from ${x} to ${y}`,
    });
    return element("td", {}, input);
  }

  /** Minus the sum of each column. */
  #showDiagonal() {
    this.table.querySelectorAll(".diagonal").forEach((cell, x) => {
      const sum = this.values.reduce((total, row) => total + row[x], 0);
      cell.textContent = `−${Number(sum.toPrecision(4))}`;
    });
  }
}
