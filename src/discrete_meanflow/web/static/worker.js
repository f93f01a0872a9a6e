/** Runs the graph beside the page, which stays responsive. */

import * as ort from "./onnxruntime/ort.js";

// More threads would need cross-origin isolation headers from the web host.
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = { mjs: address("onnxruntime/loader.js"), wasm: address("onnxruntime/ort.wasm") };

const opened = open();

function address(path) {
  return new URL(path, import.meta.url).href;
}

async function open() {
  const response = await fetch(address("model.onnx"));
  if (!response.ok) throw new Error(`model.onnx: ${response.status} ${response.statusText}`);
  return ort.InferenceSession.create(new Uint8Array(await response.arrayBuffer()));
}

/** One forward pass. */
async function pass({ noise, tokens, observed, shape }) {
  const session = await opened;
  const start = performance.now();
  const { probabilities } = await session.run({
    noise: new ort.Tensor("float32", noise, shape),
    tokens: new ort.Tensor("int64", BigInt64Array.from(tokens, BigInt), shape.slice(0, 2)),
    observed: new ort.Tensor("bool", observed, shape.slice(0, 2)),
  });
  const milliseconds = performance.now() - start;
  return { probabilities: await probabilities.getData(), milliseconds };
}

self.onmessage = async ({ data: { id, inputs } }) => {
  try {
    const result = inputs ? await pass(inputs) : void (await opened);
    self.postMessage({ id, result });
  } catch (error) {
    self.postMessage({ id, error: String(error.message ?? error) });
  }
};
