from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.sampler.logits import LogitProcessor
from discrete_meanflow.types import Logits, State, Times, Tokens


@dataclass(frozen=True)
class Carry:
    """What a step passes on to the next."""

    x: State
    observed: Tensor | None  # bool, (*batch, D)
    memory: Any = None  # private to the sampler, such as the last value of a multistep solver


class Sampler(ABC):
    """Generates samples in steps. The loop is here; a subclass implements ``step``.

    ``evaluations`` is the number of forward passes per sequence, the mean over the last batch.

    Args:
        kernel: the transition kernel.
        steps: number of steps.
        logit_processors: applied to the logits at every step, in order. With any, the symbols of
            continuous states are drawn from their final laws instead of the most likely ones.
        end: the last time. States at time 1 are decoded to symbols.
    """

    def __init__(
        self,
        kernel: Kernel,
        steps: int,
        logit_processors: Sequence[LogitProcessor] = (),
        end: float = 1.0,
    ) -> None:
        if steps < 1:
            raise InputError(f"sampler: needs at least one step, got {steps}")
        self.kernel, self.step_count, self.end = kernel, steps, end
        self.evaluations = float(steps)
        self.logit_processors = tuple(logit_processors)

    @abstractmethod
    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        """Step i, from 0: the state at the next time."""

    def remember(self, x: State) -> Any:
        """The memory before the first step, from the start without observed positions."""
        return None

    @torch.no_grad()
    def trajectory(
        self,
        x: State,
        g: torch.Generator,
        tokens: Tokens | None = None,
        observed: Tensor | None = None,
    ) -> Iterator[State]:
        """The states after each step; arguments as in ``sample``."""
        space = self.kernel.space
        space.check(x)
        if (tokens is None) != (observed is None):
            raise InputError("sampler: give both tokens and observed, or neither")
        carry = Carry(x, observed, self.remember(x))
        if tokens is not None and observed is not None:
            carry = replace(carry, x=space.observe(x, tokens, observed))
            mask = self.kernel.mask
            if mask is not None and bool((carry.x[observed] == mask).any()):
                raise InputError(f"sampler: observed tokens must not be the mask, {mask}")
        for i in range(self.step_count):
            carry = self.step(i, carry, g)
            yield carry.x

    @torch.no_grad()
    def sample(
        self,
        x: State,
        g: torch.Generator,
        tokens: Tokens | None = None,
        observed: Tensor | None = None,
    ) -> State:
        """Symbols generated from the start x: shape ``(*batch, D)``.

        Args:
            x: states at the first time, ``process.source(shape, g)``.
            g: the random generator.
            tokens: symbols of the observed positions, ``(*batch, D)``; others are ignored.
            observed: bool ``(*batch, D)``. Observed positions keep their tokens; the others are
                generated given them.
        """
        for state in self.trajectory(x, g, tokens, observed):
            x = state
        return self.symbols(x, g) if self.end == 1 else x

    def symbols(self, x: State, g: torch.Generator) -> Tokens:
        """The symbols of a state at time 1; with logit processors, drawn from its laws."""
        return self.kernel.decode(x, g if self.logit_processors else None)

    def times(self, x: State, time: float, observed: Tensor | None = None) -> Times:
        """The time of each position: 1 where it is observed."""
        kernel, space = self.kernel, self.kernel.space
        shape = space.time_shape(x) if observed is None else space.positions(x)
        times = torch.full(shape, time, dtype=kernel.dtype, device=x.device)
        return times if observed is None else times.masked_fill(observed, 1)

    def processed(self, logits: Logits) -> Logits:
        """The logits after all processors."""
        original = logits
        for processor in self.logit_processors:
            logits = processor(logits)
        return self.kernel.rescaled(logits, original) if self.logit_processors else logits


def check_flow_map(kernel: Kernel, sampler: str) -> None:
    """Raise unless the states are continuous."""
    if not isinstance(kernel, FlowMapKernel):
        raise InputError(
            f"{sampler}: needs a FlowMapKernel; {type(kernel).__name__} has discrete states"
        )
