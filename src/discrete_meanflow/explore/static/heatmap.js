/** Matrices as tables of coloured numbers. */

import { element } from "../web/dom.js";

export const LARGE = 6; // states from which on numbers are short

export class Heatmap {
  #cells = [];

  /** @param onColumn called with the number of a column that is clicked. */
  constructor(title, help, onColumn = () => {}) {
    this.title = title;
    this.table = element("table", { class: "heat", "aria-label": title });
    this.note = element("p", {}, help);
    this.figure = element("figure", { class: "panel" },
      element("figcaption", {}, element("h2", {}, title), this.note), this.table);
    this.table.addEventListener("click", ({ target }) => {
      const cell = target.closest("[data-x]");
      if (cell) onColumn(Number(cell.dataset.x));
    });
  }

  /**
   * Show a matrix, or dashes.
   *
   * @param matrix rows `[y][x]`, or null.
   * @param size of the matrix.
   * @param largest the number with the full colour.
   * @param column the column that is marked.
   * @param unit what the numbers are multiples of.
   */
  show(matrix, { size, largest, column, unit = 1 }) {
    if (this.#cells.length !== size) this.#build(size);
    this.#cells.forEach((row, y) =>
      row.forEach((cell, x) => {
        const value = matrix?.[y][x];
        cell.textContent = value === undefined ? "–" : short(value / unit, size);
        cell.title = value === undefined ? "" : `${this.title}(${y}, ${x}) = ${value.toPrecision(6)}`;
        const share = Math.min(1, Math.abs(value ?? 0) / (largest || 1));
        cell.style.setProperty("--share", `${100 * share}%`);
        cell.className = value < 0 ? "negative" : "";
        cell.classList.toggle("strong", share > 0.55);
        cell.classList.toggle("chosen", x === column);
      }),
    );
  }

  #build(size) {
    const states = [...Array(size).keys()];
    this.#cells = states.map(() => states.map((x) => element("td", { "data-x": x })));
    const names = states.map((x) => element("th", { scope: "col", "data-x": x }, String(x)));
    const corner = element("th", { class: "corner", "aria-label": "to y, from x" }, "y\\x");
    const rows = this.#cells.map((cells, y) =>
      element("tr", {}, element("th", { scope: "row" }, String(y)), ...cells),
    );
    this.table.classList.toggle("large", size >= LARGE);
    this.table.replaceChildren(
      element("thead", {}, element("tr", {}, corner, ...names)),
      element("tbody", {}, ...rows),
    );
  }
}

/** The power of ten below a number, and how it is written. */
export function unitOf(number) {
  const exponent = number > 0 ? Math.floor(Math.log10(number)) : 0;
  const digits = String(exponent).replace("-", "⁻").replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
  return { unit: 10 ** exponent, name: `in units of 10${digits}` };
}

/** A number with three digits; in a large matrix two, without the zero before the point. */
function short(value, size) {
  if (size < LARGE) return signed(value.toFixed(Math.abs(value) < 0.9995 ? 3 : 2));
  const text = signed(value.toFixed(Math.abs(value) < 0.995 ? 2 : 1));
  return text.replace(/^(−?)0\./, "$1.");
}

function signed(text) {
  return (/^-0\.?0*$/.test(text) ? text.slice(1) : text).replace("-", "−");
}
