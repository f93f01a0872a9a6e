"""Scores of all methods against function evaluations."""

from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dmf_reproduction.figures.panels import panels
from dmf_reproduction.figures.style import GREY
from dmf_reproduction.settings import OURS

Json = dict[str, Any]
MARKERS = "os^v"


def compare(results: Json) -> dict[str, Figure]:
    """A panel for each data set."""
    targets = {name: fact for name, fact in results["facts"].items() if "floor" in str(fact)}
    figure, axes = panels(len(targets), height=3.2)
    for axis, (name, fact) in zip(axes[0], targets.items(), strict=False):
        _panel(axis, name, fact, results["cells"])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right", fontsize=7)
    return {"compare": figure}


def _panel(axis: Axes, target: str, fact: Json, cells: Json) -> None:
    colors = colormaps["tab10"].colors  # type: ignore[attr-defined]
    ours = [name for name in cells if name.startswith(f"{target}, method ")]
    for i, cell in enumerate(ours):
        method = cell.removeprefix(f"{target}, method ")
        scores = cells[cell]["measurements"][0]["scores"]
        x, y = zip(*sorted((int(k), score) for k, score in scores.items()), strict=True)
        width, marker = 2.5 if method == OURS else 0.9, MARKERS[i // 10]
        axis.plot(x, y, f"{marker}-", color=colors[i % 10], lw=width, markersize=3, label=method)
    axis.axhline(fact["floor"], color=GREY, ls="--", lw=1, label="floor")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_title(f"{target}: {fact['score']}")
    axis.set_xlabel("function evaluations")
