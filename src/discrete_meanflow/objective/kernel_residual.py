from collections.abc import Callable

from torch import Tensor

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.objective.estimator import Estimator
from discrete_meanflow.objective.time_derivative import TimeDerivative, forward_mode
from discrete_meanflow.process import PathSample
from discrete_meanflow.types import Times


class KernelResidual(Objective):
    """``E w(r, t)^2 sum_y ( d/dt K_theta(y, x_r, r, t) - g(y) )^2``, g from an estimator.

    With the boundary condition, a zero residual at all r <= t is the forward equation, whose only
    solution is the reference kernel. A positive weight w does not change that.
    """

    def __init__(
        self,
        estimator: Estimator,
        derivative: TimeDerivative = forward_mode,
        weight: Callable[[Times, Times], Times] | None = None,
    ) -> None:
        super().__init__()
        self.estimator, self.derivative, self.weight = estimator, derivative, weight
        self.needs = estimator.needs

    def extra_repr(self) -> str:
        weight = f", weight={_name(self.weight)}" if self.weight else ""
        return f"derivative={_name(self.derivative)}{weight}"

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        dK_dt = self.derivative(lambda t: kernel.probs(path.x, path.r, path.moved(t)), path.t)
        g = self.estimator(kernel, path)
        residual = dK_dt - g
        if self.weight is not None:
            residual = self.weight(path.r, path.t)[..., None] * residual
        return residual.square().sum(-1).mean()


def remaining_time(r: Times, t: Times) -> Times:
    """``w = 1 - r``: with the linear schedule the weighted residual is bounded.

    It equals ``q + (t - r) dq/dt - delta_{x1}``.
    """
    return 1 - r


def _name(f: object) -> str:
    return getattr(f, "__name__", str(f))
