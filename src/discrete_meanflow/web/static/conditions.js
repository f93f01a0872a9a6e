/** The positions that the visitor has fixed, and their tokens. */

export class Conditions {
  #tokens = new Map();

  constructor(layout) {
    this.layout = layout;
  }

  get count() {
    return this.#tokens.size;
  }

  /** The token of a position, undefined if it is free. */
  at(position) {
    return this.#tokens.get(position);
  }

  /** Fix a position. A pad ends the record, so all positions after it become pads. */
  fix(position, token) {
    this.#tokens.set(position, token);
    if (token !== this.layout.pad || position >= this.layout.size) return;
    for (let i = position; i < this.layout.size; i++) this.#tokens.set(i, token);
  }

  /** Free a position; with a pad, also those after it. */
  release(position) {
    const token = this.at(position);
    this.#tokens.delete(position);
    if (token !== this.layout.pad || position >= this.layout.size) return;
    for (let i = position + 1; this.at(i) === token && i < this.layout.size; i++) {
      this.#tokens.delete(i);
    }
  }

  clear() {
    this.#tokens.clear();
  }

  /** Replace what is fixed in the record; the class stays. */
  replaceRecord(tokens) {
    for (let i = 0; i < this.layout.size; i++) this.#tokens.delete(i);
    for (const [position, token] of tokens) this.#tokens.set(position, token);
  }

  /** Pairs of position and token. */
  pairs() {
    return [...this.#tokens];
  }

  /** Inputs of the graph for n records: `tokens` and `observed`. */
  inputs(n) {
    const { length } = this.layout;
    const tokens = new Int32Array(n * length);
    const observed = new Uint8Array(n * length);
    for (const [position, token] of this.#tokens) {
      for (let record = 0; record < n; record++) {
        tokens[record * length + position] = token;
        observed[record * length + position] = 1;
      }
    }
    return { tokens, observed };
  }
}
