"""One-hot points, interpolation between points, and categorical draws."""

import torch
from torch import Tensor

from discrete_meanflow.types import Point, Probs, Tokens

GOLDEN = (5**0.5 - 1) / 2


def delta(x: Tokens, n: int, dtype: torch.dtype) -> Probs:
    """``delta_{y,x}`` as a law on y, the one-hot vector of x: shape ``(*batch, n)``.

    A comparison, because ``torch.nn.functional.one_hot`` does not work under ``vmap``.
    """
    return (x[..., None] == torch.arange(n, device=x.device)).to(dtype)


def interpolate(x: Point, q: Probs, alpha: Tensor) -> Point:
    """``(1 - alpha) x + alpha q`` in each position."""
    alpha = alpha[..., None]
    return (1 - alpha) * x + alpha * q


def categorical(p: Probs, g: torch.Generator, draws: int | None = None) -> Tokens:
    """Draw from the law p by inverting its cumulative sum in float64.

    Args:
        p: laws, shape ``(*batch, n)``.
        g: the random generator.
        draws: draws per law. ``None`` gives shape ``(*batch,)``, m gives ``(*batch, m)``.
    """
    shape = (*p.shape[:-1], 1 if draws is None else draws)
    level = torch.rand(shape, dtype=torch.float64, device=p.device, generator=g)
    y = quantile(p, level)
    return y if draws is not None else y[..., 0]


def multinomial(p: Probs, draws: int, g: torch.Generator) -> Tensor:
    """Counts of N draws from each law: shape of p, float64.

    Symbol by symbol, the count is binomial among the remaining draws.
    """
    left = torch.full(p.shape[:-1], float(draws), dtype=torch.float64, device=p.device)
    mass = p.double().flip(-1).cumsum(-1).flip(-1)  # of this symbol and all later ones
    fraction = torch.where(mass > 0, p.double() / mass.clamp(min=1e-300), 1.0).clamp(0, 1)
    fraction[..., -1] = 1
    counts = []
    for k in range(p.shape[-1]):
        counts.append(torch.binomial(left, fraction[..., k].contiguous(), generator=g))
        left = left - counts[-1]
    return torch.stack(counts, -1)


def quantile(p: Probs, level: Tensor) -> Tokens:
    """The symbol at which the cumulative law passes ``level`` in [0, 1): shape ``(*batch, m)``.

    A uniform level gives a draw from p.
    """
    cumulative = p.double().cumsum(-1)
    # Rounding leaves the last cumulative sum within 1e-16 of 1: scale the level, not the law.
    level = level * cumulative[..., -1:]
    return torch.searchsorted(cumulative, level, right=True).clamp_(max=p.shape[-1] - 1)


def spread_levels(key: Tensor, draws: int, g: torch.Generator) -> Tensor:
    """Uniform levels ``(*batch, m)``, stratified among neighbours in ``key``.

    Along the last axis of ``key`` (``(*batch,)``) the i-th smallest key gets the i-th points of
    the golden-ratio sequence, shifted by one uniform number. Each level is exactly uniform, and
    any run of neighbours covers [0, 1) evenly, so sums over a batch vary far less than with
    independent levels.
    """
    rank = key.argsort(-1).argsort(-1)
    index = rank[..., None] * draws + torch.arange(draws, device=key.device)
    shift = torch.rand(*key.shape[:-1], 1, 1, dtype=torch.float64, device=key.device, generator=g)
    return (index * GOLDEN + shift) % 1


def expand_like(values: Tensor, target: Tensor) -> Tensor:
    """Append axes to ``values`` until it broadcasts against ``target`` from the left."""
    return values.reshape(*values.shape, *[1] * (target.dim() - values.dim()))
