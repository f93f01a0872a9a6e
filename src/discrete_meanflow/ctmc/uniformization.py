"""Uniformization (Jensen 1953): the action of a kernel on a law without a dense matrix."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError


def poisson_weights(mean: Tensor, tail: float = 1e-17) -> Tensor:
    """``P(N = k)`` for N ~ Poisson(mean), k = 0 .. k_max, shape ``(*batch, k_max + 1)``.

    The truncated tail is below ``tail``. The weights are scaled to sum to one, which removes the
    rounding error of logarithms of large means.
    """
    largest = float(mean.max())
    reach = math.sqrt(-2 * math.log(tail))
    k_max = math.ceil(largest + reach * math.sqrt(largest) + reach**2 / 3) + 1
    k = torch.arange(k_max + 1, dtype=torch.float64, device=mean.device)
    log_weight = torch.xlogy(k, mean[..., None]) - mean[..., None] - torch.lgamma(k + 1)
    weight = log_weight.exp()
    return weight / weight.sum(-1, keepdim=True)


def uniformized_action(
    apply: Callable[[Tensor], Tensor], rate: float, v: Tensor, lag: float
) -> Tensor:
    """``exp(lag u) v`` from the action ``v -> u v``, without forming a matrix.

    With ``P = I + u / rate`` (a stochastic matrix when ``rate >= max|u|``),
    ``exp(lag u) v = sum_k Poisson(k; rate lag) P^k v``: positive terms only, so no
    cancellation.

    Args:
        apply: the generator's action on vectors shaped like ``v``.
        rate: a bound on the exit rates ``-u(x, x)``.
        v: a law, shape ``(n,)`` or ``(n, m)`` for m laws in columns.
    """
    if lag < 0 or not math.isfinite(lag):
        raise InputError(f"uniformization: t - r must be at least 0, got {lag:g}")
    if rate <= 0:
        return v.clone()  # a chain without jumps
    weights = poisson_weights(torch.tensor(rate * lag, dtype=torch.float64))
    total = weights[0] * v
    for weight in weights[1:]:
        v = v + apply(v) / rate
        total = total + weight * v
    return total
