"""The figures of each experiment, by name."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from discrete_meanflow.files import write_atomically
from dmf_reproduction.figures import chain, compare, estimators, real_data as real, sequence

Json = dict[str, Any]
LINES, IMAGES = 64, 255  # colours of the palette, for line plots and for colour maps

FIGURES: dict[str, Callable[[Json], dict[str, Figure]]] = {
    "exact-recovery": chain.exact_recovery,
    "demo": chain.exact_recovery,
    "boundary-ablation": chain.boundary_ablation,
    "time-pair-ablation": chain.bars_beside_paper,
    "time-sampler-ablation": chain.bars_beside_paper,
    "chain-objectives": chain.chain_objectives,
    "mean-rate": chain.mean_rate,
    "simulable": chain.simulable,
    "objective-comparison": sequence.objective_comparison,
    "target-variance": sequence.target_variance,
    "multi-step": sequence.multi_step,
    "hybrid-sweep": sequence.hybrid_sweep,
    "estimators": estimators.estimators,
    "ordered-steps": estimators.ordered_steps,
    "structured-noise": estimators.structured_noise,
    "joint": real.joint,
    **dict.fromkeys(real.SCORES, real.real_data),
    "joint-digits": real.digits,
    **dict.fromkeys(("compare-bigram", "compare-nltcs"), compare.compare),
}


def figures(results: Json) -> dict[str, Figure]:
    """The figures of a run, by name; empty if the experiment has no figures."""
    return FIGURES.get(results["experiment"], lambda results: {})(results)


def draw(results: Json, folder: Path) -> list[Path]:
    """Write the figures of a run as PNG."""
    paths = []
    for name, figure in figures(results).items():
        path = folder / f"{name}.png"
        write_atomically(path, png(figure))
        paths.append(path)
    return paths


def png(figure: Figure) -> bytes:
    """The figure as a PNG with a palette, which is a quarter of the size."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    plt.close(figure)
    colours = IMAGES if any(axis.images for axis in figure.axes) else LINES
    image = Image.open(drawn).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    image.save(small, "png", optimize=True)
    return small.getvalue()
