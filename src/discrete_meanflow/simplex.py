"""Points of the simplex and draws from it: the delta of the paper, and categorical draws."""

import torch
from torch import Tensor

from discrete_meanflow.types import Probs, State


def delta(x: State, n: int, dtype: torch.dtype) -> Probs:
    """``delta_{y,x}`` as a law on y: shape ``(*batch, n)``.

    Written as a comparison because ``one_hot`` cannot be vectorised over stacked models.
    """
    return (x[..., None] == torch.arange(n, device=x.device)).to(dtype)


def categorical(p: Probs, g: torch.Generator, draws: int | None = None) -> State:
    """Draw from the law p by inverting its cumulative sum in float64.

    Args:
        p: laws, shape ``(*batch, n)``.
        draws: draws per law. ``None`` gives shape ``(*batch,)``, m gives ``(*batch, m)``.
    """
    cumulative = p.double().cumsum(-1)
    level = torch.rand(
        *p.shape[:-1], draws or 1, dtype=torch.float64, device=p.device, generator=g
    )
    # Rounding leaves the last cumulative sum at 1 up to 1e-16: scale the level, not the law.
    level = level * cumulative[..., -1:]
    y = torch.searchsorted(cumulative, level, right=True).clamp_(max=p.shape[-1] - 1)
    return y if draws is not None else y[..., 0]


def expand_like(values: Tensor, target: Tensor) -> Tensor:
    """Append axes to ``values`` until it broadcasts against ``target`` from the left."""
    return values.reshape(*values.shape, *[1] * (target.dim() - values.dim()))
