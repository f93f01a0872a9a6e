import torch
from torch import Tensor

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.process import PathSample


class TransitionLikelihood(Objective):
    """``-log K_theta(x_t | x_r)``: a baseline without generator or derivative."""

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        K = kernel.probs(path.x, path.r, path.t)
        hit = K.gather(-1, path.y)  # (*batch, m)
        return -hit.clamp(min=torch.finfo(K.dtype).tiny).log().mean()
