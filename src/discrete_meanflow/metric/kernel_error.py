"""Error of a learned kernel on the paper's time grid."""

from typing import NamedTuple

import torch
from torch import Tensor

from discrete_meanflow.metric.divergence import total_variation
from discrete_meanflow.types import Matrix, Times


class KernelError(NamedTuple):
    """Errors over all time pairs r <= t of the grid and all start states x."""

    max: float  # max_{r,t,x,y} |K_theta - K|
    mean: float  # mean of |K_theta - K|
    column_tv: float  # mean over (r, t, x) of TV(K_theta(., x), K(., x))
    grid: Tensor  # max_{x,y} |K_theta - K| at each pair of times, shape (pairs,)


def time_grid(points: int = 20) -> tuple[Times, Times]:
    """The pairs r <= t of a ``points x points`` grid on [0, 1]^2, including the diagonal."""
    axis = torch.linspace(0, 1, points, dtype=torch.float64)
    i, j = torch.triu_indices(points, points)
    return axis[i], axis[j]


def kernel_error(learned: Matrix, exact: Matrix) -> KernelError:
    """Compare ``K_theta`` with ``K``, both of shape ``(pairs, n, n)`` and indexed ``[y, x]``."""
    gap = (learned.double() - exact).abs()
    columns = total_variation(learned.double().transpose(-1, -2), exact.transpose(-1, -2))
    return KernelError(
        gap.max().item(), gap.mean().item(), columns.mean().item(), gap.amax((-1, -2))
    )
