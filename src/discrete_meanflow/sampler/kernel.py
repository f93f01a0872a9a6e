from collections.abc import Sequence
from dataclasses import replace

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.sampler.base import Carry, Sampler
from discrete_meanflow.sampler.logits import LogitProcessor
from discrete_meanflow.types import State


class KernelSampler(Sampler):
    r"""Sample ``X_{t_{i+1}} ~ K_theta(., X_{t_i}, t_i, t_{i+1})`` along a time grid.

    With the default grid ``(0, 1)`` this is one-step generation: one forward pass, one draw.

    Args:
        kernel: the transition kernel.
        grid: increasing times in [0, 1].
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
        if any(a >= b for a, b in zip(self.grid, self.grid[1:], strict=False)):
            raise InputError(f"sampler: times must increase, got {self.grid}")
        super().__init__(kernel, len(self.grid) - 1, logit_processors, self.grid[-1])

    @classmethod
    def steps(
        cls,
        kernel: Kernel,
        k: int,
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
    ) -> "KernelSampler":
        """k steps from 0 to 1, even in time for discrete states and on the decoding clock for
        continuous ones."""
        if k < 1:
            raise InputError(f"sampler: needs at least one step, got {k}")
        return cls(kernel, [*kernel.even_grid(k), 1.0], logit_processors, guidance)

    def remember(self, x: State) -> State | None:
        """With guidance, the unconditional state."""
        return None if self.guidance == 1 else x

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        start, end = self.grid[i : i + 2]
        kernel = self.kernel.for_step(start, end)
        r, t = (self.times(carry.x, s, carry.observed) for s in (start, end))
        logits, free = kernel(carry.x, r, t), carry.memory
        if self.guidance != 1:
            if carry.observed is None:
                raise InputError("sampler: guidance needs observed positions")
            # Generated positions are common to both states; observed ones follow their own path.
            free = kernel.space.where(carry.observed, free, carry.x)
            free_r, free_t = (self.times(free, s) for s in (start, end))
            free_logits = kernel(free, free_r, free_t)
            free = kernel.transport(free, free_logits, free_r, free_t, g)
            logits = free_logits + self.guidance * (logits - free_logits)
        x = kernel.transport(carry.x, self.processed(logits), r, t, g)
        return replace(carry, x=x, memory=free)
