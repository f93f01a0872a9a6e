"""Quality against function evaluations, before and after distribution matching."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dmf_reproduction.figures.panels import panels
from dmf_reproduction.figures.style import BLUE, GREEN, GREY, ORANGE, RED

Json = dict[str, Any]
CURVES = {  # label -> kernel, sampler, colour
    "student": ("student", "kernel", GREY),
    "matched": ("default", "kernel", BLUE),
    "matched, restart": ("default", "restart", ORANGE),
    "matched, refining": ("default", "refining", RED),
}


def quality(records: dict[str, Json]) -> Figure:
    """A column for each data set: C2ST AUC above, validity or pair TV below."""
    count = len(records)
    figure, axes = panels(2 * count, rows=2, columns=count)
    for column, (name, run) in enumerate(records.items()):
        measures = ("C2ST AUC", "valid" if "valid" in run["held out"] else "pair TV")
        for row, measure in enumerate(measures):
            _panel(axes[row, column], run, measure)
        axes[0, column].set_title(name)
        axes[1, column].set_xlabel("function evaluations")
    axes[0, 0].legend(fontsize=7)
    return figure


def _panel(axis: Axes, run: Json, measure: str) -> None:
    kernels = run["kernels"]
    for label, (kernel, sampler, colour) in CURVES.items():
        if kernel not in kernels:
            continue
        points = sorted(
            (int(name.split()[1]), scores[measure])
            for name, scores in kernels[kernel]["scores"].items()
            if name.split()[0] == sampler
        )
        axis.plot(*zip(*points, strict=True), "o-", color=colour, markersize=3, label=label)
    teacher = kernels["teacher"]["scores"]["ode 64"][measure]
    axis.axhline(teacher, color=GREEN, linestyle="--", label="teacher, 64")
    axis.axhline(run["held out"][measure], color="black", linestyle=":", label="held-out data")
    axis.set_xscale("log", base=2)
    axis.set_ylabel(measure)
