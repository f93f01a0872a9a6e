/** The records of one pass, and the cursor on one of their positions. */

import { element, visible } from "./dom.js";
import { image, outline, positionUnder } from "./image.js";

/** Rebuilds the records after each pass; reports what the visitor points at and chooses. */
export class Records {
  #cursor = { record: 0, position: 0 };
  #pointed = {};
  #rows = [];

  /**
   * @param box the element to fill.
   * @param conditions the fixed positions, which are marked.
   * @param onPoint called with a record and a position that are pointed at.
   * @param onChoose called with a record and a position that are clicked.
   */
  constructor(box, conditions, onPoint, onChoose) {
    Object.assign(this, { box, conditions, layout: conditions.layout, onPoint, onChoose });
    this.isImage = this.layout.arrangement === "grid";
    box.addEventListener("pointermove", (event) => {
      const { record, position } = this.#placeOf(event) ?? this.#pointed;
      if (record === this.#pointed.record && position === this.#pointed.position) return;
      this.#pointed = { record, position };
      this.onPoint(record, position);
    });
    box.addEventListener("click", (event) => {
      const place = this.#placeOf(event);
      if (!place || String(getSelection())) return; // text is being copied
      this.#move(place);
      this.onChoose(place.record, place.position);
    });
    box.addEventListener("keydown", (event) => this.#onKey(event));
    box.addEventListener("focus", () => this.#move(this.#cursor));
    box.addEventListener("blur", () => this.#hideCursor());
  }

  /** Show records: one array of tokens for each. */
  show(records) {
    this.records = records;
    const shown = { text: textRow, list: textRow, row: tableRow, grid: imageRow };
    const row = shown[this.layout.arrangement];
    this.#rows = records.map((tokens, record) => {
      const made = row(tokens, record, this.layout, this.conditions);
      made.dataset.record = record;
      made.setAttribute("role", "row");
      return made;
    });
    this.box.replaceChildren(...this.#rows);
    if (document.activeElement === this.box) this.#move(this.#cursor);
  }

  #placeOf(event) {
    const row = event.target.closest("[data-record]");
    if (!row) return undefined;
    const record = Number(row.dataset.record);
    const cell = event.target.closest("[data-position]");
    const canvas = this.isImage && row.querySelector("canvas");
    const position = canvas ? positionUnder(event, this.layout, canvas) : cell?.dataset.position;
    return position === undefined ? undefined : { record, position: Number(position) };
  }

  #onKey(event) {
    const place = this.#after(event.key);
    if (event.key === "Enter" || event.key === " ") {
      this.onChoose(this.#cursor.record, this.#cursor.position);
    } else if (place) this.#move(place);
    else return;
    event.preventDefault();
  }

  /** Where a key moves the cursor. Left and right lead from one image to the next. */
  #after(key) {
    const { record, position } = this.#cursor;
    const width = this.isImage ? this.layout.shape[1] : 0;
    const leaves = { ArrowLeft: position % width === 0, ArrowRight: (position + 1) % width === 0 };
    const side = key === "ArrowRight" ? 1 : -1;
    if (leaves[key]) return { record: record + side, position: position - side * (width - 1) };
    switch (key) {
      case "ArrowLeft":
      case "ArrowRight":
        return { record, position: position + side };
      case "ArrowUp":
        return this.isImage ? { record, position: position - width } : { record: record - 1, position };
      case "ArrowDown":
        return this.isImage ? { record, position: position + width } : { record: record + 1, position };
      case "PageUp":
        return { record: record - 1, position };
      case "PageDown":
        return { record: record + 1, position };
      case "Home":
        return { record, position: 0 };
      case "End":
        return { record, position: Infinity };
      default:
        return undefined;
    }
  }

  /** Move the cursor to a place, or as near to it as the records allow. */
  #move({ record, position }) {
    record = Math.max(0, Math.min(record, this.records.length - 1));
    // After a text, its end is the last position.
    const last = Math.min(this.layout.end(this.records[record]), this.layout.size - 1);
    if (this.isImage && (position < 0 || position > last) && position !== Infinity) return;
    position = Math.max(0, Math.min(position, last));
    this.#hideCursor();
    this.#cursor = { record, position };
    const row = this.#rows[record];
    if (this.isImage) outline(row.querySelector(".frame"), this.layout, position);
    else row.querySelector(`[data-position="${position}"]`).classList.add("cursor");
    const cell = row.querySelector(".cursor");
    cell.id = "cursor";
    this.box.setAttribute("aria-activedescendant", "cursor");
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.onPoint(record, position);
  }

  #hideCursor() {
    const cell = this.box.querySelector(".cursor");
    if (!cell) return;
    cell.removeAttribute("id");
    cell.classList.remove("cursor");
    if (cell.classList.contains("pixel")) cell.remove();
    this.box.removeAttribute("aria-activedescendant");
  }
}

/** One position of a record. */
function cellOf(name, position, text, conditions, ...classes) {
  const made = element(name, { "data-position": position, role: "gridcell" }, text);
  made.classList.add(...classes);
  if (conditions.at(position) !== undefined) made.classList.add("fixed");
  return made;
}

/** The class of a record, where it is not one of the positions that are shown. */
function classOf(tokens, layout, name = "span") {
  if (!layout.hasSeparateClass) return [];
  return [element(name, { class: "class", role: "gridcell" }, layout.className(tokens))];
}

function textRow(tokens, record, layout, conditions) {
  const end = layout.end(tokens);
  const cells = [];
  for (let position = 0; position < end; position++) {
    const symbol = layout.symbol(position, tokens[position]);
    cells.push(cellOf("span", position, symbol === "\n" ? "↵\n" : symbol, conditions));
  }
  if (end < layout.size) cells.push(cellOf("span", end, "", conditions, "end"));
  const text = element("span", { class: "symbols" }, ...cells);
  return element("div", { "aria-label": layout.text(tokens) }, text, ...classOf(tokens, layout));
}

function tableRow(tokens, record, layout, conditions) {
  const cells = layout.positions.map((_, position) =>
    cellOf("td", position, visible(layout.symbol(position, tokens[position])), conditions),
  );
  return element("tr", {}, ...cells, ...classOf(tokens, layout, "td"));
}

function imageRow(tokens, record, layout, conditions) {
  const isFixed = (position) => conditions.at(position) !== undefined;
  const canvas = image(layout, (position) => tokens[position], isFixed);
  const frame = element("span", { class: "frame" }, canvas);
  const label = `record ${record + 1}, image of ${layout.shape.join(" by ")} pixels`;
  return element("div", { "aria-label": label }, frame, ...classOf(tokens, layout));
}
