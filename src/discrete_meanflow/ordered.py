"""Ordered symbols as points that are near if the symbols are."""

from functools import cache

import torch
from torch import Tensor

LENGTH_SCALE = 8.0  # symbols within which points are alike
SCALE = 4.0  # of the points: with a larger one, coarse differences show before the clock starts
NUGGET = 0.004  # share of its own that each point has


@cache
def embedding(counts: tuple[int, ...], n: int, device: torch.device) -> Tensor:
    r"""$A$, ``(D, n, n)``: symbol k of position d is the point $\phi_d(k) = A_d e_k$.

    The first ``counts[d]`` symbols are ordered. The products of their points,

        phi(j) . phi(k) = s^2 ((1 - epsilon) exp(-(j - k)^2 / (2 l^2)) + epsilon delta_jk),

    are the squared-exponential covariance of Gaussian processes. All others are orthonormal.
    """
    matrices = torch.eye(n, dtype=torch.float64).repeat(len(counts), 1, 1)
    for matrix, count in zip(matrices, counts, strict=True):
        k = torch.arange(count, dtype=torch.float64)
        smooth = torch.exp((k[:, None] - k).square() / (-2 * LENGTH_SCALE**2))
        products = SCALE**2 * torch.lerp(smooth, torch.eye(count).double(), NUGGET)
        matrix[:count, :count] = torch.linalg.cholesky(products).mT
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
