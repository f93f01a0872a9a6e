/** What the tokens of a record mean. Positions of a class may follow those of the record. */

export class Layout {
  constructor(model) {
    Object.assign(this, model);
    this.size = this.positions.length;
    this.classPositions = model["class positions"];
    /** Whether the class is not one of the positions that are shown, as a column of a table is. */
    this.hasSeparateClass = this.classPositions.some((position) => position >= this.size);
  }

  /** The symbols of a position in the order of their tokens. */
  symbolsAt(position) {
    if (position >= this.size) return this.symbols[0];
    return this.symbols[this.symbols.length > 1 ? position : 0];
  }

  symbol(position, token) {
    return this.symbolsAt(position)[token] ?? "?";
  }

  /**
   * The number of positions before the end of a record. Pads end a text. A pad before other symbols
   * stays visible, except in subwords, where the first pad ends the text.
   */
  end(tokens) {
    if (this.pad === null) return this.size;
    if (this.subwords) {
      const first = tokens.indexOf(this.pad);
      return first < 0 || first > this.size ? this.size : first;
    }
    let end = this.size;
    while (end > 0 && tokens[end - 1] === this.pad) end--;
    return end;
  }

  /** The record as a string. */
  text(tokens) {
    const shown = Array.from(tokens.subarray(0, this.end(tokens)));
    const symbols = shown.map((token, position) => this.symbol(position, token));
    return symbols.join(this.arrangement === "text" ? "" : " ");
  }

  /** The class of a record: its number in base `vocabulary`, highest digit first. */
  className(tokens) {
    const number = this.classPositions.reduce((sum, p) => sum * this.vocabulary + tokens[p], 0);
    return this.classes[number] ?? "?";
  }

  /** Pairs of position and token that write a class. */
  classTokens(number) {
    const tokens = [];
    for (const position of [...this.classPositions].reverse()) {
      tokens.push([position, number % this.vocabulary]);
      number = Math.floor(number / this.vocabulary);
    }
    return tokens;
  }
}
