import math
from collections.abc import Iterator

import torch
from torch import Tensor

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.sampler.kernel import check_start, times_at
from discrete_meanflow.types import Point


class ODESampler:
    """The flow of a soft kernel's diagonal, ``dX/dr = (q(X, r) - X)/(1 - r)``, in k steps.

    Over a step ``X_t = (1 - alpha) X_r + alpha q``, with a mean of q for q. Euler would take q as
    it is at r; here it goes on as it came, on the clock ``tau = (i/k)^bend``: by half a step's
    change, judged by the step before (Adams and Bashforth). That costs no further look at the
    network. The last step ends in q itself, a law.
    """

    def __init__(self, kernel: FlowMapKernel, k: int) -> None:
        if k < 1:
            raise InputError(f"flow: needs at least one step, got {k}")
        self.kernel = kernel
        self.clock = torch.linspace(0, 1, k + 1, dtype=torch.float64) ** clock_exponent(
            kernel.states
        )
        self.grid = [*DecodingClock(kernel.states).inverse(self.clock[:-1]).tolist(), 1.0]

    @torch.no_grad()
    def trajectory(self, x: Point, clamped: Tensor | None = None) -> Iterator[Point]:
        """The states at the times of the grid, after the first. What is clamped stays."""
        check_start(self.kernel, x)
        steps = self.clock.diff().tolist()
        before = None
        for i, (r, t) in enumerate(zip(self.grid, self.grid[1:], strict=False)):
            here, there = (times_at(self.kernel, x, s, clamped) for s in (r, t))
            now = self.kernel.log_q(x, self.kernel(x, here, here)).exp()
            q = now
            if before is not None and t < 1:
                q = now + steps[i] / steps[i - 1] / 2 * (now - before)
            x, before = self.kernel.push(x, q, here, there), now
            yield x


def clock_exponent(states: int) -> float:
    """How much shorter early steps are, as what they decide is decided for all positions.

    Of many symbols much is known before the largest entry tells which it is, and tau goes by that.
    """
    return max(1.5, math.log(states) / 3)
