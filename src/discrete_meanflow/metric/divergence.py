"""Total variation and its sampling floor."""

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import multinomial
from discrete_meanflow.types import Probs


def total_variation(p: Probs, q: Probs) -> Tensor:
    """``TV(p, q) = 1/2 sum_y |p(y) - q(y)|``: shape ``(*batch,)``."""
    return (p - q).abs().sum(-1) / 2


def frequencies(y: Tensor, n: int) -> Probs:
    """Empirical law of the draws along the last axis: ``(*batch, N) -> (*batch, n)``, float64."""
    flat = y.reshape(-1, y.shape[-1])
    counts = torch.zeros(len(flat), n, dtype=torch.float64, device=y.device)
    counts.scatter_add_(1, flat, torch.ones_like(flat, dtype=torch.float64))
    return (counts / y.shape[-1]).reshape(*y.shape[:-1], n)


def sampling_floor(p: Probs, draws: int, g: torch.Generator, repeats: int = 200) -> Tensor:
    """Expected total variation between p and the empirical law of N draws from p.

    A perfect sampler scores this floor, not 0. It is estimated by simulation and is about
    ``1/2 sum_y sqrt(2 p(y) (1 - p(y)) / (pi N))`` if every ``N p(y)`` is large.

    Args:
        p: shape ``(*batch, n)``; the result has shape ``(*batch,)``.
        draws: N.
        repeats: number of simulated samples.
    """
    if draws < 1 or repeats < 1:
        raise InputError(
            f"sampling floor: needs draws >= 1 and repeats >= 1, got {draws} and {repeats}"
        )
    counts = multinomial(p.double().expand(repeats, *p.shape), draws, g)
    return total_variation(counts / draws, p.double()).mean(0)
