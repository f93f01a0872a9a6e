"""How far the joint laws of pairs of columns are from those of another table."""

from collections.abc import Sequence

import numpy
import torch
from torch import Tensor

from discrete_meanflow.metric.table_values import Array, cell_codes
from discrete_meanflow.metric.two_samples import empirical_tv, position_pairs

DECILES = numpy.arange(1, 10) / 10


def pair_distances(
    x: Array, y: Array, numeric: Sequence[bool], seed: int = 0
) -> dict[tuple[int, int], float]:
    """Total variation distance of each pair of columns; of many pairs, 1,000 random ones.

    A number counts as its decile in ``x``, a level as itself, a missing cell as one more level.
    """
    columns = [_levels(x[:, i], y[:, i], number) for i, number in enumerate(numeric)]
    distances = {}
    for i, j in position_pairs(len(columns), seed):
        (a, b), (c, d) = columns[i], columns[j]
        size = 1 + int(max(c.max(), d.max()))
        distances[i, j] = empirical_tv(a * size + c, b * size + d)
    return distances


def _levels(x: Array, y: Array, numeric: bool) -> tuple[Tensor, Tensor]:
    codes = _deciles(x, y) if numeric else cell_codes(x, y)
    return torch.from_numpy(codes[0]), torch.from_numpy(codes[1])


def _deciles(x: Array, y: Array) -> tuple[Array, Array]:
    present = x[~numpy.isnan(x)]
    cuts = numpy.unique(numpy.quantile(present, DECILES)) if len(present) else present
    missing = len(cuts) + 1
    a, b = (numpy.where(numpy.isnan(z), missing, numpy.searchsorted(cuts, z)) for z in (x, y))
    return a, b
