"""What may be done to logits before a state is drawn from them."""

from collections.abc import Callable

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Logits

COLDEST, HOTTEST = 1e-3, 1e2  # beyond, nothing changes but the rounding
LogitProcessor = Callable[[Logits], Logits]


def temperature(value: float) -> LogitProcessor:
    """``q^(1/T)``, normalised: below 1 sharper, above 1 flatter."""
    if not COLDEST <= value <= HOTTEST:
        raise InputError(f"temperature: from {COLDEST:g} to {HOTTEST:g}, got {value:g}")
    return lambda logits: logits / value


def top_p(share: float) -> LogitProcessor:
    """The smallest set of likeliest symbols that holds ``share`` of the probability, no other."""
    if not 0 < share <= 1:
        raise InputError(f"top-p: the share must lie in (0, 1], got {share:g}")

    def keep(logits: Logits) -> Logits:
        ordered, place = logits.sort(-1, descending=True)
        probability = ordered.softmax(-1)
        beyond = probability.cumsum(-1) - probability >= share  # what comes before suffices
        cut = torch.zeros_like(beyond).scatter(-1, place, beyond)
        return logits.masked_fill(cut, -torch.inf)

    return keep


def forbid(symbol: int) -> LogitProcessor:
    """Never this symbol: a kernel that is not trained to the end may leave a mask in its place."""

    def drop(logits: Logits) -> Logits:
        if not 0 <= symbol < logits.shape[-1]:
            raise InputError(f"without: symbol {symbol} is none of 0 .. {logits.shape[-1] - 1}")
        here = torch.arange(logits.shape[-1], device=logits.device) == symbol
        return logits.masked_fill(here, -torch.inf)

    return drop
