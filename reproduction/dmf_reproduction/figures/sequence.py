"""Figures of the experiments on sequences."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dmf_reproduction.figures.style import BLUE, GREEN, GREY, ORANGE, RED
from dmf_reproduction.settings import BASELINES, BEST, ESTIMATORS, FLOW_MAP, LAMBDAS, STEPS

Json = dict[str, Any]
COLOURS = {"KR": BLUE, "PR": GREEN, "KCE": ORANGE}


def values(results: Json, cell: str, key: str) -> np.ndarray:
    """A measurement of a cell for each seed: shape ``(seeds,)`` or ``(seeds, steps)``."""
    return np.array([m[key] for m in results["cells"][cell]["measurements"]])


# -- objectives ---------------------------------------------------------------------------


def objective_comparison(results: Json) -> dict[str, Figure]:
    return {"objective-comparison": bars(results), "training": exact_tv_curves(results)}


def bars(results: Json) -> Figure:
    """(a) token accuracy, (b) TV with its floor, (c) cross-entropy, for each configuration."""
    names = list(results["facts"])
    panels = (
        ("accuracy", "(a) token accuracy", "accuracy"),
        ("tv", "(b) one-step TV, 5,000 samples", "floor"),
        ("cross_entropy", "(c) cross-entropy to the true marginals", "cross_entropy"),
    )
    figure, axes = plt.subplots(3, 1, figsize=(1.6 + 1.1 * len(names), 7.5), sharex=True)
    places = np.arange(len(names))
    for axis, (key, title, truth) in zip(axes, panels, strict=True):
        for shift, (objective, colour) in enumerate(COLOURS.items()):
            found = [values(results, f"{name}, {objective}", key) for name in names]
            found = [v[:, 0] if v.ndim == 2 else v for v in found]
            axis.bar(
                places + 0.26 * (shift - 1),
                [v.mean() for v in found],
                0.26,
                yerr=[v.std() for v in found],
                color=colour,
                label=objective,
                error_kw={"lw": 0.8},
            )
        marks = [results["facts"][name][truth] for name in names]
        axis.hlines(
            marks, places - 0.4, places + 0.4, color="k", lw=1.2, label="draws from the data"
        )
        axis.set_title(title)
    axes[1].set_yscale("log")
    axes[-1].set_xticks(places, [name.replace(" (", "\n(") for name in names])
    axes[0].legend(ncols=4)
    return figure


def exact_tv_curves(results: Json) -> Figure:
    """Exact one-step TV during training, one panel per configuration."""
    names = list(results["facts"])
    figure, axes = _panels(len(names), rows=len(names) // 3 or 1)
    for axis, name in zip(axes.flat, names, strict=False):
        for objective, colour in COLOURS.items():
            curve = results["cells"][f"{name}, {objective}"]["curve"]
            axis.semilogy(curve["at"], np.mean(curve["exact_tv"], 1), color=colour, label=objective)
        axis.set_title(name)
    axes.flat[0].legend()
    figure.supxlabel("iteration")
    figure.supylabel("exact one-step TV")
    return figure


def target_variance(results: Json) -> dict[str, Figure]:
    """Left: variance of both targets. Right: norm of the KR target and two scalings."""
    rows, vocabulary = results["facts"]["rows"], results["facts"]["vocabulary"]
    t = np.array([row["t"] for row in rows])
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2))
    left.semilogy(t, [row["KR"] for row in rows], "o-", color=BLUE, label="KR, masked positions")
    left.semilogy(
        t, [row["KR, all positions"] for row in rows], "^:", color=BLUE, label="KR, all positions"
    )
    left.semilogy(t, [row["PR"] for row in rows], "s-", color=GREEN, label="PR")
    left.set(title="per-element target variance", xlabel="t")
    right.semilogy(t, [row["norm"] for row in rows], "o", color=BLUE, label="measured")
    right.semilogy(t, np.sqrt(2) / (1 - t), color=GREY, label="√2 / (1 − t)")
    right.semilogy(t, np.sqrt(vocabulary) / (1 - t), "--", color=RED, label="√|V| / (1 − t), paper")
    right.set(title="L2 norm of the KR target", xlabel="t")
    left.legend()
    right.legend()
    return {"target-variance": figure}


# -- several steps ------------------------------------------------------------------------


def multi_step(results: Json) -> dict[str, Figure]:
    names = list(results["facts"])
    figure, axes = _panels(len(names), rows=2, columns=len(names), height=2.4)
    for row, objective in zip(axes, ("KR", "PR"), strict=True):
        for axis, name in zip(row, names, strict=True):
            tv = values(results, f"{name}, {objective}", "tv")
            axis.bar(range(4), tv.mean(0), yerr=tv.std(0), color=COLOURS[objective], width=0.7)
            axis.axhline(results["facts"][name]["floor"], color=GREY, ls="--", lw=1)
            axis.set_xticks(range(4), STEPS)
            axis.set_title(f"{objective}, {name}")
    figure.supxlabel("steps (dashed: sampling floor)")
    figure.supylabel("TV, 5,000 samples")
    return {"multi-step": figure, "step-comparison": steps_of(results, ("KR", "PR"))}


def steps_of(results: Json, objectives: tuple[str, ...]) -> Figure:
    """TV from many samples against the number of steps."""
    names = list(results["facts"])
    figure, axes = _panels(len(names), columns=len(names), height=2.6)
    for axis, name in zip(axes.flat, names, strict=True):
        for objective in objectives:
            tv = values(results, f"{name}, {objective}", "tv_many")
            colour = COLOURS["PR" if objective == "KCE" else objective]
            axis.plot(STEPS, tv.mean(0), "o-", color=colour, label=objective)
        fact = results["facts"][name]
        if "exact" in fact:
            axis.plot(STEPS, fact["exact"]["tv_many"], "x:", color=RED, label="exact posterior")
        axis.axhline(fact["floor_many"], color=GREY, ls="--", lw=1)
        axis.set(title=name, xscale="log", yscale="log")
        axis.set_xticks(STEPS, STEPS)
        axis.minorticks_off()
    axes.flat[0].legend()
    figure.supxlabel("steps (dashed: sampling floor)")
    figure.supylabel("TV, 100,000 samples")
    return figure


def hybrid_sweep(results: Json) -> dict[str, Figure]:
    """Top: TV against lambda. Bottom: token accuracy."""
    names = list(results["facts"])
    figure, axes = _panels(len(names), rows=2, columns=len(names), height=2.4)
    for column, name in enumerate(names):
        fact = results["facts"][name]
        for row, (key, truth) in enumerate((("tv", "floor"), ("accuracy", "accuracy"))):
            axis = axes[row][column]
            found = [values(results, f"{name}, {o}", key).mean(0) for o in LAMBDAS.values()]
            axis.plot([np.ravel(v)[0] for v in found], "o-", color=BLUE, label="samples")
            axis.axhline(fact[truth], color=GREY, ls="--", lw=1)
            axis.set_xticks(range(len(LAMBDAS)), [k.replace("inf", "∞") for k in LAMBDAS])
        exact = [values(results, f"{name}, {o}", "exact_tv").mean() for o in LAMBDAS.values()]
        axes[0][column].plot(exact, "s:", color=ORANGE, label="exact")
        axes[0][column].set(title=name, yscale="log")
    axes[0][0].set_ylabel("TV")
    axes[1][0].set_ylabel("token accuracy")
    axes[0][0].legend()
    figure.supxlabel("λ (dashed: draws from the data)")
    return {"hybrid-sweep": figure, "hybrid-steps": steps_of(results, ("KR", "KCE"))}


# -- estimators ---------------------------------------------------------------------------

ESTIMATOR_COLOURS = dict(
    zip(
        (*ESTIMATORS, *BASELINES),
        (BLUE, "#7fa6dd", ORANGE, "#b8860b", RED, GREEN, "#2d6a4f", GREY),
        strict=True,
    )
)


def estimators(results: Json) -> dict[str, Figure]:
    names = list(results["facts"]["configurations"])
    training, training_axes = _panels(len(names), columns=len(names), height=3)
    steps, steps_axes = _panels(len(names), columns=len(names), height=3)
    for left, right, name in zip(training_axes.flat, steps_axes.flat, names, strict=True):
        for objective, colour in ESTIMATOR_COLOURS.items():
            cell = f"{name}, {objective}"
            curve = results["cells"][cell]["curve"]
            left.semilogy(curve["at"], np.mean(curve["exact_tv"], 1), color=colour, label=objective)
            tv = values(results, cell, "tv_many").mean(0)
            right.loglog(STEPS, tv, "o-", ms=3, color=colour, label=objective)
        right.axhline(
            results["facts"]["configurations"][name]["floor_many"], color="k", ls="--", lw=0.8
        )
        right.set_xticks(STEPS, STEPS)
        right.minorticks_off()
        left.set_title(name)
        right.set_title(name)
    for figure, axes, label in (
        (training, training_axes, "exact one-step TV against iteration"),
        (steps, steps_axes, "TV from many samples against steps (dashed: floor)"),
    ):
        lines, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside lower center", ncols=4)
        figure.suptitle(label, fontsize=9)
    return {"training": training, "steps": steps, "target-variance": variance_against_t(results)}


def variance_against_t(results: Json) -> Figure:
    """Variance of each target from all masks; the weighted one differs by (1 - r)^2."""
    found = dict(results["facts"]["target_variance"])
    t = found.pop("t")
    figure, axis = plt.subplots(figsize=(4.6, 3))
    for name, variance in found.items():
        axis.semilogy(t, variance, "o-", ms=3, color=ESTIMATOR_COLOURS[name], label=name)
    axis.set(title="variance of the target given x_r, r = 0", xlabel="t")
    axis.legend()
    return figure


def ordered_steps(results: Json) -> dict[str, Figure]:
    """TV of marginals and of adjacent pairs: unmasking at random and in order."""
    facts = results["facts"]
    figure, axes = _panels(2 * len(facts), rows=2, columns=len(facts), height=2.6)
    for column, (name, fact) in enumerate(facts.items()):
        for row, (key, floor) in enumerate((("tv_many", "floor_many"), ("pair_tv", "pair_floor"))):
            axis = axes[row][column]
            lines = {
                "exact q, at random": (fact["at random"][key], BLUE),
                "exact q, in order": (fact["in order"][key], RED),
                "KL form, in order": (values(results, f"{name}, {BEST}", key).mean(0), GREEN),
            }
            for label, (line, colour) in lines.items():
                axis.loglog(STEPS, line, "o-", ms=3, color=colour, label=label)
            axis.axhline(fact[floor], color=GREY, ls="--", lw=1)
            axis.set_xticks(STEPS, STEPS)
            axis.minorticks_off()
        axes[0][column].set_title(name)
    axes[0][0].set_ylabel("TV of marginals")
    axes[1][0].set_ylabel("TV of adjacent pairs")
    axes[1][0].legend(fontsize=7)
    figure.supxlabel("steps (dashed: sampling floor)")
    return {"ordered-steps": figure}


def structured_noise(results: Json) -> dict[str, Figure]:
    """The maximum error over all start sequences at each (r, t), per noise and objective."""
    points = results["facts"]["grid"]
    rows: dict[str, list[str]] = {}
    for cell in results["cells"]:
        rows.setdefault(cell.split(", ")[0], []).append(cell)
    columns = max(map(len, rows.values()))
    figure, axes = _panels(columns * len(rows), rows=len(rows), columns=columns, height=2.2)
    for row, cells in zip(axes, rows.values(), strict=True):
        for axis, cell in zip(row, cells, strict=True):
            grid = np.full((points, points), np.nan)
            grid[np.triu_indices(points)] = values(results, cell, "error_grid").mean(0)
            shown = axis.imshow(
                np.log10(np.maximum(grid, 1e-4)).T, origin="lower", extent=(0, 1, 0, 1),
                vmin=-3, vmax=0, cmap="viridis",
            )  # fmt: skip
            axis.set_title(cell.replace(", ", "\n", 1), fontsize=7)
    figure.colorbar(shown, ax=axes, label="log10 maximum error", shrink=0.8)
    figure.supxlabel("r")
    figure.supylabel("t")
    return {"error-grid": figure}


def joint(results: Json) -> dict[str, Figure]:
    """Adjacent-pair TV against the number of steps, flow map and factorised."""
    figure, axes = _panels(len(results["facts"]), height=2.8)
    for axis, (name, fact) in zip(axes.flat, results["facts"].items(), strict=True):
        flow_map = values(results, f"{name}, {FLOW_MAP}", "pair_tv").mean(0)
        factorised = fact["factorised_pair_tv"]
        axis.loglog(fact["steps"], flow_map, "o-", color=RED, label="flow map (ours)")
        axis.loglog(fact["steps"], factorised, "s-", color=BLUE, label="factorised, exact")
        axis.axhline(
            fact["product_pair_tv"], color=BLUE, ls=":", lw=1, label="product of marginals"
        )
        axis.axhline(fact["pair_floor"], color=GREY, ls="--", lw=1, label="sampling floor")
        axis.set_xticks(fact["steps"], fact["steps"])
        axis.minorticks_off()
        axis.set_title(name)
    axes.flat[0].legend(loc="upper right", bbox_to_anchor=(1, 0.95), fontsize=7)
    figure.supxlabel("steps")
    figure.supylabel("TV of adjacent pairs")
    return {"steps": figure}


def _panels(
    count: int, rows: int = 1, columns: int | None = None, height: float = 2.3
) -> tuple[Figure, np.ndarray]:
    columns = columns or -(-count // rows)
    figure, axes = plt.subplots(
        rows, columns, figsize=(max(6.0, 2.1 * columns), height * rows), squeeze=False
    )
    spare: list[Axes] = list(axes.flat)[count:] if rows * columns > count and rows != 2 else []
    for axis in spare:
        axis.set_axis_off()
    return figure, axes
