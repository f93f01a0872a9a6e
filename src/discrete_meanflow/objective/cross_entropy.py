from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import EndpointKernel, Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.process import PathSample
from discrete_meanflow.types import Times


class KernelCE(Objective):
    """``E[ -log q_theta(x1 | x_r, r, t) ]``, the mean over all positions: the paper's KCE.

    A position that has arrived (carry-over) is certain and adds nothing.
    """

    draws = 0  # x_t is not looked at

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        return cross_entropy(kernel, path, path.t)


class PosteriorRegression(Objective):
    """``E[ -log q_theta(x1 | x_r, r, r) ]``: cross-entropy at a single time, the paper's PR.

    It trains the diagonal t = r alone; give it a ``SingleTime`` network, which knows no other.
    """

    draws = 0
    soft = True

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        return cross_entropy(kernel, path, path.r)


def cross_entropy(kernel: Kernel, path: PathSample, t: Times) -> Tensor:
    """``-log q_theta(x1 | x_r, r, t)``, averaged."""
    return nll(kernel, path, t).mean()


def nll(kernel: Kernel, path: PathSample, t: Times) -> Tensor:
    """``-log q_theta(x1 | x_r, r, t)`` of each position, ``(*batch, D)``."""
    if not isinstance(kernel, EndpointKernel):
        raise InputError(
            f"cross-entropy needs a kernel with a law q; {type(kernel).__name__} has none"
        )
    if path.x1.shape[-1] == 0:
        raise InputError("cross-entropy needs clean data x1, and a chain process has none")
    log_q = kernel.log_q(path.x, kernel(path.x, path.r, t))
    return -log_q.gather(-1, path.x1[..., None])[..., 0]
