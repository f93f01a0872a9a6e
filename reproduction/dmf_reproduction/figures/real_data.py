"""Figures of the experiments on real data: scores against the number of steps, and digits."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dmf_reproduction.figures.panels import panels, values
from dmf_reproduction.figures.style import BLUE, GREY, RED
from dmf_reproduction.settings import FACTORISED, FLOW_MAP

Json = dict[str, Any]
KERNELS = {FLOW_MAP: (RED, "flow map (ours)"), FACTORISED: (BLUE, "factorised, masks")}
# Experiment -> the scores to draw and their titles.
SCORES = {
    "joint-nltcs": {"tv_test": "joint TV to test rows", "tv_train": "joint TV to training rows"},
    "joint-names": {
        "well_formed": "well-formed",
        "pair_tv": "letter-pair TV to held-out names",
        "copies": "copies of training names",
    },
    "joint-molecules": {"valid": "valid", "unique": "unique among valid", "novel": "novel"},
    "joint-rna": {
        "correlation": "pair-covariance correlation",
        "copies": "copies of training sequences",
    },
    "joint-sudoku": {"valid": "valid grids", "constraints": "constraints satisfied"},
    "joint-digits": {
        "confident": "confident digits",
        "distance": "distance to the nearest training image",
    },
}


def real_data(results: Json) -> dict[str, Figure]:
    """Each score against the number of steps for both kernels; held-out data as a line."""
    facts = results["facts"]
    names = SCORES[results["experiment"]]
    figure, axes = plt.subplots(1, len(names), figsize=(3 * len(names), 2.8), squeeze=False)
    for axis, (key, title) in zip(axes.flat, names.items(), strict=True):
        for kind, (colour, label) in KERNELS.items():
            points = {int(steps): score[key] for steps, score in facts["scores"][kind].items()}
            axis.plot(list(points), list(points.values()), "o-", ms=3, color=colour, label=label)
        if key in facts.get("held out", {}):
            axis.axhline(facts["held out"][key], color=GREY, ls="--", lw=1, label="held-out data")
        axis.set_xscale("log")
        axis.set_xticks(list(points), list(points))
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=8)
    axes.flat[0].legend(fontsize=7)
    figure.supxlabel("steps")
    return {"steps": figure}


def digits(results: Json) -> dict[str, Figure]:
    """A sheet of images for each kind of sample, and the scores."""
    scores = results["facts"]["scores"]
    sheets = {
        "factorised, one step": scores[FACTORISED]["1"]["shown"],
        "ours, one step": scores[FLOW_MAP]["1"]["shown"],
        "ours, eight steps": scores[FLOW_MAP]["8"]["shown"],
        "real, held out": results["facts"]["held out"]["shown"],
    }
    figure, axes = plt.subplots(1, len(sheets), figsize=(2.3 * len(sheets), 2.8))
    for axis, (title, images) in zip(axes, sheets.items(), strict=True):
        axis.imshow(sheet(images), cmap="gray_r", vmin=0, vmax=3)
        axis.set_title(title, fontsize=8)
        axis.set_axis_off()
    return {"digits": figure, **real_data(results)}


def sheet(images: Sequence[str], columns: int = 6, rows: int = 8, side: int = 8) -> np.ndarray:
    """Images, each a string of grey levels, on a grid."""
    page = np.zeros((rows * (side + 1), columns * (side + 1)))
    for i, image in enumerate(images[: rows * columns]):
        top, left = (side + 1) * (i // columns), (side + 1) * (i % columns)
        shades = np.array([int(shade) for shade in image]).reshape(side, side)
        page[top : top + side, left : left + side] = shades
    return page


def joint(results: Json) -> dict[str, Figure]:
    """Adjacent-pair TV against the number of steps, flow map and factorised."""
    figure, axes = panels(len(results["facts"]), height=2.8)
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
