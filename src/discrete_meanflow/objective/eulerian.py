"""The Eulerian identity of flow maps: ``X_{r,t}(x_r)`` is constant while x_r follows the flow."""

import torch
from torch import Tensor

from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.objective.self_distillation import divergence, flow_map, ratio
from discrete_meanflow.objective.time_derivative import value_and_slope
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import interpolate
from discrete_meanflow.types import Logits, Point, Probs

SMALLEST_REST = 1e-6  # lower bound of 1 - r where it divides


class EulerianLoss(Objective):
    """``d/dr X_{r,t}(x_r) = 0`` along ``dx/dr = (mu - x)/(1 - r)``, ``mu = q(x, r, r)``.

    Eulerian self-distillation, ESD (Boffi et al. 2025, arXiv:2505.18825), in KL form. With
    ``alpha = (t-r)/(1-r)`` and ``Dq`` the derivative of ``q_{r,t}(x_r)`` along the flow, the
    identity is ``q = goal``, ``goal = alpha q + (1-alpha) mu + (t-r) Dq``. The loss is
    ``KL(goal, q)``: its gradient in the logits is ``q - goal``, as in the squared form. No
    gradient flows through the goal, whose entries are clipped at 0, and mu comes from the teacher.
    It vanishes on the diagonal: add PosteriorRegression.
    """

    needs = Needs(draws=0, continuous=True)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        student, guide = flow_map(kernel), flow_map(teacher or kernel)
        with torch.no_grad():
            mu = guide(path.x, path.r, path.r).softmax(-1)
        log_q, goal = eulerian_goal(student, path, mu)
        goal = goal.clamp(min=0)
        return divergence(goal / goal.sum(-1, keepdim=True), log_q, path.t > path.r)


def eulerian_goal(student: FlowMapKernel, path: PathSample, mu: Probs) -> tuple[Logits, Point]:
    """``log q_{r,t}(x_r)`` and its goal, without gradient: each ``(*batch, D, V)``.

    The goal sums to one. It is linear in mu: on average, ``e_{x1}`` gives the goal of
    ``mu = E[e_{x1} | x_r]``.
    """
    x, r, t = path.x, path.r, path.t
    velocity = (mu - x) / (1 - r).clamp(min=SMALLEST_REST)[..., None]

    def log_q(time: Tensor) -> Logits:
        time = torch.where(r < 1, time, r)  # observed positions stay
        return student(x + (time - r)[..., None] * velocity, time, t).log_softmax(-1)

    value, slope = value_and_slope(log_q, r)
    with torch.no_grad():
        q = value.exp()
        goal = interpolate(mu, q, ratio(t - r, 1 - r)) + (t - r)[..., None] * q * slope
    return value, goal
