"""The figure of a comparison: quality against function evaluations and against time."""

import io
from pathlib import Path
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import write_atomically
from discrete_meanflow.model.comparison_grid import AUC, EVALUATIONS, SECONDS, shown_scores
from discrete_meanflow.model.eval_figure import GREY, STYLE
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.run.json_files import Json

TIME = "milliseconds per record"


def draw_comparison(comparison: Json, path: Path) -> None:
    """Write a PNG figure: scores against function evaluations, and against time per record."""
    try:
        from matplotlib import colormaps, rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "the figure needs matplotlib: pip install 'discrete-meanflow[figures]'"
        ) from None
    score = shown_scores(comparison)[-1]
    methods = {name: m for name, m in comparison["methods"].items() if "steps" in m}
    colors = colormaps["tab20"].colors  # type: ignore[attr-defined]
    with rc_context(STYLE):
        figure = Figure(figsize=(10.5, 3.4))
        panels = ((score, EVALUATIONS), (score, TIME), (AUC, EVALUATIONS))
        axes = figure.subplots(1, len(panels))
        for axis, (name, against) in zip(axes, panels, strict=True):
            for i, (method, content) in enumerate(methods.items()):
                style = {"color": colors[i % len(colors)], "marker": "os^v"[i // 20 % 4]}
                _draw_method(axis, method, content["steps"], name, against, style)
            axis.axhline(comparison[REAL][name], color=GREY, ls="--", lw=1, label="held-out data")
            axis.set_xscale("log", base=2 if against == EVALUATIONS else 10)
            axis.xaxis.set_major_formatter("{x:g}")
            axis.minorticks_off()
            axis.set_title(name)
            axis.set_xlabel(against)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right", fontsize=7, frameon=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())


def _draw_method(
    axis: Any, method: str, rows: Json, name: str, against: str, style: dict[str, Any]
) -> None:
    ordered = [rows[k] for k in sorted(rows, key=int)]
    values = [row[name] for row in ordered]
    x = [1000 * row[SECONDS] if against == TIME else row[EVALUATIONS] for row in ordered]
    width = 2.2 if method == "one-step" else 1.0
    axis.plot(x, values, "-", ms=4, lw=width, label=method, **style)
