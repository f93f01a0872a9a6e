"""Exact simulation of a chain from a matrix or from its jump rates.

One loop: propose the next jump at a bound of the exit rate, then accept or reject it (thinning).
For rates constant in time the bound is the exit rate, every proposal is accepted, and the loop is
Gillespie's algorithm.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator, as_times
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Times, Tokens


class JumpRates(ABC):
    """A chain given by its jump rates, possibly with infinitely many states."""

    @abstractmethod
    def jumps(self, x: Tokens, t: Times) -> tuple[Tensor, Tensor]:
        """Targets and rates of the jumps from x at time t, both ``(*batch, J)``.

        Self-jumps and zero rates are allowed and do nothing.
        """

    def exit_bound(self, x: Tokens, t: Times) -> Times:
        """A bound on the exit rate of x from time t on.

        The default is the rate at t, which is correct for constant rates. Override it for rates
        that grow with time.
        """
        return self.jumps(x, t)[1].sum(-1)


class MatrixRates(JumpRates):
    """The jumps of a generator matrix, constant or time-varying."""

    def __init__(self, generator: RateGenerator) -> None:
        self.generator = generator
        # A time-varying rate is probed on a grid only: leave a margin between the probes. A path
        # that still exceeds the bound raises an error.
        slack = 1.0 if isinstance(generator, ConstantGenerator) else 1.05
        self.bound = slack * generator.max_rate

    def jumps(self, x: Tokens, t: Times) -> tuple[Tensor, Tensor]:
        n = self.generator.states
        u = self.generator.at(t).to(x.device)
        column = u.gather(-1, x[..., None, None].expand(*x.shape, n, 1))[..., 0]
        targets = torch.arange(n, device=x.device).expand(*x.shape, n)
        return targets, column.clamp(min=0)  # the diagonal is not a jump

    def exit_bound(self, x: Tokens, t: Times) -> Times:
        if isinstance(self.generator, ConstantGenerator):
            return super().exit_bound(x, t)
        return torch.full_like(t, self.bound)


def simulate(rates: JumpRates, x: Tokens, r: Times, t: Times, g: torch.Generator) -> Tokens:
    """Draw ``X_t`` given ``X_r = x``; all of shape ``(batch,)``."""
    r, t = as_times(r, t)
    y = x
    for y in _proposals(rates, x, r, t, g):  # noqa: B007
        pass
    return y


def _proposals(
    rates: JumpRates, x: Tokens, now: Times, t: Times, g: torch.Generator
) -> Iterator[Tokens]:
    """Yield the states after each proposed jump, until every path has passed t."""
    while True:
        bound = rates.exit_bound(x, now)
        wait = torch.empty_like(now).exponential_(generator=g) / bound  # inf if absorbing
        now = now + wait
        alive = now < t
        if not bool(alive.any()):
            return
        targets, rate = rates.jumps(x, torch.where(alive, now, t))
        cumulative = rate.double().cumsum(-1)
        total = cumulative[:, -1]
        if bool((alive & (total > bound * (1 + 1e-9))).any()):
            worst = (total - bound).argmax()
            raise InputError(
                f"simulation: exit rate {total[worst]:g} of state {x[worst].item()} exceeds its"
                f" bound {bound[worst]:g}; give a larger exit_bound"
            )
        # One uniform number decides whether the proposal is accepted and where it leads.
        level = torch.rand(now.shape, dtype=torch.float64, device=now.device, generator=g) * bound
        accepted = alive & (level < total)
        choice = torch.searchsorted(cumulative, level[:, None], right=True)
        choice = choice.clamp(max=targets.shape[-1] - 1)
        x = torch.where(accepted, targets.gather(-1, choice)[:, 0], x)
        yield x
