from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import EndpointKernel, Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.process import PathSample
from discrete_meanflow.types import Times


class KernelCE(Objective):
    """``E[ -log q_theta(x1 | x_r, r, t) ]``, the mean over all positions: the paper's KCE.

    A position that has arrived (carry-over) is certain and adds nothing.
    """

    needs = Needs(draws=0)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        return nll(kernel, path, path.t).mean()


class PosteriorRegression(Objective):
    """``E[ -log q_theta(x1 | x_r, r, r) ]``: cross-entropy at one time, the paper's PR.

    It trains the diagonal t = r only; combine it with a ``DiagonalNetwork``.
    """

    needs = Needs(draws=0, continuous=True, data_ends=True)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        return nll(kernel, path, path.r).mean()


class PairCrossEntropy(Objective):
    """``E[ -log q_theta(x | X_r, r, t) ]`` on teacher pairs and on data at t = r.

    On independent (z, x1) cross-entropy at (0, 1) would find the marginals of the data. The x of a
    teacher pair is drawn from the flow map's own law, at t = 1 a function of X_r: its minimiser is
    the flow map.
    """

    needs = Needs(draws=0, continuous=True, flow_map_ends=True)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        return nll(kernel, path, path.t).mean()


def nll(kernel: Kernel, path: PathSample, t: Times) -> Tensor:
    """``-log q_theta(x1 | x_r, r, t)`` of each position, ``(*batch, D)``."""
    if not isinstance(kernel, EndpointKernel):
        raise InputError(
            f"cross-entropy needs a kernel with a law q; {type(kernel).__name__} has none"
        )
    if not path.has_endpoint:
        raise InputError("cross-entropy needs clean data x1, which a chain process does not have")
    log_q = kernel.log_q(path.x, kernel(path.x, path.r, t))
    return -log_q.gather(-1, path.x1[..., None])[..., 0]
