from collections.abc import Sequence
from dataclasses import replace

import torch

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler.base import Carry, Sampler, check_flow_map
from discrete_meanflow.sampler.logits import LogitProcessor


class RestartSampler(Sampler):
    r"""Generate in one step, add noise, generate again, with less noise each time.

    The multistep sampling of consistency models (Song et al. 2023, arXiv:2303.01469). Step i maps
    ``X_r = (1 - r) z + r e_y`` to time 1, where z is fresh noise and y are the symbols of the step
    before. It evaluates only maps (r, 1), and an error of one step is no start of the next.

    Args:
        kernel: the flow-map kernel.
        k: number of steps. Their start times are even on the decoding clock.
        logit_processors: see :class:`Sampler`.
    """

    def __init__(
        self, kernel: Kernel, k: int, logit_processors: Sequence[LogitProcessor] = ()
    ) -> None:
        super().__init__(kernel, k, logit_processors)
        check_flow_map(kernel, "restart sampler")
        self.starts, self.process = kernel.even_grid(k), OneHotFlow(kernel.states)

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        kernel, x = self.kernel.for_step(self.starts[i], 1), carry.x
        r, t = (self.times(x, s, carry.observed) for s in (self.starts[i], 1.0))
        if i:  # observed positions have r = 1 and get no noise
            x = self.process.corrupt(self.symbols(x, g), r, g).to(x.dtype)
        logits = self.processed(kernel(x, r, t))
        return replace(carry, x=kernel.transport(x, logits, r, t, g))
