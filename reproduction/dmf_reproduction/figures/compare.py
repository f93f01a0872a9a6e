"""Scores of all methods against function evaluations."""

from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dmf_reproduction.figures.panels import panels
from dmf_reproduction.figures.style import GREY
from dmf_reproduction.settings import OURS, method_of

Json = dict[str, Any]
MARKERS = "os^v"


def compare(results: Json) -> dict[str, Figure]:
    """The scores of all methods."""
    figure, axes = panels(1, height=4.2)
    _panel(axes[0, 0], results["facts"], results["cells"])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right", fontsize=7)
    return {"compare": figure}


def _panel(axis: Axes, facts: Json, cells: Json) -> None:
    colors = colormaps["tab10"].colors  # type: ignore[attr-defined]
    for i, (name, cell) in enumerate(cells.items()):
        method, scores = method_of(name), cell["measurements"][0]["scores"]
        x, y = zip(*sorted((int(k), score) for k, score in scores.items()), strict=True)
        width, marker = 2.5 if method == OURS else 0.9, MARKERS[i // 10]
        axis.plot(x, y, f"{marker}-", color=colors[i % 10], lw=width, markersize=3, label=method)
    axis.axhline(facts["floor"], color=GREY, ls="--", lw=1, label="floor")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_title(f"{facts['target']}: {facts['score']}")
    axis.set_xlabel("steps")
