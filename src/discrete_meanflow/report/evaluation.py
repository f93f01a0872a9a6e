"""The figure of an evaluation: each score against the number of steps."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from discrete_meanflow.files import write_atomically
from discrete_meanflow.report.figures import png
from discrete_meanflow.report.style import GREY, RED

Json = dict[str, Any]


def draw_evaluation(found: Json, path: Path) -> None:
    scores = dict(found["scores"])
    real = scores.pop("held out")
    steps = [int(who.split()[0]) for who in scores]
    figure, axes = plt.subplots(1, len(real), figsize=(2.2 * len(real), 2.4), squeeze=False)
    for axis, (name, floor) in zip(axes.flat, real.items(), strict=True):
        axis.plot(steps, [each[name] for each in scores.values()], "o-", ms=3, color=RED)
        axis.axhline(floor, color=GREY, ls="--", lw=1)
        axis.set_xscale("log")
        axis.set_xticks(steps, steps)
        axis.minorticks_off()
        axis.set_title(name)
    figure.supxlabel("steps (dashed: held-out records in the place of samples)")
    write_atomically(path, png(figure))
