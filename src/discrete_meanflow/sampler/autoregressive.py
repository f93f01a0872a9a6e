from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import AutoregressiveKernel, Kernel
from discrete_meanflow.sampler.base import Carry, Sampler
from discrete_meanflow.sampler.logits import LogitProcessor, forbid
from discrete_meanflow.simplex import categorical, delta
from discrete_meanflow.types import State


class AutoregressiveSampler(Sampler):
    """Draw position after position, each given those before it: D steps, exact for the model.

    A step evaluates the network at one position; keys and values of earlier positions come from
    a cache. Observed positions keep their tokens. Only later positions depend on them.

    Args:
        kernel: the autoregressive kernel.
        logit_processors: see :class:`Sampler`.
        compiled: compile the step, which takes up to a minute: for many samples of long sequences.
    """

    def __init__(
        self,
        kernel: Kernel,
        logit_processors: Sequence[LogitProcessor] = (),
        compiled: bool = False,
    ) -> None:
        if not isinstance(kernel, AutoregressiveKernel):
            raise InputError(
                "autoregressive sampler: needs an AutoregressiveKernel, not "
                f"{type(kernel).__name__}"
            )
        noise = () if kernel.mask is None else (forbid(kernel.mask),)
        super().__init__(kernel, kernel.length, (*noise, *logit_processors))
        self.new_cache = kernel.cache
        self.next = torch.compile(kernel.step, dynamic=False) if compiled else kernel.step

    def remember(self, x: State) -> list[Tensor]:
        """The empty cache."""
        return self.new_cache(x.shape[:-1])

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        x, kernel = carry.x, self.kernel
        previous = delta(x[..., max(i - 1, 0)], kernel.states, kernel.dtype) * (i > 0)
        logits = self.next(previous, torch.full((1,), i, device=x.device), carry.memory)
        y = categorical(self.processed(logits.double()).softmax(-1), g)
        if carry.observed is not None:
            y = torch.where(carry.observed[..., i], x[..., i], y)
        x = x.clone()
        x[..., i] = y
        return replace(carry, x=x)
