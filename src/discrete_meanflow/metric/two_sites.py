"""Which positions vary together, however far apart: two sets of aligned sequences compared."""

import torch
from torch import Tensor

from discrete_meanflow.simplex import delta
from discrete_meanflow.types import State

AT_ONCE = 2**24  # covariances
ROUNDING = 1e-7  # of a covariance


def two_site_correlation(x: State, y: State, vocabulary: int) -> float:
    """Pearson's correlation of ``f_ij(a, b) - f_i(a) f_j(b)`` in x and in y, over all i < j, a, b.

    x: ``(N, D)``; y: ``(M, D)``. 0 where one of them has no positions that vary together.
    """
    length = x.shape[1]
    centred = [_centred(z, vocabulary) for z in (x, y)]  # each (N, D V)
    site = torch.arange(length).repeat_interleave(vocabulary)
    # Of a, b: the number of entries, their sums, and those of their products.
    count, sums, products = 0, torch.zeros(2).double(), torch.zeros(2, 2).double()
    for rows in torch.arange(length * vocabulary).split(max(1, AT_ONCE // len(site))):
        later = site[rows, None] < site
        both = torch.stack([(z[:, rows].T @ z / len(z))[later] for z in centred]).double()
        count, sums, products = count + both.shape[1], sums + both.sum(1), products + both @ both.T
    spread = products - sums[:, None] * sums / max(1, count)
    if bool((spread.diagonal() <= count * ROUNDING**2).any()):
        return 0.0
    return (spread[0, 1] / spread.diagonal().prod().sqrt()).item()


def _centred(x: State, vocabulary: int) -> Tensor:
    points = delta(x, vocabulary, torch.float32).flatten(1)
    return points - points.mean(0)
