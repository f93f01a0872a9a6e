"""Panels and values that the figures of sequences share."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Json = dict[str, Any]


def values(results: Json, cell: str, key: str) -> np.ndarray:
    """A measurement of a cell for each seed: shape ``(seeds,)`` or ``(seeds, steps)``."""
    return np.array([m[key] for m in results["cells"][cell]["measurements"]])


def panels(
    count: int, rows: int = 1, columns: int | None = None, height: float = 2.3
) -> tuple[Figure, np.ndarray]:
    columns = columns or -(-count // rows)
    figure, axes = plt.subplots(
        rows, columns, figsize=(max(6.0, 2.1 * columns), height * rows), squeeze=False
    )
    spare: list[Axes] = list(axes.flat)[count:] if rows * columns > count and rows != 2 else []
    for axis in spare:
        axis.set_axis_off()
    return figure, axes
