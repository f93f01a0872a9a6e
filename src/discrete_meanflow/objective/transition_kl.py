import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BridgeKernel, Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import delta


class TransitionKL(Objective):
    """``T KL(K_{r,t}(. | x_r, x1), K_theta(., x_r, r, t)) - c log q_theta(x1 | x_r)``.

    D3PM (Austin et al. 2021, arXiv:2107.03006) with times on the grid ``r = i/T, t = (i + 1)/T``
    (``GridTimes(T)``): the variational bound of the chain of T steps, and an auxiliary
    cross-entropy. The last step adds ``-log q(x1 | x_r)``; there is no prior term, because at
    r = 0 the noise is exactly that of the source. As T grows the bound becomes that of ``RateKL``.

    Args:
        steps: number of steps T of the chain.
        ce_weight: weight c of the auxiliary cross-entropy.
    """

    needs = Needs(draws=0, data_ends=True)

    def __init__(self, steps: int, ce_weight: float = 0.0) -> None:
        super().__init__()
        if steps < 1 or ce_weight < 0:
            raise InputError(
                f"transition KL: needs steps >= 1 and ce_weight >= 0, got {steps} and {ce_weight:g}"
            )
        self.steps, self.ce_weight = steps, ce_weight

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        return self.by_position(kernel, path).mean()

    def by_position(self, kernel: Kernel, path: PathSample) -> Tensor:
        """The loss at each position, ``(*batch, D)``; 0 where observed (r = 1)."""
        if not isinstance(kernel, BridgeKernel) or not path.has_endpoint:
            raise InputError("the transition KL needs a BridgeKernel and clean data x1")
        x, r, t = path.x, path.r, path.t
        log_q = kernel.log_q(x, kernel(x, r, t))
        model = kernel.push(x, log_q.exp(), r, t)
        exact = kernel.process.bridge(x, delta(path.x1, kernel.states, model.dtype), r, t)
        log_model = model.clamp(min=torch.finfo(model.dtype).tiny).log()
        loss = self.steps * (torch.xlogy(exact, exact) - exact * log_model).sum(-1)
        if self.ce_weight:
            loss = loss - self.ce_weight * log_q.gather(-1, path.x1[..., None])[..., 0]
        return torch.where(r < 1, loss, 0.0)

    def extra_repr(self) -> str:
        return f"steps={self.steps}, ce_weight={self.ce_weight:g}"
