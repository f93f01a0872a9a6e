"""The figure of an evaluation: each score against the number of steps."""

import io
from pathlib import Path

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import write_atomically
from discrete_meanflow.model.eval_samples import REAL
from discrete_meanflow.run.json_files import Json

RED, GREY = "#c8553d", "#8a8f98"
STYLE = {
    "figure.dpi": 130,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}


def draw_evaluation(evaluation: Json, path: Path) -> None:
    """Write the figure as PNG."""
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
    with rc_context(STYLE):
        figure = Figure(figsize=(2.2 * len(real), 2.4))
        axes = figure.subplots(1, len(real), squeeze=False)
        for axis, (name, score) in zip(axes.flat, real.items(), strict=True):
            axis.plot(steps, [row[name] for row in scores.values()], "o-", ms=3, color=RED)
            axis.axhline(score, color=GREY, ls="--", lw=1)
            axis.set_xscale("log")
            axis.set_xticks(steps, steps)
            axis.minorticks_off()
            axis.set_title(name)
        figure.supxlabel("steps (dashed: held-out records)")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())
