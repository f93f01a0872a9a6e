"""Logit processors: maps applied to the logits before a state is drawn."""

from collections.abc import Callable

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Logits

COLDEST, HOTTEST = 1e-3, 1e2  # beyond, only rounding changes
LogitProcessor = Callable[[Logits], Logits]


def temperature(value: float) -> LogitProcessor:
    """Softmax temperature: ``q^(1/T)``, normalised."""
    if not COLDEST <= value <= HOTTEST:
        raise InputError(f"temperature must lie in [{COLDEST:g}, {HOTTEST:g}], got {value:g}")
    return lambda logits: logits / value


def top_p(mass: float) -> LogitProcessor:
    """Nucleus sampling (Holtzman et al. 2019, arXiv:1904.09751).

    Keeps the smallest set of most likely symbols whose probability is at least ``mass``.
    """
    if not 0 < mass <= 1:
        raise InputError(f"top-p must lie in (0, 1], got {mass:g}")

    def keep(logits: Logits) -> Logits:
        ordered, place = logits.sort(-1, descending=True)
        probability = ordered.softmax(-1)
        beyond = probability.cumsum(-1) - probability >= mass  # more likely symbols reach the mass
        cut = torch.zeros_like(beyond).scatter(-1, place, beyond)
        return logits.masked_fill(cut, -torch.inf)

    return keep


def only(allowed: Tensor) -> LogitProcessor:
    """Keep the symbols that each position may have: bool ``(D, V)``."""
    return lambda logits: logits.masked_fill(~allowed.to(logits.device), -torch.inf)


def forbid(symbol: int) -> LogitProcessor:
    """Exclude a symbol, such as the mask, which a factorised kernel may draw."""

    def drop(logits: Logits) -> Logits:
        if not 0 <= symbol < logits.shape[-1]:
            raise InputError(f"forbid: symbol {symbol} lies outside 0 .. {logits.shape[-1] - 1}")
        here = torch.arange(logits.shape[-1], device=logits.device) == symbol
        return logits.masked_fill(here, -torch.inf)

    return drop
