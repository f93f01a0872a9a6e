"""Time derivatives: forward mode, and the finite difference that tests compare it with."""

from collections.abc import Callable

import torch

from discrete_meanflow.types import Probs, Times

TimeDerivative = Callable[[Callable[[Times], Probs], Times], Probs]


def forward_mode(f: Callable[[Times], Probs], t: Times) -> Probs:
    """``d/dt f(t)``, exact, in one forward pass with tangents."""
    return value_and_slope(f, t)[1]


def value_and_slope(f: Callable[[Times], Probs], t: Times) -> tuple[Probs, Probs]:
    """``f(t)`` and ``d/dt f(t)``, in the precision of t even under autocast.

    A derivative is a small difference of large numbers, beyond the precision of bfloat16.
    """
    with torch.autocast(t.device.type, enabled=False):
        both = torch.func.jvp(f, (t,), (torch.ones_like(t),))
    return both[0], both[1]


def finite_difference(f: Callable[[Times], Probs], t: Times) -> Probs:
    """``(f(t + h) - f(t - h)) / 2h``; h balances truncation h^2 against rounding eps/h."""
    h = torch.finfo(t.dtype).eps ** (1 / 3)
    return (f(t + h) - f(t - h)) / (2 * h)
