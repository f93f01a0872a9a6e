/** The records of one number of steps. */

import { element, menu } from "../web/dom.js";
import { Records } from "../web/records.js";

export class Column {
  /**
   * @param panel the run.
   * @param number of the column; the first one has the menus of a table.
   */
  constructor(panel, number) {
    const { layout } = panel;
    const isTable = layout.arrangement === "row";
    this.heading = element("h3");
    this.body = element(isTable ? "tbody" : "div", {
      class: `records ${layout.arrangement}`, tabindex: 0, role: "grid", "aria-describedby": "keys",
    });
    const longest = Math.max(...layout.symbolsAt(0).map((symbol) => symbol.length));
    this.body.style.setProperty("--length", Math.min(64, layout.size * Math.min(longest, 2) + 2));
    this.records = new Records(
      this.body,
      panel.conditions,
      (record, position) => panel.point({ panel, column: number, record, position }),
      (record, position) => panel.toggle(position, this.tokens[record][position]),
    );
    const heads = number === 0 ? panel.editor.above : [names(layout)];
    const shown = isTable ? element("table", {}, ...heads, this.body) : this.body;
    this.box = element("div", { class: "column" }, this.heading, shown);
  }

  show({ steps, seconds, records, laws }) {
    this.label = steps === 1 ? "1 step" : `${steps} steps`;
    const time = element("small", {}, ` ${(1000 * seconds).toFixed(0)} ms`);
    this.heading.replaceChildren(this.label, time);
    this.body.setAttribute("aria-label", `Records of ${this.label}`);
    this.laws = laws;
    this.tokens = records.map(({ tokens }) => Int32Array.from(tokens));
    this.records.show(this.tokens);
    this.box.style.setProperty("--count", records.length);
    records.forEach((record, i) => decorate(this.body.children[i], record));
  }
}

/** The names of the columns of a table, over a gap as high as the menus of the first one. */
function names(layout) {
  const all = [...layout.positions, ...(layout.hasSeparateClass ? ["class"] : [])];
  const cells = all.map((name) => element("th", { scope: "col" }, name));
  const gap = element("tr", { class: "gap" }, element("th", {}, menu("", "any", [])));
  return element("thead", {}, element("tr", {}, ...cells), gap);
}

/** Add the drawing of a record, or say in its place that the record is not valid. */
function decorate(row, { svg, valid, text }) {
  const invalid = valid === false ? [element("span", { class: "class" }, "not valid")] : [];
  if (svg === undefined) {
    row.append(...invalid);
    return;
  }
  const source = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  const drawing = [element("img", { src: source, alt: `structure of ${text}` })];
  row.prepend(...(svg ? drawing : invalid));
  row.classList.add("drawn");
}
