"""Self-distillation of flow maps: objectives for a flow map off the diagonal."""

import copy

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import EndpointKernel, FlowMapKernel, Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.objective.time_derivative import value_and_slope
from discrete_meanflow.process import PathSample
from discrete_meanflow.types import Point, Probs, Times


class SemigroupLoss(Objective):
    """Two steps equal one, the counterpart of Chapman-Kolmogorov: ``KL(goal, q_{r,t}(x))`` with

    ``goal = a q_{r,s}(x) + (1 - a) q_{s,t}(X_{r,s}(x))``, ``a = (s-r)(1-t) / ((t-r)(1-s))``.

    Progressive self-distillation, PSD (Boffi et al. 2025, arXiv:2505.18825), in KL form. The goal
    comes from the teacher. It vanishes on the diagonal: add PosteriorRegression.
    """

    needs = Needs(draws=0, continuous=True)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        student, guide = flow_map(kernel), flow_map(teacher or kernel)
        x, r, s, t = path.x, path.r, path.s, path.t
        with torch.no_grad():
            first = guide(x, r, s).softmax(-1)
            second = guide(student.push(x, first, r, s), s, t).softmax(-1)
            a = ratio((s - r) * (1 - t), (t - r) * (1 - s))[..., None]
            goal = a * first + (1 - a) * second
        return divergence(goal, student(x, r, t).log_softmax(-1), t > r)


class LagrangianLoss(Objective):
    """``d/dt X_{r,t}(x) = (q(X_{r,t}, t, t) - X_{r,t})/(1 - t)``, the forward equation.

    Lagrangian self-distillation, LSD (Boffi et al. 2025, arXiv:2505.18825), and the counterpart of
    the kernel residual. In KL form: ``KL(q(X_{r,t}, t, t), qtilde)`` with
    ``qtilde = q + (t-r)(1-t)/(1-r) dq/dt`` and the left law from the teacher. At t = 1 and on the
    diagonal it says nothing. Since ``dq/dt = q d/dt log q``, ``qtilde = q (1 + ... d/dt log q)``;
    the bracket is clipped at ``floor``.

    Args:
        frozen: a kernel trained on the diagonal, used instead of the teacher.
        floor: lower bound of the bracket.
    """

    needs = Needs(draws=0, continuous=True)

    def __init__(self, frozen: Kernel | None = None, floor: float = 0.01) -> None:
        super().__init__()
        if not 0 < floor < 1:
            raise InputError(f"Lagrangian loss: the floor must lie in (0, 1), got {floor:g}")
        self.frozen, self.floor = frozen_copy(frozen), floor

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        student, guide = flow_map(kernel), flow_map(self.frozen or teacher or kernel)
        x, r, t = path.x, path.r, path.t
        log_q, slope = value_and_slope(lambda t: student(x, r, path.moved(t)).log_softmax(-1), t)
        with torch.no_grad():
            there = student.push(x, log_q.exp(), r, t)
            goal = guide(there, t, t).softmax(-1)
        speed = ratio((t - r) * (1 - t), 1 - r)[..., None]
        bracket = (1 + speed * slope).clamp(min=self.floor)
        return divergence(goal, log_q + bracket.log(), (t > r) & (t < 1))

    def extra_repr(self) -> str:
        return f"floor={self.floor:g}"


class DenoiserDistillation(Objective):
    """``KL(q(x_r, r, r), q_theta(x_r, r, t))``: a frozen denoiser replaces the data.

    For flow maps only the diagonal t = r is trained; add SemigroupLoss.
    """

    needs = Needs(draws=0, continuous=True)

    def __init__(self, frozen: Kernel) -> None:
        super().__init__()
        self.frozen = frozen_copy(frozen)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        if not isinstance(kernel, EndpointKernel) or self.frozen is None:
            raise InputError("denoiser distillation needs kernels with a law q")
        t = path.r if isinstance(kernel, FlowMapKernel) else path.t
        with torch.no_grad():
            goal = self.frozen.log_q(path.x, self.frozen(path.x, path.r, path.r)).exp()
        log_q = kernel.log_q(path.x, kernel(path.x, path.r, t))
        return divergence(goal, log_q.clamp(min=torch.finfo(log_q.dtype).min), path.r < 1)


def frozen_copy(kernel: Kernel | None) -> EndpointKernel | None:
    if kernel is None:
        return None
    if not isinstance(kernel, EndpointKernel):
        raise InputError(f"a teacher needs a law q; {type(kernel).__name__} has none")
    return copy.deepcopy(kernel).requires_grad_(False)


def flow_map(kernel: Kernel) -> FlowMapKernel:
    if not isinstance(kernel, FlowMapKernel):
        raise InputError(
            f"self-distillation needs a FlowMapKernel; {type(kernel).__name__} has discrete "
            "states: use KernelResidual or ResidualKL"
        )
    return kernel


def ratio(part: Times, total: Times) -> Times:
    """``part / total``, and 0 where both are 0 (observed positions, pairs with r = t)."""
    empty = total <= 0
    return torch.where(empty, 0.0, part / torch.where(empty, 1.0, total))


def divergence(goal: Probs, log_q: Point, active: Tensor) -> Tensor:
    """Mean over positions of ``KL(goal, q)`` where active, 0 elsewhere."""
    kl = (torch.special.xlogy(goal, goal) - goal * log_q).sum(-1)
    return torch.where(active, kl, 0.0).mean()
