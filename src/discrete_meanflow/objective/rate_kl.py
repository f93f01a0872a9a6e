import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel, RateKernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import delta


class RateKL(Objective):
    """``sum_{y != x} u_theta - u + u log(u/u_theta)``, ``u = u_r(y, x | x1)``: a generalised KL.

    The divergence, per unit of time, of the process given x1 from the model. Integrated over r in
    [0, 1] and summed over positions it bounds ``-log p_theta(x1)`` (Campbell et al. 2022,
    arXiv:2205.14987). Special cases:

    * Masking: the weighted cross-entropy ``-log q(x1)/(1 - r)`` of MDLM (Sahoo et al. 2024,
      arXiv:2406.07524), where the model unmasks to data only;
    * mixture paths: the generalised KL of Gat et al. (2024, arXiv:2407.15595), Shaul et al. (2024,
      arXiv:2412.03487);
    * a score kernel on ``Masking`` or ``UniformDiffusion``: the score entropy of SEDD (Lou et al.
      2024, arXiv:2310.16834), with the constant that makes it vanish at the conditional score.

    The rates diverge as ``1/(1 - r)``. Draw r below 1, as ``OneTime()`` does: the average is then
    the integral over [0, 1 - 1e-3], divided by that length. Learned scores under uniform noise
    also diverge as 1/r: ``OneTime(1e-3)``.
    """

    needs = Needs(draws=0, data_ends=True)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        return self.by_position(kernel, path).mean()

    def by_position(self, kernel: Kernel, path: PathSample) -> Tensor:
        """The divergence at each position, ``(*batch, D)``; 0 where observed (r = 1)."""
        if not isinstance(kernel, RateKernel) or not path.has_endpoint:
            raise InputError(
                "the rate KL needs a kernel with rates, such as BridgeKernel, and clean data x1"
            )
        x, r = path.x, path.r
        model = kernel.rate(x, kernel(x, r, r), r)
        exact = kernel.process.rate(x, r, path.x1)
        log_model = model.clamp(min=torch.finfo(model.dtype).tiny).log()
        kl = model - exact + torch.xlogy(exact.clamp(min=0), exact) - exact * log_model
        elsewhere = delta(x, kernel.states, kl.dtype) == 0
        return torch.where(r < 1, torch.where(elsewhere, kl, 0.0).sum(-1), 0.0)
