"""Ordered symbols as points that are near if the symbols are."""

from functools import cache

import torch
from torch import Tensor

REACH = 16.0  # symbols over which points lose their likeness
SCALE = 3.0  # of the points; with it, near symbols become known about when unordered ones do


@cache
def embedding(counts: tuple[int, ...], n: int, device: torch.device) -> Tensor:
    r"""$A$, ``(D, n, n)``: symbol k of position d is the point $\phi_d(k) = A_d e_k$.

    The first ``counts[d]`` symbols are ordered: $\phi(j) \cdot \phi(k) = s^2 e^{-|j - k|/l}$, the
    covariance of an Ornstein-Uhlenbeck process, so each step adds an independent direction. All
    others are orthonormal.
    """
    matrices = torch.eye(n, dtype=torch.float64).repeat(len(counts), 1, 1)
    for matrix, count in zip(matrices, counts, strict=True):
        k = torch.arange(count, dtype=torch.float64)
        likeness = SCALE**2 * torch.exp((k[:, None] - k).abs() / -REACH)
        matrix[:count, :count] = torch.linalg.cholesky(likeness).mT
    return matrices.float().to(device)


@cache
def inverse_embedding(counts: tuple[int, ...], n: int, device: torch.device) -> Tensor:
    """$A^{-1}$, ``(D, n, n)``."""
    cpu = embedding(counts, n, torch.device("cpu"))
    return torch.linalg.inv(cpu.double()).float().to(device)


def apply(matrices: Tensor, x: Tensor) -> Tensor:
    """Matrices ``(D, n, n)`` times points ``(*batch, D, n)``, in the precision of the points."""
    with torch.autocast(x.device.type, enabled=False):
        return torch.einsum("dij,...dj->...di", matrices.to(x.dtype), x)
