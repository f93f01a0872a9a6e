"""Figures of the experiments on finite chains."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dmf_reproduction.figures.style import BLUE, GREY, ORANGE, PALETTE, RED
from dmf_reproduction.settings import CHAIN_GRID

Json = dict[str, Any]

# -- kernel recovery --------------------------------------------------------------------


def exact_recovery(results: Json) -> dict[str, Figure]:
    names = list(results["facts"])
    single = {name: results["cells"][f"{name}, single sample"] for name in names}
    figures = {
        "kernel-heatmaps": heatmaps(results["facts"], single),
        "error-landscape": error_landscape(single),
        "training-curves": training_curves(single),
        "one-step": one_step(results["facts"][names[-1]], single[names[-1]], names[-1]),
    }
    exact = {n: results["cells"].get(f"{n}, exact expectation") for n in names}
    if all(exact.values()):
        figures["kernel-heatmaps-exact-expectation"] = heatmaps(results["facts"], exact)
        figures["error-landscape-exact-expectation"] = error_landscape(exact)
        stratified = {n: results["cells"][f"{n}, single sample, stratified"] for n in names}
        figures["error-landscape-stratified"] = error_landscape(stratified)
    return figures


def heatmaps(facts: Json, cells: Json) -> Figure:
    """True kernel, learned kernel and absolute error at (r, t) = (0, 1), one row per chain."""
    figure, axes = plt.subplots(len(cells), 3, figsize=(9, 2.9 * len(cells)), squeeze=False)
    for row, (name, cell) in zip(axes, cells.items(), strict=True):
        true = np.array(facts[name]["kernel"])
        learned = np.array(cell["measurements"][0]["kernel"])
        top = max(true.max(), learned.max())
        panels = (
            (true, f"{name}: true K", "viridis", top),
            (learned, "learned K_θ (first seed)", "viridis", top),
            (abs(learned - true), f"|error|, max {abs(learned - true).max():.1e}", "magma", None),
        )
        for axis, (matrix, title, colours, limit) in zip(row, panels, strict=True):
            image = axis.imshow(matrix, cmap=colours, vmin=0, vmax=limit)
            axis.set(title=title, xlabel="start state x", ylabel="end state y")
            axis.set_xticks(range(len(true)))
            axis.set_yticks(range(len(true)))
            figure.colorbar(image, ax=axis, shrink=0.85)
            if len(true) <= 4:
                for (y, x), value in np.ndenumerate(matrix):
                    text = f"{value:.3f}" if limit else f"{value:.0e}"
                    light = value < (limit or matrix.max()) / 2
                    axis.text(x, y, text, ha="center", va="center", color="w" if light else "k")
    return figure


def error_landscape(cells: Json) -> Figure:
    """``max_{x,y} |K_theta - K|`` at each (r, t) of the grid, mean over seeds."""
    figure, axes = plt.subplots(1, len(cells), figsize=(3.6 * len(cells), 3.1), squeeze=False)
    i, j = np.triu_indices(CHAIN_GRID)
    for axis, (name, cell) in zip(axes[0], cells.items(), strict=True):
        errors = np.mean([m["error_grid"] for m in cell["measurements"]], axis=0)
        grid = np.full((CHAIN_GRID, CHAIN_GRID), np.nan)
        grid[i, j] = errors
        image = axis.imshow(grid, origin="lower", extent=(0, 1, 0, 1), cmap="magma")
        worst = np.mean([m["max_error"] for m in cell["measurements"]])
        axis.set(title=f"{name}: max {worst:.1e}", xlabel="t", ylabel="r")
        figure.colorbar(image, ax=axis, shrink=0.85)
    return figure


def training_curves(cells: Json) -> Figure:
    """Left: loss. Right: four errors during training, mean over seeds."""
    figure, axes = plt.subplots(len(cells), 2, figsize=(9, 2.5 * len(cells)), squeeze=False)
    for (left, right), (name, cell) in zip(axes, cells.items(), strict=True):
        curve = cell["curve"]
        left.plot(curve["iteration"], np.mean(curve["loss"], 1), color=BLUE, lw=0.8)
        left.set(title=f"{name}: kernel-residual loss", xlabel="iteration")
        for colour, key in zip(
            PALETTE, ("max_error", "mean_error", "column_tv", "one_step_tv"), strict=False
        ):
            right.semilogy(
                curve["at"], np.mean(curve[key], 1), color=colour, label=key.replace("_", " ")
            )
        right.set(title=f"{name}: error of the kernel", xlabel="iteration")
        right.legend(ncols=2)
    return figure


def one_step(facts: Json, cell: Json, name: str) -> Figure:
    """True and learned distribution and one-step samples from the first start states."""
    true = np.array(facts["kernel"])
    measured = cell["measurements"][0]
    learned, counts = np.array(measured["kernel"]), np.array(measured["one_step_counts"])
    starts = min(4, len(true))
    figure, axes = plt.subplots(1, starts, figsize=(2.8 * starts, 2.6), sharey=True)
    for x, axis in enumerate(axes):
        states = np.arange(len(true))
        axis.bar(states - 0.27, true[:, x], 0.27, color=BLUE, label="true K")
        axis.bar(states, learned[:, x], 0.27, color=RED, label="learned K_θ")
        sampled = counts[x] / counts[x].sum()
        axis.bar(states + 0.27, sampled, 0.27, color=ORANGE, label=f"{counts[x].sum():,} samples")
        axis.set(title=f"{name}: from x₀ = {x}", xlabel="y")
        axis.set_xticks(states)
    axes[0].set_ylabel("probability at t = 1")
    axes[0].legend(fontsize=7)
    return figure


# -- ablations --------------------------------------------------------------------------


def boundary_ablation(results: Json) -> dict[str, Figure]:
    keys = {
        "max_error": "maximum kernel error",
        "mean_error": "mean kernel error",
        "column_tv": "column TV",
        "one_step_tv_sampled": "one-step TV (sampled)",
        "one_step_tv_exact": "one-step TV (exact)",
    }
    figure, axes = plt.subplots(1, len(keys), figsize=(2.3 * len(keys), 2.7))
    for axis, (key, title) in zip(axes, keys.items(), strict=True):
        for shift, (cell, colour) in enumerate((("construction", BLUE), ("penalty", RED))):
            values = [m[key] for m in results["cells"][cell]["measurements"]]
            places = np.arange(len(values)) + 0.38 * (shift - 0.5)
            axis.bar(places, values, 0.38, color=colour, label=f"by {cell}")
        if key == "one_step_tv_sampled":
            axis.axhline(results["facts"]["ring"]["one_step_tv_floor"], color=GREY, ls="--", lw=1)
        axis.set(title=title, xlabel="seed")
        axis.set_xticks(range(len(results["seeds"])), results["seeds"])
    axes[0].legend(fontsize=7)
    return {"boundary-ablation": figure}


def bars_beside_paper(results: Json) -> dict[str, Figure]:
    """Kernel TV of each cell beside the paper's, taken from the claims."""
    claims = {c["id"].partition("/")[2]: c["paper"] for c in results["claims"]}
    values = [[m["column_tv"] for m in c["measurements"]] for c in results["cells"].values()]
    figure, axis = plt.subplots(figsize=(5.2, 2.8))
    places = np.arange(len(values))
    axis.bar(places - 0.2, [claims[c] for c in results["cells"]], 0.4, color=GREY, label="paper")
    axis.bar(places + 0.2, np.mean(values, 1), 0.4, color=BLUE, label="ours")
    axis.errorbar(places + 0.2, np.mean(values, 1), np.std(values, 1), fmt="none", ecolor="k")
    axis.set_xticks(places, list(results["cells"]))
    axis.set(yscale="log", ylabel="mean kernel TV", title=results["title"])
    axis.legend()
    return {results["experiment"]: figure}


def chain_objectives(results: Json) -> dict[str, Figure]:
    pairs = [tuple(name.rsplit(", ", 1)) for name in results["cells"]]
    names = list(dict.fromkeys(chain for chain, _ in pairs))
    figure, axes = plt.subplots(1, len(names), figsize=(3.1 * len(names), 3), squeeze=False)
    for axis, chain in zip(axes[0], names, strict=True):
        objectives = [objective for c, objective in pairs if c == chain]
        for colour, objective in zip(PALETTE, objectives, strict=False):
            curve = results["cells"][f"{chain}, {objective}"]["curve"]
            errors = np.mean(curve["max_error"], 1)
            axis.semilogy(curve["at"], errors, color=colour, label=objective)
        axis.set(title=chain, xlabel="iteration")
    axes[0][0].set_ylabel("maximum kernel error")
    lines, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels))
    return {"error-against-iterations": figure}


def mean_rate(results: Json) -> dict[str, Figure]:
    facts = results["facts"]
    t, kernel, rate = (np.array(facts[key]) for key in ("t", "kernel", "mean_rate"))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
    for y in range(kernel.shape[1]):
        label = f"y = {y}" + (" (source)" if y == facts["source"] else "")
        left.plot(t, kernel[:, y], color=PALETTE[y], label=label)
        right.plot(t, rate[:, y], color=PALETTE[y], label=label)
    left.set(title="K_{0,t}(y, x=1)", xlabel="t", ylabel="probability")
    right.set(title="ū(y, x=1, 0, t)", xlabel="t", ylabel="mean rate")
    right.axhline(0, color="k", lw=0.7)
    left.legend()
    return {"mean-rate": figure}


def simulable(results: Json) -> dict[str, Figure]:
    facts = results["facts"]
    truth = np.array(facts["truth"])
    shown = int(np.nonzero(np.array(facts["simulated"]))[0].max()) + 1
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3))
    left.plot(truth[:shown], color=BLUE, label="exact")
    left.plot(facts["simulated"][:shown], color=GREY, lw=0.8, label="simulation")
    for colour, (name, cell) in zip((RED, ORANGE), results["cells"].items(), strict=True):
        samples = cell["measurements"][0]["frequencies"][:shown]
        left.plot(samples, ".", ms=3, color=colour, label=f"one step, {name.split(', ')[1]}")
        curve = cell["curve"]
        right.semilogy(
            curve["at"], np.mean(curve["one_step_tv"], 1), color=colour, label=name.split(", ")[1]
        )
    left.set(title="distribution of X_1", xlabel="customers", yscale="log", ylim=(1e-5, 1))
    right.axhline(facts["floor"], color=GREY, ls="--", lw=1, label="sampling floor")
    right.set(title="exact one-step TV", xlabel="iteration")
    left.legend(fontsize=7)
    right.legend(fontsize=7)
    return {"simulable": figure}
