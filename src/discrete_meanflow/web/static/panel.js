/** The probabilities of the symbols at one position. */

import { element, visible } from "./dom.js";

const MOST = 8; // symbols that are shown
const LEAST = 0.0005; // probability of those after the first

/**
 * Show the likeliest symbols of a position in the element `box`.
 *
 * @param law the probability of each symbol.
 */
export function showProbabilities(box, { layout, record, position, law, isFixed }) {
  const order = [...law.keys()].sort((a, b) => law[b] - law[a] || a - b);
  const shown = order.slice(0, MOST).filter((token, i) => !i || law[token] >= LEAST);
  const place = { text: "Position ", list: "Position ", row: "", grid: "" }[layout.arrangement];
  const title = `${place}${layout.positions[position]}`;
  const bars = shown.map((token) => bar(visible(layout.symbol(position, token)), law[token]));
  box.replaceChildren(
    element("h2", {}, title, element("small", {}, ` of record ${record + 1}`)),
    element("p", {}, isFixed ? "fixed" : "generated"),
    element("dl", {}, ...bars.flat()),
  );
}

function bar(symbol, probability) {
  const percent = (100 * probability).toFixed(probability < 0.0995 ? 1 : 0);
  const filled = element("span", { class: "bar" });
  filled.style.setProperty("--share", probability);
  return [element("dt", {}, symbol), element("dd", {}, filled, `${percent} %`)];
}
