/** Random numbers that are the same in every browser. */

/** xoshiro128** (Blackman and Vigna 2021), seeded by splitmix32: integers of 32 bits. */
function integers(seed) {
  let counter = seed | 0;
  const state = Int32Array.from({ length: 4 }, () => {
    counter = (counter + 0x9e3779b9) | 0;
    let z = Math.imul(counter ^ (counter >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return z ^ (z >>> 15);
  });
  const rotate = (x, k) => (x << k) | (x >>> (32 - k));
  return () => {
    const result = Math.imul(rotate(Math.imul(state[1], 5), 7), 9) >>> 0;
    const shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 11);
    return result;
  };
}

/**
 * Standard normal numbers by the Box-Muller transform.
 *
 * Browsers may round the last bit of a logarithm or cosine differently. The result has 29 bits
 * fewer, so this practically never changes it.
 */
export function normals(seed, count) {
  const next = integers(seed);
  const uniform = () => (next() + 0.5) / 2 ** 32; // never 0, whose logarithm is infinite
  const noise = new Float32Array(count);
  for (let i = 0; i < count; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(uniform()));
    const angle = 2 * Math.PI * uniform();
    noise[i] = radius * Math.cos(angle);
    if (i + 1 < count) noise[i + 1] = radius * Math.sin(angle);
  }
  return noise;
}
