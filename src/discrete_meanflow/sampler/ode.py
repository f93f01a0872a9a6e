import math
from dataclasses import replace

import torch
from torch import Tensor

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.sampler.base import Carry, Sampler, check_flow_map
from discrete_meanflow.types import State, Times


class ODESampler(Sampler):
    """Integrate the diagonal's ODE ``dX/dr = (q(X, r) - X)/(1 - r)`` in k steps.

    A step is ``X_t = (1 - alpha) X_r + alpha q``. Euler would use q at r. This is the second-order
    Adams-Bashforth method on the clock ``tau = (i/k)^c``: q is extrapolated by half a step from
    its last two values, without further function evaluations. The last step ends in q, a law.
    """

    def __init__(self, kernel: FlowMapKernel, k: int) -> None:
        super().__init__(kernel, k)
        check_flow_map(kernel, "ODE sampler")
        self.clock = torch.linspace(0, 1, k + 1, dtype=torch.float64) ** clock_exponent(
            kernel.states
        )
        self.grid = [*DecodingClock(kernel.states).inverse(self.clock[:-1]).tolist(), 1.0]

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        kernel, x = self.kernel, carry.x
        assert isinstance(kernel, FlowMapKernel)
        r, t = (self.grid_times(j, x, carry.observed) for j in (i, i + 1))
        now = kernel.log_q(x, kernel(x, r, r)).exp()
        q, last = now, carry.memory
        if last is not None:
            q = now + self.extrapolation(i) * (now - last)
        return replace(carry, x=kernel.push(x, q, r, t), memory=now)

    def grid_times(self, i: int, x: State, observed: Tensor | None) -> Times:
        """The time before step i, of each position."""
        return self.times(x, self.grid[i], observed)

    def extrapolation(self, i: int) -> float | Tensor:
        """The weight of the last change of q in step i > 0."""
        if self.grid[i + 1] == 1:
            return 0.0
        step, previous = self.clock.diff()[[i, i - 1]].tolist()
        return step / previous / 2


def clock_exponent(states: int) -> float:
    """How much shorter early steps are: they decide for all positions.

    In a large alphabet a state carries information before its largest entry identifies the symbol,
    and the decoding clock ignores it.
    """
    return max(1.5, math.log(states) / 3)
