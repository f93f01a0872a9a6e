import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.sampler.base import Carry, Sampler, check_flow_map
from discrete_meanflow.sampler.logits import LogitProcessor
from discrete_meanflow.types import State, Times


class ODESampler(Sampler):
    """Integrate the diagonal's ODE ``dX/dr = (q(X, r) - X)/(1 - r)`` in k steps.

    The sampler of flow matching (Lipman et al. 2022, arXiv:2210.02747; Liu et al. 2022,
    arXiv:2209.03003). A step is ``X_t = (1 - alpha) X_r + alpha q``. At order 1 q is that at r:
    Euler's method in ``-log(1 - r)``. Order 2 is the Adams-Bashforth method on the clock
    ``tau = (i/k)^c``: q is extrapolated by half a step from its last two values, without further
    function evaluations. The last step ends in q, a law.

    Args:
        kernel: the kernel.
        k: number of steps, each one function evaluation.
        logit_processors: see :class:`Sampler`.
        order: 1 or 2.
    """

    def __init__(
        self,
        kernel: Kernel,
        k: int,
        logit_processors: Sequence[LogitProcessor] = (),
        order: int = 2,
    ) -> None:
        super().__init__(kernel, k, logit_processors)
        check_flow_map(kernel, "ODE sampler")
        if order not in (1, 2):
            raise InputError(f"ODE sampler: the order must be 1 or 2, got {order}")
        self.order = order
        self.clock = torch.linspace(0, 1, k + 1, dtype=torch.float64) ** clock_exponent(
            kernel.states
        )
        self.grid = [*DecodingClock(kernel.states).inverse(self.clock[:-1]).tolist(), 1.0]

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        kernel, x = self.kernel, carry.x
        assert isinstance(kernel, FlowMapKernel)
        r, t = (self.grid_times(j, x, carry.observed) for j in (i, i + 1))
        now = kernel.log_q(x, self.processed(kernel(x, r, r))).exp()
        q, last = now, carry.memory
        if last is not None:
            q = now + self.extrapolation(i) * (now - last)
        return replace(carry, x=kernel.push(x, q, r, t), memory=now)

    def grid_times(self, i: int, x: State, observed: Tensor | None) -> Times:
        """The time before step i, of each position."""
        return self.times(x, self.grid[i], observed)

    def extrapolation(self, i: int) -> float | Tensor:
        """The weight of the last change of q in step i > 0."""
        if self.order == 1 or self.grid[i + 1] == 1:
            return 0.0
        step, previous = self.clock.diff()[[i, i - 1]].tolist()
        return step / previous / 2


def clock_exponent(states: int) -> float:
    """How much shorter early steps are: they decide for all positions.

    In a large alphabet a state carries information before its largest entry identifies the symbol,
    and the decoding clock ignores it.
    """
    return max(1.5, math.log(states) / 3)
