/** Questions to the server. */

/** The answer to a question; without a question, a plain read. Throws what the server says is wrong. */
export async function ask(path, question) {
  const request = question && {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question),
  };
  const response = await fetch(path, request).catch(() => {
    throw new Error("The server does not answer; start dmf explore again.");
  });
  if (response.ok) return response.json();
  const { error } = await response.json().catch(() => ({}));
  throw new Error(error ?? `The server reports an error: ${response.status}.`);
}

/**
 * An action that never runs twice at a time: calls during a run start one more run after it. The
 * function resolves when the last run is over; until then the element `box` is busy.
 */
export function latest(box, action) {
  let running;
  let outdated = false;
  const run = async () => {
    do {
      outdated = false;
      await action();
    } while (outdated);
    box.setAttribute("aria-busy", false);
    running = undefined;
  };
  return () => {
    outdated = true;
    box.setAttribute("aria-busy", true);
    running ??= run();
    return running;
  };
}

/** The whole number in a field, moved to its limits. */
export function wholeNumber(input) {
  const { min, max, valueAsNumber } = input;
  const number = Math.max(Number(min), Math.min(Number(max), Math.trunc(valueAsNumber) || 0));
  input.value = number;
  return number;
}
