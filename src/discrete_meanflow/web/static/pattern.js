/** Patterns of `dmf sample --infill`: `ma??` for text, `0,?,3` for lists. */

const UNKNOWN = "?";

/** Pairs of position and token that a pattern fixes. Throws an error that says what is wrong. */
export function parsePattern(pattern, layout) {
  const symbols = layout.arrangement === "list" ? cells(pattern) : tokenised(pattern, layout);
  if (symbols.length > layout.size) {
    throw new Error(`${symbols.length} positions; records have at most ${layout.size}`);
  }
  const tokens = symbols.map((symbol, position) => {
    const token = symbol === null ? null : layout.symbolsAt(position).indexOf(symbol);
    if (token === -1) throw new Error(`position ${position + 1} cannot be “${symbol}”`);
    return token;
  });
  const end = layout.pad === null ? -1 : tokens.indexOf(layout.pad);
  if (end >= 0) {
    if (tokens.slice(end).some((token) => token !== null && token !== layout.pad)) {
      throw new Error(`text after “${layout.symbol(0, layout.pad)}”, which ends a record`);
    }
    for (let i = end; i < layout.size; i++) tokens[i] = layout.pad;
  }
  return [...tokens.entries()].filter(([, token]) => token !== null);
}

function cells(pattern) {
  if (!pattern.trim()) return [];
  const parts = pattern.split(",").map((part) => part.trim());
  return parts.map((part) => (part === UNKNOWN || !part ? null : part));
}

/** The symbols of a text, null for each unknown one. */
function tokenised(pattern, layout) {
  const known = [...layout.symbolsAt(0)].filter((symbol) => [...symbol].length > 1);
  known.sort((a, b) => b.length - a.length);
  const escaped = known.map((symbol) => symbol.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"));
  const symbol = new RegExp([...escaped, "."].join("|"), "gsu");
  const symbols = [];
  let run = "";
  const endRun = () => {
    symbols.push(...(run.match(symbol) ?? []));
    run = "";
  };
  for (const character of characters(pattern, layout)) {
    if (character !== null) run += character;
    else {
      endRun();
      symbols.push(null);
    }
  }
  endRun();
  return symbols;
}

/** The escapes of a layout: `\n` and `\t` only where they are symbols. */
function escapes(layout) {
  const white = Object.entries({ n: "\n", t: "\t" });
  const symbols = new Set(layout.symbolsAt(0));
  return new Map([["?", "?"], ["\\", "\\"], ...white.filter(([, char]) => symbols.has(char))]);
}

function* characters(pattern, layout) {
  const escaped = escapes(layout);
  const rest = pattern[Symbol.iterator]();
  for (const character of rest) {
    if (character !== "\\") {
      yield character === UNKNOWN ? null : character;
      continue;
    }
    const name = rest.next().value ?? "\\";
    if (!escaped.has(name)) throw new Error(`unknown escape \\${name}; write a backslash as \\\\`);
    yield escaped.get(name);
  }
}

/** The shortest pattern that fixes what the conditions fix. */
export function formatPattern(conditions) {
  const { layout } = conditions;
  const tokens = Array.from({ length: layout.size }, (_, position) => conditions.at(position));
  const isPad = (token) => layout.pad !== null && token === layout.pad;
  while (tokens.length && tokens.at(-1) === undefined) tokens.pop();
  // The last pads mean the same as one of them.
  while (tokens.length > 1 && isPad(tokens.at(-1)) && isPad(tokens.at(-2))) tokens.pop();
  if (layout.arrangement === "list") {
    return tokens.map((token, i) => (token === undefined ? UNKNOWN : layout.symbol(i, token))).join();
  }
  const names = new Map([...escapes(layout)].map(([name, char]) => [char, `\\${name}`]));
  const written = (text) => [...text].map((char) => names.get(char) ?? char).join("");
  return tokens
    .map((token, i) => (token === undefined ? UNKNOWN : written(layout.symbol(i, token))))
    .join("");
}
