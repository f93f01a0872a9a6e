"""The figures of real data: what samples are worth against the number of steps, and digits."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dmf_reproduction.figures.style import BLUE, GREY, RED

Json = dict[str, Any]
KINDS = {"soft": (RED, "soft states"), "factorised": (BLUE, "masks, factorised")}
# What is drawn of each experiment, and what it is called.
SCORES = {
    "joint-nltcs": {"tv_test": "joint TV to the test rows", "tv_train": "to the training rows"},
    "joint-names": {
        "well_formed": "well-formed",
        "pair_tv": "letter-pair TV to held-out names",
        "copies": "copies of training names",
    },
    "joint-molecules": {"valid": "valid", "unique": "unique among valid", "novel": "novel"},
    "joint-rna": {
        "correlation": "two-site correlation with held-out",
        "copies": "copies of training sequences",
    },
    "joint-sudoku": {"valid": "valid grids", "constraints": "constraints kept"},
    "joint-digits": {
        "confident": "digits a classifier is sure of",
        "distance": "distance to the nearest training image",
    },
}


def real_data(results: Json) -> dict[str, Figure]:
    """Each score against the number of steps, both kernels, held-out data as a line."""
    facts = results["facts"]
    names = SCORES[results["experiment"]]
    figure, axes = plt.subplots(1, len(names), figsize=(3 * len(names), 2.8), squeeze=False)
    for axis, (key, title) in zip(axes.flat, names.items(), strict=True):
        for kind, (colour, label) in KINDS.items():
            found = {int(steps): score[key] for steps, score in facts["scores"][kind].items()}
            axis.plot(list(found), list(found.values()), "o-", ms=3, color=colour, label=label)
        if key in facts.get("held out", {}):
            axis.axhline(facts["held out"][key], color=GREY, ls="--", lw=1, label="held-out data")
        axis.set_xscale("log")
        axis.set_xticks(list(found), list(found))
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=8)
    axes.flat[0].legend(fontsize=7)
    figure.supxlabel("steps")
    return {"steps": figure}


def digits(results: Json) -> dict[str, Figure]:
    """A sheet of images for each kind, and the scores."""
    scores = results["facts"]["scores"]
    sheets = {
        "factorised, one step": scores["factorised"]["1"]["shown"],
        "soft, one step": scores["soft"]["1"]["shown"],
        "soft, eight steps": scores["soft"]["8"]["shown"],
        "real, held out": results["facts"]["held out"]["shown"],
    }
    figure, axes = plt.subplots(1, len(sheets), figsize=(2.3 * len(sheets), 2.8))
    for axis, (title, images) in zip(axes, sheets.items(), strict=True):
        axis.imshow(sheet(images), cmap="gray_r", vmin=0, vmax=3)
        axis.set_title(title, fontsize=8)
        axis.set_axis_off()
    return {"digits": figure, **real_data(results)}


def sheet(images: Sequence[str], columns: int = 6, rows: int = 8, side: int = 8) -> np.ndarray:
    """Images, written as strings of shades, side by side with a line between."""
    page = np.zeros((rows * (side + 1), columns * (side + 1)))
    for i, image in enumerate(images[: rows * columns]):
        top, left = (side + 1) * (i // columns), (side + 1) * (i % columns)
        shades = np.array([int(shade) for shade in image]).reshape(side, side)
        page[top : top + side, left : left + side] = shades
    return page
