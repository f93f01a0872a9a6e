import math

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.process import PathSample


class Weighted(Objective):
    """``sum_i w_i L_i``."""

    weights: Tensor

    def __init__(self, *terms: tuple[float, Objective]) -> None:
        super().__init__()
        if not terms or any(w < 0 or not math.isfinite(w) for w, _ in terms):
            raise InputError("weighted objective: needs terms with finite weights >= 0")
        # A buffer, not numbers: objectives that differ in weights share compiled code.
        self.register_buffer("weights", torch.tensor([w for w, _ in terms]), persistent=False)
        self.terms = nn.ModuleList(objective for _, objective in terms)
        self.needs = Needs.union(objective.needs for _, objective in terms)

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        losses = [objective(kernel, path, teacher) for objective in self.terms]
        return (torch.stack(losses) * self.weights.to(losses[0].dtype)).sum()

    def extra_repr(self) -> str:
        return f"weights={tuple(round(w, 6) for w in self.weights.tolist())}"


def hybrid(residual: Objective, cross_entropy: Objective, weight: float) -> Objective:
    """``L_KR + lambda L_CE``; lambda = 0 is the residual alone, infinity the cross-entropy."""
    if not weight >= 0:
        raise InputError(f"hybrid objective: lambda must be >= 0 (or infinity), got {weight:g}")
    if weight == 0:
        return residual
    if math.isinf(weight):
        return cross_entropy
    return Weighted((1.0, residual), (weight, cross_entropy))
