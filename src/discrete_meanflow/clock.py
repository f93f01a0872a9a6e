from functools import cache

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Times

POINTS = 2049  # of the table
REACH = 9.0  # standard deviations at which the normal density is cut off


class DecodingClock(nn.Module):
    """A time change ``tau(t)``: how much of the token the continuous state at t reveals.

    ``x_t = (1 - t) z + t e_{x1}`` with z normal. The largest entry of x_t is that of x1 with
    probability ``P(t) = E[Phi(z + t/(1-t))^(V-1)]``, which rises from 1/V to 1, for large V within
    a short interval. ``tau(t) = (P(t) - 1/V)/(1 - 1/V)`` is tabulated once and linear between the
    points of the table, so both directions are differentiable.
    """

    tau: Tensor

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        if vocabulary < 2:
            raise InputError(f"decoding clock: needs at least 2 symbols, got {vocabulary}")
        self.vocabulary = vocabulary
        self.register_buffer("tau", _table(vocabulary), persistent=False)

    def forward(self, t: Times) -> Times:
        """``tau(t)``, in the shape and dtype of t."""
        place = t.double() * (POINTS - 1)
        left = place.detach().floor().clamp(0, POINTS - 2).long()
        low, high = self.tau[left], self.tau[left + 1]
        return (low + (high - low) * (place - left)).to(t.dtype)

    def inverse(self, tau: Times) -> Times:
        """``t`` with ``tau(t) = tau``."""
        target = tau.double().clamp(0, 1)
        right = torch.searchsorted(self.tau, target.detach().contiguous(), right=True)
        left = (right - 1).clamp(0, POINTS - 2)
        low, high = self.tau[left], self.tau[left + 1]
        # Where the table is flat at 1, t = 1 is the inverse.
        fraction = torch.where(high > low, (target - low) / (high - low).clamp(min=1e-300), 1.0)
        return ((left + fraction.clamp(0, 1)) / (POINTS - 1)).to(tau.dtype)

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}"


@cache
def _table(vocabulary: int) -> Tensor:
    """tau at POINTS even times; cached, because it takes a second."""
    t = torch.linspace(0, 1, POINTS, dtype=torch.float64, device="cpu")
    z = torch.linspace(-REACH, REACH, 4001, dtype=torch.float64, device="cpu")
    density = torch.exp(-z.square() / 2)
    lead = (t / (1 - t).clamp(min=1e-12))[:, None]  # of x1 over the others, in noise units
    others = (vocabulary - 1) * torch.special.log_ndtr(z + lead)
    p = (density * others.exp()).sum(-1) / density.sum()
    return (p - p[0]) / (p[-1] - p[0])
