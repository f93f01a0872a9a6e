/** The view of a finite chain: exact and learned kernel, and what follows from them. */

import { element } from "../web/dom.js";
import { ask, latest, wholeNumber } from "./api.js";
import { TimeAxis } from "./axis.js";
import { Heatmap, LARGE, unitOf } from "./heatmap.js";
import { drawFlow, drawHistogram, moveLine } from "./plots.js";
import { Rates } from "./rates.js";

const POLL = 300; // milliseconds between questions about the training
const find = (id) => document.getElementById(id);

export class ChainView {
  constructor({ chains, bounds, chain }, report) {
    Object.assign(this, { chains, report });
    this.update = latest(find("chain"), () => this.#update().catch(report));
    find("draws").max = bounds.draws;
    find("preset").append(...Object.keys(chains).map((name) => element("option", {}, name)));
    find("preset").append(element("option", { value: "", hidden: "" }, "edited"));
    find("preset").value = chain ?? "ring";
    this.axis = new TimeAxis(find("axis"), bounds.shortest, this.update);
    this.rates = new Rates(find("rates"), bounds.rate, () => this.#edited());
    const choose = (x) => {
      find("start").value = x;
      this.update();
    };
    this.maps = {
      exact: new Heatmap("True kernel K", "exp of the rates", choose),
      learned: new Heatmap("Learned kernel Kθ", "one forward pass", choose),
      difference: new Heatmap("Difference Kθ − K", "", choose),
      "mean rate": new Heatmap("Mean rate ū", "(K − I) / (t − r)", choose),
    };
    find("heatmaps").append(...Object.values(this.maps).map(({ figure }) => figure));
    this.residual = new Heatmap("Learned residual", "");
    find("residual").append(this.residual.table);
    this.#listen();
    this.#usePreset();
  }

  #listen() {
    find("preset").addEventListener("change", () => {
      this.#usePreset();
      this.show();
    });
    find("start").addEventListener("change", this.update);
    for (const id of ["draws", "chain-seed"]) find(id).addEventListener("change", this.update);
    find("train").addEventListener("click", () => this.#train());
    find("chain").querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  }

  #usePreset() {
    this.rates.show(this.chains[find("preset").value]);
    const { size } = this.rates;
    const states = [...Array(size).keys()].map((x) => element("option", {}, String(x)));
    find("start").replaceChildren(...states);
    find("chain").classList.toggle("large-chain", size >= LARGE);
    this.asked = false;
  }

  #edited() {
    find("preset").value = "";
    this.update();
  }

  /** Draw the view; the first time, train a kernel for the chain. */
  show() {
    this.drawn = undefined;
    if (find("preset").value && !this.asked) {
      this.asked = true;
      return this.#train();
    }
    return this.update();
  }

  async #train() {
    const refused = await ask("api/chain/train", { rates: this.rates.values }).catch((error) => error);
    await this.update();
    if (refused instanceof Error) this.report(refused);
  }

  async #update() {
    const { r, t } = this.axis;
    const question = {
      rates: this.rates.values, r, t, start: Number(find("start").value),
      draws: wholeNumber(find("draws")), seed: wholeNumber(find("chain-seed")),
    };
    const view = await ask("api/chain", question);
    this.#showTraining(view.training, view.learned !== null);
    this.#showMaps(view, question.start);
    this.#showResidual(view);
    await this.#showCharts(view, question);
    Object.assign(find("chain").dataset, { r, t, question: JSON.stringify(question) });
    find("chain").dataset.learned = view.learned !== null;
    this.report(null);
  }

  #showTraining({ progress, error }, isTrained) {
    clearTimeout(this.timer);
    const busy = progress !== null && !isTrained;
    find("train").hidden = busy || isTrained;
    const done = isTrained ? "" : "no learned kernel for these rates";
    find("training").textContent = busy ? `training … ${Math.round(100 * progress)} %` : error ?? done;
    if (busy && !find("chain").hidden) this.timer = setTimeout(this.update, POLL);
  }

  #showMaps(view, column) {
    const { exact, learned, "mean rate": rate } = view;
    const shown = { size: exact.length, column };
    this.maps.exact.show(exact, { ...shown, largest: 1 });
    this.maps.learned.show(learned?.kernel, { ...shown, largest: 1 });
    this.maps["mean rate"].show(rate, { ...shown, largest: largest(rate) });
    const error = largest(learned?.difference);
    const { unit, name } = unitOf(error);
    this.maps.difference.show(learned?.difference, { ...shown, largest: error, unit });
    this.maps.difference.note.textContent = learned ? name : "–";
  }

  #showResidual(view) {
    const learned = view.learned?.residual;
    const most = largest(learned);
    const { unit, name } = unitOf(most);
    find("exact-residual").textContent = view["exact residual"].toExponential(1);
    find("learned-residual").textContent = learned ? most.toExponential(1) : "–";
    find("residual-unit").textContent = learned ? `Learned kernel, ${name}:` : "";
    this.residual.show(learned, { size: view.exact.length, largest: most, unit });
  }

  async #showCharts(view, { rates, r, t, start, draws }) {
    const { learned } = view;
    const drawn = JSON.stringify([rates, r, start, learned !== null]);
    moveLine(find("now"), r, t);
    if (drawn !== this.drawn) {
      await drawFlow(find("flow"), view.times, view["exact flow"], learned?.flow ?? null);
    }
    this.drawn = drawn;
    await drawHistogram(find("histogram"), view.exact.map((row) => row[start]), learned?.samples);
    find("samples-note").textContent = learned
      ? `TV to the exact law ${learned.tv.toFixed(4)}; of ${draws.toLocaleString("en")} exact draws ` +
        `${learned.floor.toFixed(4)}.`
      : "The exact law.";
  }
}

function largest(matrix) {
  return matrix ? Math.max(...matrix.flat().map(Math.abs)) : 0;
}
