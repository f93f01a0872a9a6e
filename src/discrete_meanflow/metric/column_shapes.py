"""How far the law of a single column is from that of another table."""

import numpy
import torch

from discrete_meanflow.metric.table_values import Array, cell_codes
from discrete_meanflow.metric.two_samples import empirical_tv


def shape_distance(x: Array, y: Array, numeric: bool) -> float:
    """Kolmogorov-Smirnov distance of numbers, total variation distance of levels.

    Missing numbers are left out, see ``missing_rate``; a missing level is a level.
    """
    if not numeric:
        codes = cell_codes(x, y)
        return empirical_tv(torch.from_numpy(codes[0]), torch.from_numpy(codes[1]))
    a, b = (numpy.sort(z[~numpy.isnan(z)]) for z in (x, y))
    if not len(a) or not len(b):
        return float(len(a) != len(b))
    values = numpy.concatenate([a, b])
    below = [numpy.searchsorted(z, values, "right") / len(z) for z in (a, b)]
    return float(abs(below[0] - below[1]).max())


def missing_rate(x: Array) -> float:
    """Fraction of missing cells."""
    return float(numpy.isnan(x).mean())
