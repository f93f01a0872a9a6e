"""Which positions vary together, however far apart: two sets of aligned sequences compared."""

import numpy
import torch
from torch import Tensor

from discrete_meanflow.simplex import delta
from discrete_meanflow.types import State

MOST_SITES = 256  # that are looked at; the time grows with their square
AT_ONCE = 2**24  # covariances
ROUNDING = 1e-7  # of a covariance


def pair_covariance_correlation(x: State, y: State, vocabulary: int, seed: int = 0) -> float:
    """Pearson's correlation of ``f_ij(a, b) - f_i(a) f_j(b)`` in x and in y, over all i < j, a, b.

    x: ``(N, D)``; y: ``(M, D)``. 0 where one of them has no positions that vary together. Of any
    i, j they sum to 0 over a, b: so their mean is 0, and the correlation a cosine.
    """
    sites = _sites(x.shape[1], seed)
    centred = [_centred(z[:, sites], vocabulary) for z in (x, y)]  # each (N, D V)
    site = torch.arange(len(sites)).repeat_interleave(vocabulary)
    count, products = 0, torch.zeros(2, 2, dtype=torch.float64)
    for rows in torch.arange(len(site)).split(max(1, AT_ONCE // len(site))):
        rest = slice(int(rows[0]), None)
        later = site[rows, None] < site[rest]
        both = torch.stack([(z[:, rows].T @ z[:, rest] / len(z))[later] for z in centred]).double()
        count, products = count + both.shape[1], products + both @ both.T
    sizes = products.diagonal()
    if bool((sizes <= count * ROUNDING**2).any()):
        return 0.0
    return (products[0, 1] / sizes.prod().sqrt()).item()


def _sites(length: int, seed: int) -> Tensor:
    """All positions, or some that are picked at random."""
    order = numpy.random.default_rng(seed).permutation(length)[:MOST_SITES]
    return torch.from_numpy(order).sort().values


def _centred(x: State, vocabulary: int) -> Tensor:
    points = delta(x, vocabulary, torch.float32).flatten(1)
    return points - points.mean(0)
