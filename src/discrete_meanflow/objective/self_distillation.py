"""What a soft kernel is taught off the diagonal: to agree with itself along the way."""

import copy

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import EndpointKernel, FlowMapKernel, Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.objective.time_derivative import value_and_slope
from discrete_meanflow.process import PathSample
from discrete_meanflow.types import Point, Probs, Times


class SemigroupLoss(Objective):
    """Two steps are one: the twin of Chapman-Kolmogorov. ``KL(goal, q_{r,t}(x))`` with

    ``goal = a q_{r,s}(x) + (1 - a) q_{s,t}(X_{r,s}(x))``, ``a = (s-r)(1-t) / ((t-r)(1-s))``.

    The goal comes from the teacher. On the diagonal it says nothing: add PosteriorRegression.
    """

    draws = 0
    soft = True

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        soft, guide = _soft(kernel), _soft(teacher or kernel)
        x, r, s, t = path.x, path.r, path.s, path.t
        with torch.no_grad():
            first = guide(x, r, s).softmax(-1)
            second = guide(soft.push(x, first, r, s), s, t).softmax(-1)
            a = _share((s - r) * (1 - t), (t - r) * (1 - s))[..., None]
            goal = a * first + (1 - a) * second
        return _divergence(goal, soft(x, r, t).log_softmax(-1), t > r)


class LagrangianLoss(Objective):
    """``d/dt X_{r,t}(x) = (q(X_{r,t}, t, t) - X_{r,t})/(1 - t)``: the twin of the kernel residual.

    In KL form: ``KL(q(X_{r,t}, t, t), qtilde)``, ``qtilde = q + (t-r)(1-t)/(1-r) dq/dt``, the left
    law from the teacher. At t = 1 it says nothing, on the diagonal that q = q.
    ``dq/dt = q d/dt log q``; the bracket ``1 + ... d/dt log q`` is clamped at ``floor``.
    """

    draws = 0
    soft = True

    def __init__(self, frozen: Kernel | None = None, floor: float = 0.01) -> None:
        """frozen: a kernel that is trained on the diagonal, in the place of the teacher."""
        super().__init__()
        if not 0 < floor < 1:
            raise InputError(f"forward equation: the floor must lie in (0, 1), got {floor:g}")
        self.frozen, self.floor = _frozen(frozen), floor

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        soft, guide = _soft(kernel), _soft(self.frozen or teacher or kernel)
        x, r, t = path.x, path.r, path.t
        log_q, slope = value_and_slope(lambda t: soft(x, r, path.moved(t)).log_softmax(-1), t)
        with torch.no_grad():
            there = soft.push(x, log_q.exp(), r, t)
            goal = guide(there, t, t).softmax(-1)
        speed = _share((t - r) * (1 - t), 1 - r)[..., None]
        bracket = (1 + speed * slope).clamp(min=self.floor)
        return _divergence(goal, log_q + bracket.log(), t > r)

    def extra_repr(self) -> str:
        return f"floor={self.floor:g}"


class DenoiserDistillation(Objective):
    """``KL(q(x_r, r, r), q_theta(x_r, r, t))``: what a denoiser knows, in the place of x1.

    Of soft kernels only the diagonal t = r is taught; add Composition.
    """

    draws = 0
    soft = True

    def __init__(self, frozen: Kernel) -> None:
        super().__init__()
        self.frozen = _frozen(frozen)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        if not isinstance(kernel, EndpointKernel) or self.frozen is None:
            raise InputError("distillation needs kernels with a law q")
        t = path.r if isinstance(kernel, FlowMapKernel) else path.t
        with torch.no_grad():
            goal = self.frozen.log_q(path.x, self.frozen(path.x, path.r, path.r)).exp()
        log_q = kernel.log_q(path.x, kernel(path.x, path.r, t))
        return _divergence(goal, log_q.clamp(min=torch.finfo(log_q.dtype).min), path.r < 1)


def _frozen(kernel: Kernel | None) -> EndpointKernel | None:
    if kernel is None:
        return None
    if not isinstance(kernel, EndpointKernel):
        raise InputError(f"a teacher needs a law q; {type(kernel).__name__} has none")
    return copy.deepcopy(kernel).requires_grad_(False)


def _soft(kernel: Kernel) -> FlowMapKernel:
    if not isinstance(kernel, FlowMapKernel):
        raise InputError(
            f"composition and forward equation are for soft kernels; {type(kernel).__name__} has "
            "hard states: use KernelResidual or ResidualKL"
        )
    return kernel


def _share(part: Times, whole: Times) -> Times:
    """``part / whole``, and 0 where both are 0 (clamped positions, pairs with r = t)."""
    empty = whole <= 0
    return torch.where(empty, 0.0, part / torch.where(empty, 1.0, whole))


def _divergence(goal: Probs, log_q: Point, taught: Tensor) -> Tensor:
    """Mean over positions of ``KL(goal, q)`` where something is taught, 0 elsewhere."""
    each = (torch.special.xlogy(goal, goal) - goal * log_q).sum(-1)
    return torch.where(taught, each, 0.0).mean()
