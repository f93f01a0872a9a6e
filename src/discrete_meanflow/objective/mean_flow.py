import math

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.objective.eulerian import SMALLEST_REST, eulerian_goal
from discrete_meanflow.objective.self_distillation import flow_map
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import delta

OFFSET = 0.01  # c of the adaptive weight


class MeanFlow(Objective):
    """``E w |u_theta - stopgrad(v + (t - r) du/dr)|^2``: MeanFlow on one-hot vectors.

    Geng et al. 2025 (arXiv:2505.13447), with time from noise to data. The mean velocity is
    ``u = (X_{r,t}(x) - x)/(t - r) = (q - x)/(1 - r)``, the velocity of the path is
    ``v = (e_{x1} - x_r)/(1 - r)``, and ``d/dr`` is along ``dx/dr = v``: a directional derivative of
    the network. On the diagonal it is flow matching (Lipman et al. 2022, arXiv:2210.02747). The
    paper has three quarters of the pairs there: ``OnDiagonal(times, 0.75)``.

    The square is summed over a sequence. Its adaptive weight is ``w = (square + 0.01)^-power``,
    without gradient.

    Args:
        power: 1 in the paper. At 0 all paths count equally and the exact flow map is stationary.
            Above, paths far from the prediction count less, so predictions shift to likely
            symbols: on one-hot vectors that costs more than it gains.
    """

    needs = Needs(draws=0, continuous=True, data_ends=True)

    def __init__(self, power: float = 0.0) -> None:
        super().__init__()
        if not 0 <= power < math.inf:
            raise InputError(f"MeanFlow: power must be finite and >= 0, got {power:g}")
        self.power = power

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        student, r = flow_map(kernel), path.r
        end = delta(path.x1, student.states, path.t.dtype)
        log_q, goal = eulerian_goal(student, path, end)
        gap = (log_q.exp() - goal) / (1 - r).clamp(min=SMALLEST_REST)[..., None]  # of u
        square = torch.where(r < 1, gap.square().sum(-1), 0.0).sum(-1)
        weight = (square.detach() + OFFSET) ** -self.power
        return (weight * square).mean()

    def extra_repr(self) -> str:
        return f"power={self.power:g}"
