/** Generates records: noise and observed tokens in, tokens and their probabilities out. */

export class Generator {
  #worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  #waiting = new Map();
  #last = 0;

  constructor({ length, vocabulary }) {
    Object.assign(this, { length, vocabulary });
    this.#worker.onmessage = ({ data: { id, result, error } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) resolve(result);
      else reject(new Error(error));
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      const error = new Error(event.message ?? "this browser cannot run the model");
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    };
  }

  /** Resolves when the graph is loaded. */
  ready() {
    return this.#ask(undefined);
  }

  /**
   * One forward pass.
   *
   * @param noise standard normal numbers: n records of `length` positions of `vocabulary` symbols.
   * @param tokens of the observed positions: n records of `length` positions; ignored elsewhere.
   * @param observed which positions are observed, of the same shape.
   * @returns `probabilities`, shaped as the noise; `tokens`, the most likely ones; `milliseconds`.
   */
  async generate(noise, tokens, observed) {
    const n = noise.length / (this.length * this.vocabulary);
    if (!Number.isInteger(n) || tokens.length !== n * this.length) {
      throw new Error(`noise must have n x ${this.length} x ${this.vocabulary} numbers`);
    }
    const { probabilities, milliseconds } = await this.#ask({
      noise: Float32Array.from(noise),
      tokens: Int32Array.from(tokens),
      observed: Uint8Array.from(observed),
      shape: [n, this.length, this.vocabulary],
    });
    return { probabilities, tokens: argmax(probabilities, this.vocabulary), milliseconds };
  }

  #ask(inputs) {
    return new Promise((resolve, reject) => {
      const id = ++this.#last;
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, inputs });
    });
  }
}

/** The index of the largest of each `width` numbers, the first of equal ones. */
function argmax(numbers, width) {
  return Int32Array.from({ length: numbers.length / width }, (_, row) => {
    let best = row * width;
    for (let i = best + 1; i < (row + 1) * width; i++) if (numbers[i] > numbers[best]) best = i;
    return best - row * width;
  });
}
