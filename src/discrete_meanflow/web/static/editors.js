/** How the visitor fixes positions besides clicking them: a typed pattern, menus or a brush. */

import { element, menu } from "./dom.js";
import { image, positionUnder } from "./image.js";
import { formatPattern, parsePattern } from "./pattern.js";

const PICTURE = 176; // width of the picture to paint on, in CSS pixels, approximately

/**
 * The editor of a layout: `controls`, what stands `above` the records, and `update`, which shows the
 * present conditions.
 *
 * @param conditions to edit.
 * @param onChange called after each edit.
 * @param suffix of the ids, where a page has several editors.
 */
export function editorOf(conditions, onChange, suffix = "") {
  const editor = recordEditor(conditions, onChange, suffix);
  if (!conditions.layout.hasSeparateClass) return editor;
  const classes = classMenu(conditions, onChange, suffix);
  const update = () => {
    editor.update();
    classes.update();
  };
  return { ...editor, controls: [...editor.controls, ...classes.controls], update };
}

function recordEditor(conditions, onChange, suffix) {
  const { arrangement, subwords } = conditions.layout;
  if (arrangement === "row") return columnMenus(conditions, onChange);
  if (arrangement === "grid") return brush(conditions, onChange, suffix);
  // A typed text needs the tokenizer to become subwords.
  if (subwords) return { controls: [], above: [], update() {} };
  return typedPattern(conditions, onChange, suffix);
}

/** A menu of classes, where the class is not a column. */
function classMenu(conditions, onChange, suffix) {
  const { layout } = conditions;
  const id = `class${suffix}`;
  const select = menu("class", "any", layout.classes);
  select.id = id;
  select.addEventListener("change", () => {
    for (const [position, token] of layout.classTokens(Number(select.value))) {
      if (select.value === "") conditions.release(position);
      else conditions.fix(position, token);
    }
    onChange();
  });
  const label = element("label", { for: id }, "Class");
  const update = () => {
    if (!layout.classPositions.some((position) => conditions.at(position) !== undefined)) {
      select.value = "";
    }
  };
  return { controls: [element("div", { class: "field" }, label, select)], update };
}

function typedPattern(conditions, onChange, suffix) {
  const { layout } = conditions;
  const listed = layout.arrangement === "list";
  const id = `pattern${suffix}`;
  const input = element("input", {
    id, class: "pattern", autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    placeholder: listed ? "0,?,3" : "??", "aria-describedby": `${id}-help`,
  });
  const help = element("small", { id: `${id}-help`, role: "status" });
  const ends = layout.pad === null ? "" : `; ${layout.symbol(0, layout.pad)} ends the record`;
  const explain = (error) => {
    help.textContent = error ?? `? is generated${ends}`;
    input.setAttribute("aria-invalid", error !== undefined);
  };
  input.addEventListener("input", () => {
    try {
      conditions.replaceRecord(parsePattern(input.value, layout));
    } catch (error) {
      explain(error.message);
      return;
    }
    explain();
    onChange();
  });
  explain();
  const label = element("span", {}, element("label", { for: id }, "Pattern "), help);
  const update = () => {
    if (document.activeElement === input) return; // it is being typed
    input.value = formatPattern(conditions);
    explain();
  };
  return { controls: [element("div", { class: "field wide" }, label, input)], above: [], update };
}

function columnMenus(conditions, onChange) {
  const { layout } = conditions;
  const menus = layout.positions.map((name, position) => {
    const select = menu(`fix ${name}`, "any", layout.symbolsAt(position));
    select.addEventListener("change", () => {
      if (select.value === "") conditions.release(position);
      else conditions.fix(position, Number(select.value));
      onChange();
    });
    return select;
  });
  const update = () => {
    menus.forEach((select, position) => {
      select.value = conditions.at(position) ?? "";
    });
  };
  const names = [...layout.positions, ...(layout.hasSeparateClass ? ["class"] : [])];
  const heading = names.map((name) => element("th", { scope: "col" }, name));
  const choices = menus.map((select) => element("th", {}, select));
  if (layout.hasSeparateClass) choices.push(element("th"));
  const rows = [heading, choices].map((cells) => element("tr", {}, ...cells));
  return { controls: [], above: [element("thead", {}, ...rows)], update };
}

function brush(conditions, onChange, suffix) {
  const { layout } = conditions;
  const levels = layout.symbols[0];
  const select = menu("brush", "free", levels);
  select.id = `brush${suffix}`;
  select.value = levels.length - 1;
  const easel = element("div", { class: "frame easel" });
  let canvas;
  const update = () => {
    const isFree = () => false;
    canvas = image(layout, (position) => conditions.at(position), isFree, PICTURE);
    easel.replaceChildren(canvas);
  };
  const paint = (event) => {
    const position = positionUnder(event, layout, canvas);
    if (position === undefined || !event.buttons) return;
    if (select.value === "") conditions.release(position);
    else conditions.fix(position, Number(select.value));
    update();
  };
  easel.addEventListener("pointerdown", (event) => {
    easel.setPointerCapture(event.pointerId);
    paint(event);
  });
  easel.addEventListener("pointermove", paint);
  easel.addEventListener("pointerup", onChange);
  const field = element("div", { class: "field" }, element("label", { for: select.id }, "Brush"), select);
  const help = element("small", {}, "Paint pixels to fix them.");
  return { controls: [field], above: [element("div", { class: "studio" }, easel, help)], update };
}
