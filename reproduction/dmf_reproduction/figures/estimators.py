"""Figures of the experiments on estimators, ordered unmasking and structured noise."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dmf_reproduction.figures.panels import panels, values
from dmf_reproduction.figures.style import BLUE, GREEN, GREY, ORANGE, RED
from dmf_reproduction.settings import BASELINES, BEST, ESTIMATORS, STEPS

Json = dict[str, Any]
ESTIMATOR_COLOURS = dict(
    zip(
        (*ESTIMATORS, *BASELINES),
        (BLUE, "#7fa6dd", ORANGE, "#b8860b", RED, GREEN, "#2d6a4f", GREY),
        strict=True,
    )
)


def estimators(results: Json) -> dict[str, Figure]:
    names = list(results["facts"]["configurations"])
    training, training_axes = panels(len(names), columns=len(names), height=3)
    steps, steps_axes = panels(len(names), columns=len(names), height=3)
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
    variances = dict(results["facts"]["target_variance"])
    t = variances.pop("t")
    figure, axis = plt.subplots(figsize=(4.6, 3))
    for name, variance in variances.items():
        axis.semilogy(t, variance, "o-", ms=3, color=ESTIMATOR_COLOURS[name], label=name)
    axis.set(title="variance of the target given x_r, r = 0", xlabel="t")
    axis.legend()
    return figure


def ordered_steps(results: Json) -> dict[str, Figure]:
    """TV of marginals and of adjacent pairs: unmasking at random and in order."""
    facts = results["facts"]
    figure, axes = panels(2 * len(facts), rows=2, columns=len(facts), height=2.6)
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
    figure, axes = panels(columns * len(rows), rows=len(rows), columns=columns, height=2.2)
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
