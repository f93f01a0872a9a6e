from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.network import TimelessNetwork
from discrete_meanflow.sampler.base import Carry
from discrete_meanflow.sampler.kernel import KernelSampler
from discrete_meanflow.sampler.logits import LogitProcessor
from discrete_meanflow.types import State


class CachedSampler(KernelSampler):
    """A kernel sampler that evaluates the network only for sequences that have changed.

    The caching of MDLM (Sahoo et al. 2024, arXiv:2406.07524): without a time input, the logits of
    a sequence stay the same until a position jumps. With more steps than positions most steps
    are free.

    Args:
        kernel: a kernel whose network is a ``TimelessNetwork``.
        grid: see :class:`KernelSampler`.
        logit_processors: see :class:`Sampler`.
        guidance: only 1.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Sequence[float] = (0.0, 1.0),
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
    ) -> None:
        if guidance != 1:
            raise InputError("cached sampler: has no guidance; use KernelSampler")
        if not isinstance(kernel.network, TimelessNetwork):
            raise InputError("cached sampler: the logits must not depend on time: TimelessNetwork")
        super().__init__(kernel, grid, logit_processors)

    def remember(self, x: State) -> tuple[None, Tensor]:
        """No logits yet, and all sequences count as changed."""
        self.evaluations = 0.0
        return None, torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        start, end = self.spans[i]
        x, (logits, changed) = carry.x, carry.memory
        r, t = (self.times(x, s, carry.observed) for s in (start, end))
        if i == 0:
            logits = self.kernel(x, r, t)
        elif bool(changed.any()):
            logits[changed] = self.kernel(x[changed], r[changed], t[changed])
        self.evaluations += changed.double().mean().item()
        y = self.kernel.transport(x, self.processed(logits), r, t, g)
        return replace(carry, x=y, memory=(logits, (y != x).any(-1)))
