import torch
from torch import Tensor

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.process import PathSample
from discrete_meanflow.simplex import delta


class BoundaryPenalty(Objective):
    """``E_r sum_x | K_theta(., x, r, r) - delta_x |^2``, for kernels without the boundary."""

    def __init__(self, states: int) -> None:
        super().__init__()
        self.states = states

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        x = torch.arange(self.states, device=path.x.device).expand(*path.r.shape, self.states)
        r = path.r[..., None].expand(x.shape)
        gap = kernel.probs(x, r, r) - delta(x, self.states, r.dtype)
        return gap.square().sum((-1, -2)).mean()
