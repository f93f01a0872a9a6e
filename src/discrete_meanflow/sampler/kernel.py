import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.sampler.base import Carry, Sampler, check_flow_map
from discrete_meanflow.sampler.logits import LogitProcessor
from discrete_meanflow.types import State


class KernelSampler(Sampler):
    r"""Sample ``X_{t_{i+1}} ~ K_theta(., X_{t_i}, t_i, t_{i+1})`` along a time grid.

    With the default grid ``(0, 1)`` this is one-step generation: one forward pass, one draw. A grid
    may fall from 1 to an earlier time: a restart (Xu et al. 2023, arXiv:2306.14878), where the
    symbols are noised again, without a forward pass.

    Args:
        kernel: the transition kernel.
        grid: times in [0, 1], increasing or falling from 1.
        logit_processors: see :class:`Sampler`.
        guidance: scale w of classifier-free guidance (Ho & Salimans 2022, arXiv:2207.12598). The
            logits are ``(1 - w) unconditional + w conditional``, where the condition is the
            observed positions. 1 disables it; other values cost a second forward pass.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Sequence[float] = (0.0, 1.0),
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
    ) -> None:
        self.grid, self.guidance = [float(t) for t in grid], guidance
        if len(self.grid) < 2:
            raise InputError("sampler: the time grid needs at least two times, as in (0, 1)")
        if any(not 0 <= t <= 1 for t in self.grid):
            raise InputError(f"sampler: times must lie in [0, 1], got {self.grid}")
        pairs = list(itertools.pairwise(self.grid))
        self.spans = [(r, t) for r, t in pairs if r < t]
        if any(r != 1 or t == 1 for r, t in pairs if r >= t) or self.grid[-2] > self.grid[-1]:
            raise InputError(f"sampler: times must increase, or fall from 1, got {self.grid}")
        if len(self.spans) < len(pairs):
            check_flow_map(kernel, "restart")
        super().__init__(kernel, len(self.spans), logit_processors, self.grid[-1])
        self.evaluations *= 1 if guidance == 1 else 2

    @classmethod
    def steps(
        cls,
        kernel: Kernel,
        k: int,
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
    ) -> Self:
        """k steps from 0 to 1 at the kernel's own times.

        They are even in time for discrete states and on the decoding clock for continuous ones.
        """
        if k < 1:
            raise InputError(f"sampler: needs at least one step, got {k}")
        return cls(kernel, kernel.grid(k), logit_processors, guidance)

    @classmethod
    def restarts(
        cls,
        kernel: Kernel,
        k: int,
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
    ) -> Self:
        """k maps to time 1 from ever later starts, each from the noised symbols of the last.

        The multistep sampling of consistency models (Song et al. 2023, arXiv:2303.01469).
        """
        if k < 1:
            raise InputError(f"sampler: needs at least one step, got {k}")
        starts = kernel.times_between(0.0, k)[:-1]
        grid = [time for start in starts for time in (start, 1.0)]
        return cls(kernel, grid, logit_processors, guidance)

    def remember(self, x: State) -> Any:
        """With guidance, the unconditional state."""
        return None if self.guidance == 1 else x

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        start, end = self.spans[i]
        kernel, x, free = self.kernel.for_step(start, end), carry.x, carry.memory
        r, t = (self.times(x, s, carry.observed) for s in (start, end))
        if i and start < self.spans[i - 1][1]:  # a restart; observed positions stay, at r = 1
            assert isinstance(kernel, FlowMapKernel)
            x = kernel.renoise(self.symbols(x, g), r, g)
            if free is not None:
                free = kernel.renoise(self.symbols(free, g), self.times(free, start), g)
        logits = kernel(x, r, t)
        if self.guidance != 1:
            if carry.observed is None:
                raise InputError("sampler: guidance needs observed positions")
            # Generated positions are common to both states; observed ones follow their own path.
            free = kernel.space.where(carry.observed, free, x)
            free_r, free_t = (self.times(free, s) for s in (start, end))
            free_logits = kernel(free, free_r, free_t)
            free = kernel.transport(free, free_logits, free_r, free_t, g)
            logits = free_logits + self.guidance * (logits - free_logits)
        x = kernel.transport(x, self.processed(logits), r, t, g)
        return replace(carry, x=x, memory=free)
