import math

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.process import PathSample


class Weighted(Objective):
    """``sum_i w_i L_i``."""

    def __init__(self, *terms: tuple[float, Objective]) -> None:
        super().__init__()
        if not terms or any(w < 0 or not math.isfinite(w) for w, _ in terms):
            raise InputError("weighted objective: needs terms with finite weights >= 0")
        self.weights = tuple(w for w, _ in terms)
        self.terms = nn.ModuleList(objective for _, objective in terms)
        self.draws = max(objective.draws for _, objective in terms)

    def forward(self, kernel: Kernel, path: PathSample) -> Tensor:
        losses = [objective(kernel, path) for objective in self.terms]
        return torch.stack([w * loss for w, loss in zip(self.weights, losses, strict=True)]).sum()

    def extra_repr(self) -> str:
        return f"weights={self.weights}"
