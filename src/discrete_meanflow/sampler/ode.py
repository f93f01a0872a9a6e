import math
from dataclasses import replace

import torch

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.sampler.base import Carry, Sampler, check_flow_map


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
        r, t = (self.times(x, s, carry.observed) for s in self.grid[i : i + 2])
        now = kernel.log_q(x, kernel(x, r, r)).exp()
        q, last = now, carry.memory
        if last is not None and self.grid[i + 1] < 1:
            step, previous = self.clock.diff()[[i, i - 1]].tolist()
            q = now + step / previous / 2 * (now - last)
        return replace(carry, x=kernel.push(x, q, r, t), memory=now)


def clock_exponent(states: int) -> float:
    """How much shorter early steps are: they decide for all positions.

    In a large alphabet a state carries information before its largest entry identifies the symbol,
    and the decoding clock ignores it.
    """
    return max(1.5, math.log(states) / 3)
