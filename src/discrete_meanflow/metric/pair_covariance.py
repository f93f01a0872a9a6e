"""Pair covariance: do the same positions vary together in two sets of aligned sequences?"""

import numpy
import torch
from torch import Tensor

from discrete_meanflow.simplex import delta
from discrete_meanflow.types import State

MAX_SITES = 256  # positions compared; the time grows with their square
CHUNK_ENTRIES = 2**24  # covariances computed at once
ROUNDING = 1e-7  # of a covariance


def pair_covariance_correlation(x: State, y: State, vocabulary: int, seed: int = 0) -> float:
    """Pearson correlation of ``C_ij(a, b) = f_ij(a, b) - f_i(a) f_j(b)`` between x and y.

    The ``C_ij`` are the two-site covariances of direct-coupling analysis (Morcos et al. 2011,
    doi:10.1073/pnas.1111471108); the correlation runs over all positions i < j and symbols a, b.
    They sum to 0 over a, b, so the correlation equals the cosine. It is 0 if all covariances of x
    or y vanish. Sampling noise keeps it below 1 even between two samples of the same law.

    Args:
        x: shape ``(N, D)``.
        y: shape ``(M, D)``.
    """
    sites = _choose_sites(x.shape[1], seed)
    centred = [_centred_one_hot(z[:, sites], vocabulary) for z in (x, y)]  # each (N, D V)
    site = torch.arange(len(sites)).repeat_interleave(vocabulary)
    count, products = 0, torch.zeros(2, 2, dtype=torch.float64)
    for rows in torch.arange(len(site)).split(max(1, CHUNK_ENTRIES // len(site))):
        columns = slice(int(rows[0]), None)
        upper = site[rows, None] < site[columns]
        covariances = torch.stack(
            [(z[:, rows].T @ z[:, columns] / len(z))[upper] for z in centred]
        ).double()
        count, products = count + covariances.shape[1], products + covariances @ covariances.T
    norms = products.diagonal()
    if bool((norms <= count * ROUNDING**2).any()):
        return 0.0
    return (products[0, 1] / norms.prod().sqrt()).item()


def _choose_sites(length: int, seed: int) -> Tensor:
    """All positions, or ``MAX_SITES`` random ones, in increasing order."""
    order = numpy.random.default_rng(seed).permutation(length)[:MAX_SITES]
    return torch.from_numpy(order).sort().values


def _centred_one_hot(x: State, vocabulary: int) -> Tensor:
    points = delta(x, vocabulary, torch.float32).flatten(1)
    return points - points.mean(0)
