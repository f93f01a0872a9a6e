from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import EndpointKernel, Kernel
from discrete_meanflow.objective.base import DIAGONAL, Needs, Objective
from discrete_meanflow.objective.time_derivative import value_and_slope
from discrete_meanflow.process import PathSample


class ResidualKL(Objective):
    """The kernel residual as a likelihood: ``-log qtilde(x1)``, ``qtilde = q + (t - r) dq/dt``.

    With the linear schedule the residual of the identity is ``qtilde - delta_{x1}`` up to a
    factor. qtilde sums to one, so where it is positive it is a law, and its negative
    log-likelihood replaces the square: bounded in t, and a proper score. Since
    ``dq/dt = q d/dt log q``, ``qtilde(x1) = q(x1) (1 + (t - r) d/dt log q(x1))``.

    The bracket is clipped from below at ``floor``; ``clipped`` is the fraction where this acts.
    """

    needs = Needs(draws=0, diagonal=DIAGONAL)

    def __init__(self, floor: float = 0.01) -> None:
        super().__init__()
        if not 0 < floor < 1:
            raise InputError(f"residual KL: the floor must lie in (0, 1), got {floor:g}")
        self.floor = floor

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        log_q, bracket = self._at_x1(kernel, path)
        return -(log_q + bracket.clamp(min=self.floor).log()).mean()

    def clipped(self, kernel: Kernel, path: PathSample) -> Tensor:
        """The fraction of positions at which the bracket is clipped."""
        return (self._at_x1(kernel, path)[1] < self.floor).to(path.t.dtype).mean()

    def _at_x1(self, kernel: Kernel, path: PathSample) -> tuple[Tensor, Tensor]:
        """``log q(x1)`` and ``1 + (t - r) d/dt log q(x1)``, each ``(*batch,)``."""
        if not isinstance(kernel, EndpointKernel) or not path.has_endpoint:
            raise InputError(
                "the KL form needs a kernel with a law q and clean data x1; on a "
                "finite chain use KernelResidual(ExactExpectation(process))"
            )

        def log_q(t: Tensor) -> Tensor:
            log_q = kernel.log_q(path.x, kernel(path.x, path.r, path.moved(t)))
            return log_q.gather(-1, path.x1[..., None])[..., 0]

        value, slope = value_and_slope(log_q, path.t)
        return value, 1 + (path.t - path.r) * slope

    def extra_repr(self) -> str:
        return f"floor={self.floor:g}"
