"""Points of the simplex and draws from it: the delta of the paper, and categorical draws."""

import torch
from torch import Tensor

from discrete_meanflow.types import Point, Probs, State

GOLDEN = (5**0.5 - 1) / 2


def delta(x: State, n: int, dtype: torch.dtype) -> Probs:
    """``delta_{y,x}`` as a law on y: shape ``(*batch, n)``.

    Written as a comparison because ``one_hot`` cannot be vectorised over stacked models.
    """
    return (x[..., None] == torch.arange(n, device=x.device)).to(dtype)


def as_point(x: State | Point, n: int, dtype: torch.dtype) -> Point:
    """A state as a point: ``delta_x`` of a symbol, a soft state as it is."""
    return x if x.is_floating_point() else delta(x, n, dtype)


def interpolate(x: State | Point, q: Probs, alpha: Tensor) -> Probs:
    """``(1 - alpha) delta_x + alpha q``, or with the point itself if x is a soft state."""
    alpha = alpha[..., None]
    return (1 - alpha) * as_point(x, q.shape[-1], q.dtype) + alpha * q


def categorical(p: Probs, g: torch.Generator, draws: int | None = None) -> State:
    """Draw from the law p by inverting its cumulative sum in float64.

    Args:
        p: laws, shape ``(*batch, n)``.
        draws: draws per law. ``None`` gives shape ``(*batch,)``, m gives ``(*batch, m)``.
    """
    shape = (*p.shape[:-1], 1 if draws is None else draws)
    level = torch.rand(shape, dtype=torch.float64, device=p.device, generator=g)
    y = quantile(p, level)
    return y if draws is not None else y[..., 0]


def multinomial(p: Probs, draws: int, g: torch.Generator) -> Tensor:
    """How often each state comes up in N draws: shape of p, float64.

    State after state, the count is binomial among the draws that are left.
    """
    left = torch.full(p.shape[:-1], float(draws), dtype=torch.float64, device=p.device)
    mass = p.double().flip(-1).cumsum(-1).flip(-1)  # of this state and those after it
    share = torch.where(mass > 0, p.double() / mass.clamp(min=1e-300), 1.0).clamp(0, 1)
    share[..., -1] = 1
    counts = []
    for k in range(p.shape[-1]):
        counts.append(torch.binomial(left, share[..., k].contiguous(), generator=g))
        left = left - counts[-1]
    return torch.stack(counts, -1)


def quantile(p: Probs, level: Tensor) -> State:
    """The state at which the cumulative law passes ``level`` in [0, 1): shape ``(*batch, m)``.

    A uniform level makes it a draw from p.
    """
    cumulative = p.double().cumsum(-1)
    # Rounding leaves the last cumulative sum at 1 up to 1e-16: scale the level, not the law.
    level = level * cumulative[..., -1:]
    return torch.searchsorted(cumulative, level, right=True).clamp_(max=p.shape[-1] - 1)


def spread_levels(key: Tensor, draws: int, g: torch.Generator) -> Tensor:
    """Uniform levels ``(*batch, m)`` that are spread evenly among neighbours in ``key``.

    Along the last axis of ``key`` (``(*batch,)``) the i-th smallest key gets the i-th points of
    the golden-ratio sequence, shifted by one uniform number for all. Each level by itself is
    exactly uniform, but any run of neighbours covers [0, 1) evenly, so that sums over a batch
    vary far less than with independent levels.
    """
    rank = key.argsort(-1).argsort(-1)
    index = rank[..., None] * draws + torch.arange(draws, device=key.device)
    shift = torch.rand(*key.shape[:-1], 1, 1, dtype=torch.float64, device=key.device, generator=g)
    return (index * GOLDEN + shift) % 1


def expand_like(values: Tensor, target: Tensor) -> Tensor:
    """Append axes to ``values`` until it broadcasts against ``target`` from the left."""
    return values.reshape(*values.shape, *[1] * (target.dim() - values.dim()))
