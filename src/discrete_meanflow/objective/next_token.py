import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import AutoregressiveKernel, Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.process import PathSample


class NextToken(Objective):
    """``E[ -log p_theta(x1_d | x1_1, ..., x1_{d-1}) ]``, the mean over all positions.

    The training of an autoregressive model. Its sum over positions is the exact negative
    log-likelihood. Observed positions are seen and add nothing.
    """

    needs = Needs(draws=0, data_ends=True)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        if not isinstance(kernel, AutoregressiveKernel):
            raise InputError(
                f"next-token prediction needs an AutoregressiveKernel, not {type(kernel).__name__}"
            )
        log_q = kernel.log_q(path.x1, kernel(path.x1, path.r, path.t))
        nll = -log_q.gather(-1, path.x1[..., None])[..., 0]
        return torch.where(path.r < 1, nll, 0.0).mean()
