/** The explorer: two views, chosen by the fragment of the address. */

import { ask } from "./api.js";
import { ChainView } from "./chain.js";
import { RunsView } from "./runs.js";

const find = (id) => document.getElementById(id);

/** Show what went wrong; null hides it. */
function report(error) {
  find("failure").textContent = error?.message ?? "";
  find("failure").hidden = !error;
}

async function start() {
  const facts = await ask("api/start");
  const views = { chain: new ChainView(facts, report), runs: new RunsView(facts, report) };
  const first = facts.chain === null ? "runs" : "chain";
  const show = () => {
    const name = location.hash.slice(1) in views ? location.hash.slice(1) : first;
    for (const id of Object.keys(views)) find(id).hidden = id !== name;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    report(null);
    views[name].show();
  };
  addEventListener("hashchange", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

start().catch(report);
