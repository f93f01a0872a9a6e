"""Metrics that only the paper's experiments report."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from discrete_meanflow.data import Law
from discrete_meanflow.metric import total_variation
from discrete_meanflow.metric.divergence import marginals
from discrete_meanflow.types import Matrix, State, Times

TIMES = (0.0, 0.25, 0.5, 0.75, 1.0)
MIN_PROBABILITY = 1e-10  # of symbols that the law excludes, so that their log is finite


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


def composition_defect(kernel: Callable[[float, float], Matrix]) -> float:
    """Chapman-Kolmogorov defect ``max |K_{s,t} K_{r,s} - K_{r,t}|`` over r < s < t in ``TIMES``.

    Args:
        kernel: maps (r, t) to the matrix ``K_{r,t}[y, x]``.
    """
    K = {pair: kernel(*pair) for pair in itertools.combinations(TIMES, 2)}
    return max(float((K[s, t] @ K[r, s] - K[r, t]).abs().max()) for r, s, t in time_triples())


def time_triples() -> Iterator[tuple[float, float, float]]:
    """All ``r < s < t`` in ``TIMES``."""
    return itertools.combinations(TIMES, 3)


def sequence_index(x: State, vocabulary: int) -> Tensor:
    """Index of each sequence among all V^D, first symbol most significant: ``(N, D) -> (N,)``."""
    return (x.long() * vocabulary ** torch.arange(x.shape[1] - 1, -1, -1)).sum(-1)


def token_accuracy(y: State, fresh: State) -> float:
    """Fraction of positions at which a generated and a fresh clean sequence agree."""
    return (y == fresh).double().mean().item()


def state_fraction(y: State, state: int) -> float:
    """Fraction of positions in one state, such as the mask."""
    return (y == state).double().mean().item()


def marginal_cross_entropy(y: State, law: Law, states: int) -> float:
    """``-log p_d(y_d)`` under the true marginals, averaged."""
    p = marginals(law, states).clamp(min=MIN_PROBABILITY).log()
    return -p.expand(len(y), -1, -1).gather(-1, y.cpu()[..., None]).mean().item()


def product_pair_tv(law: Law) -> float:
    """Pair TV of the product of the true marginals: the best a factorised step can reach."""
    p = law.marginals().cpu()
    product: Tensor = p[:-1, :, None] * p[1:, None, :]
    gap = (product - law.pair_marginals().cpu()).abs().sum((-1, -2)) / 2
    return gap.mean().item() if law.length > 1 else 0.0
