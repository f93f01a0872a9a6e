"""Exact paths of a chain, from a matrix or from nothing but its jump rates.

One loop serves all: propose the next jump at a bound of the exit rate, then take it or
leave it (thinning). Where the bound is the exit rate itself, as for rates constant in time,
no proposal is left and the loop is Gillespie's.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator
from discrete_meanflow.ctmc.transition import as_times
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State, Times


class JumpRates(ABC):
    """A chain given by its jumps: enough to simulate, even with infinitely many states."""

    @abstractmethod
    def jumps(self, x: State, t: Times) -> tuple[Tensor, Tensor]:
        """Where x can jump at time t and how fast: targets and rates, both ``(*batch, J)``.

        Self-jumps and zero rates are allowed and do nothing.
        """

    def exit_bound(self, x: State, t: Times) -> Times:
        """A bound on the exit rate of x from time t on.

        By default the rate at t, right for rates constant in time. Rates that grow with time
        must give a bound of their own.
        """
        return self.jumps(x, t)[1].sum(-1)


class MatrixRates(JumpRates):
    """The jumps of a generator matrix, constant or time-varying."""

    def __init__(self, generator: RateGenerator) -> None:
        self.generator = generator
        # A time-varying rate was probed on a grid only: leave room between the probes. A
        # path that still exceeds the bound is refused, never silently wrong.
        slack = 1.0 if isinstance(generator, ConstantGenerator) else 1.05
        self.bound = slack * generator.max_rate

    def jumps(self, x: State, t: Times) -> tuple[Tensor, Tensor]:
        n = self.generator.states
        u = self.generator.at(t).to(x.device)
        column = u.gather(-1, x[..., None, None].expand(*x.shape, n, 1))[..., 0]
        targets = torch.arange(n, device=x.device).expand(*x.shape, n)
        return targets, column.clamp(min=0)  # the diagonal, -exit rate, is no jump

    def exit_bound(self, x: State, t: Times) -> Times:
        if isinstance(self.generator, ConstantGenerator):
            return super().exit_bound(x, t)
        return torch.full_like(t, self.bound)


class Paths(NamedTuple):
    """A batch of piecewise-constant paths; after its last jump a path repeats itself."""

    times: Tensor  # (batch, J): when state j is entered; infinity where there is no jump j
    states: Tensor  # (batch, J)

    def at(self, t: Times) -> State:
        """``X_t`` of each path: shape ``(batch,)``."""
        if bool((t < self.times[:, 0]).any()):
            raise InputError("paths: asked for a time before the start of a path")
        last = (self.times <= t[:, None]).sum(-1, keepdim=True) - 1
        return self.states.gather(-1, last)[:, 0]


def simulate_paths(rates: JumpRates, x: State, r: Times, t: Times, g: torch.Generator) -> Paths:
    """Whole paths from ``X_r = x`` to time t. All of shape ``(batch,)``."""
    r, t = as_times(r, t)
    times, states = [r], [x]
    for now, y in _proposals(rates, x, r, t, g):
        times.append(now)
        states.append(y)
    return Paths(torch.stack(times, -1), torch.stack(states, -1))


def simulate(rates: JumpRates, x: State, r: Times, t: Times, g: torch.Generator) -> State:
    """``X_t`` given ``X_r = x``, without keeping the path. All of shape ``(batch,)``."""
    r, t = as_times(r, t)
    y = x
    for _, y in _proposals(rates, x, r, t, g):  # noqa: B007
        pass
    return y


def _proposals(
    rates: JumpRates, x: State, now: Times, t: Times, g: torch.Generator
) -> Iterator[tuple[Times, State]]:
    """Yield (time, states) after each proposed jump, until every path has passed t."""
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
        # One uniform decides both whether the proposal is taken and where it leads.
        level = torch.rand(now.shape, dtype=torch.float64, device=now.device, generator=g) * bound
        taken = alive & (level < total)
        choice = torch.searchsorted(cumulative, level[:, None], right=True)
        choice = choice.clamp(max=targets.shape[-1] - 1)
        x = torch.where(taken, targets.gather(-1, choice)[:, 0], x)
        yield torch.where(alive, now, torch.inf), x
