"""The figure of an evaluation."""

import io
from pathlib import Path
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import write_atomically
from discrete_meanflow.model.completions import AUC
from discrete_meanflow.model.conditional_samples import STEPS
from discrete_meanflow.model.eval_samples import row_name
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.run.json_files import Json

RED, GREY = "#c8553d", "#8a8f98"
SHADES = ("#f0c4b6", "#e09a85", "#c8553d", "#7f2a18")  # of the observed fractions
STYLE = {
    "figure.dpi": 130,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}


def draw_evaluation(evaluation: Json, path: Path) -> None:
    """Write a PNG figure: each score against the number of steps."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "the figure needs matplotlib: pip install 'discrete-meanflow[figures]'"
        ) from None
    scores = dict(evaluation["scores"])
    real = scores.pop(REAL)
    steps = [int(name.split()[0]) for name in scores]
    fractions = evaluation["completions"].get("fractions")
    panels = len(real) + bool(fractions)
    with rc_context(STYLE):
        figure = Figure(figsize=(2.2 * panels + bool(fractions), 2.4))  # with a legend
        axes = figure.subplots(1, panels, squeeze=False).flat
        for axis, (name, score) in zip(axes, real.items(), strict=False):
            axis.plot(steps, [row[name] for row in scores.values()], "o-", ms=3, color=RED)
            _finish(axis, name, steps, score)
        if fractions:
            _draw_completions(axes[-1], fractions)
        figure.supxlabel("steps (dashed: held-out records)")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())


def _draw_completions(axis: Any, fractions: Json) -> None:
    """One line for each fraction of observed positions."""
    for (name, fraction), color in zip(fractions.items(), SHADES, strict=False):
        rows = fraction["scores"]
        auc = [rows[row_name(k)][AUC] for k in STEPS]
        axis.plot(STEPS, auc, "o-", ms=3, color=color, label=name)
    _finish(axis, f"{AUC} of completions", STEPS, rows[REAL][AUC])
    axis.legend(title="observed", fontsize=7, title_fontsize=7, frameon=False, loc="upper left",
                bbox_to_anchor=(1, 1))  # fmt: skip


def _finish(axis: Any, title: str, steps: Any, real: float) -> None:
    """Axes on a logarithmic scale, and the score of held-out records."""
    axis.axhline(real, color=GREY, ls="--", lw=1)
    axis.set_xscale("log")
    axis.set_xticks(steps, steps)
    axis.minorticks_off()
    axis.set_title(title)
