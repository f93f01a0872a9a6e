import torch
from torch import Tensor

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.objective.self_distillation import divergence, flow_map, ratio
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import delta, interpolate
from discrete_meanflow.types import Point, Times


class ConsistencyLoss(Objective):
    """``KL(X_{s,1}(x_s), q_{r,1}(x_r))``, where s is the next time after r on the path of x_r.

    Consistency training (Song et al. 2023, arXiv:2303.01469), with the target from the same
    weights, without gradient (Song & Dhariwal 2023, arXiv:2310.14189). ``x_s`` lies on the line
    from x_r to ``e_{x1}``, and ``X_{1,1}`` is the identity, so the last target is the data. Only
    maps to time 1 are trained: sample in several steps with ``KernelSampler.restarts``.

    Each step to s covers 1/N of the decoding clock. The exact flow map is stationary in the limit
    of large N, which learns slowly: increase it in ``Phases``. Use it with ``ToEnd``: the data
    enter at late times r only.

    Args:
        states: number of symbols V.
        intervals: number of steps N of the decoding clock.
    """

    needs = Needs(draws=0, continuous=True, data_ends=True)

    def __init__(self, states: int, intervals: int = 64) -> None:
        super().__init__()
        self.next = NextTime(states, intervals)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        student, one = flow_map(kernel), torch.ones_like(path.r)
        with torch.no_grad():
            s, x = self.next(path, one)
            goal = student.probs(x, s, one)
        return divergence(goal, student(path.x, path.r, one).log_softmax(-1), path.r < 1)


class NextTime(torch.nn.Module):
    """The time s at ``tau(s) = tau(r) + 1/N`` on the decoding clock, t at most, and ``x_s``."""

    gap: Tensor

    def __init__(self, states: int, intervals: int) -> None:
        super().__init__()
        if intervals < 1:
            raise InputError(f"objective: needs at least one interval, got {intervals}")
        self.clock, self.intervals = DecodingClock(states), intervals
        # A buffer, not a number: objectives that differ in it share compiled code.
        self.register_buffer("gap", torch.tensor(1 / intervals), persistent=False)

    def forward(self, path: PathSample, t: Times) -> tuple[Times, Point]:
        """Times s of the shape of r, and points on the lines from x_r to ``e_{x1}``."""
        tau = torch.minimum(self.clock(path.r) + self.gap, self.clock(t))
        s = torch.minimum(self.clock.inverse(tau), t)
        end = delta(path.x1, path.x.shape[-1], path.x.dtype)
        return s, interpolate(path.x, end, ratio(s - path.r, 1 - path.r))

    def extra_repr(self) -> str:
        return f"intervals={self.intervals}"
