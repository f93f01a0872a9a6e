/** A new element with attributes and children. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** How a symbol is shown where white space would be invisible. */
export function visible(symbol) {
  return { " ": "␣", "\n": "↵", "\t": "⇥", "": "end" }[symbol] ?? symbol;
}

/** A menu of symbols after one entry of its own, whose value is empty. */
export function menu(label, first, symbols) {
  const options = symbols.map((symbol, token) => element("option", { value: token }, visible(symbol)));
  return element("select", { "aria-label": label }, element("option", { value: "" }, first), ...options);
}
