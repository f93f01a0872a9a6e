from torch import Tensor

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.objective.estimator import Estimator
from discrete_meanflow.objective.time_derivative import TimeDerivative, forward_mode
from discrete_meanflow.process import PathSample


class KernelResidual(Objective):
    """``E sum_y ( d/dt K_theta(y, x_r, r, t) - g(y) )^2``, g from an estimator.

    Together with the boundary condition, a zero residual is the forward equation, whose only
    solution is the reference kernel.
    """

    def __init__(self, estimator: Estimator, derivative: TimeDerivative = forward_mode) -> None:
        super().__init__()
        self.estimator, self.derivative = estimator, derivative
        self.draws = estimator.draws

    def extra_repr(self) -> str:
        return f"derivative={getattr(self.derivative, '__name__', self.derivative)}"

    def forward(self, kernel: Kernel, path: PathSample) -> Tensor:
        dK_dt = self.derivative(lambda t: kernel.probs(path.x, path.r, t), path.t)
        g = self.estimator(kernel, path)
        return (dK_dt - g).square().sum(-1).mean()
