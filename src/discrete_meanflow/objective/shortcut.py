import math

from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.objective.cross_entropy import PosteriorRegression
from discrete_meanflow.objective.self_distillation import SemigroupLoss
from discrete_meanflow.objective.weighted import Weighted
from discrete_meanflow.process import PathSample


def shortcut(fraction: float = 0.25) -> Objective:
    """Shortcut models (Frans et al. 2024, arXiv:2410.12557), in KL form.

    Flow matching on the diagonal, and on a fraction of the batch one step that equals two half
    steps, ``X_{r,t} = X_{s,t}(X_{r,s})``: the semigroup loss with s in the middle and step sizes
    that are powers of 1/2. Use it with ``DyadicTimes``.
    """
    return Weighted((1.0, PosteriorRegression()), (1.0, OnFraction(fraction, SemigroupLoss())))


class OnFraction(Objective):
    """Another objective on the first part of a batch, because it costs more than the others."""

    def __init__(self, fraction: float, objective: Objective) -> None:
        super().__init__()
        if not 0 < fraction <= 1:
            raise InputError(f"fraction of a batch must lie in (0, 1], got {fraction:g}")
        self.fraction, self.objective, self.needs = fraction, objective, objective.needs

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        size = math.ceil(self.fraction * len(path.x))
        return self.objective(kernel, PathSample(*(part[:size] for part in path)), teacher)

    def extra_repr(self) -> str:
        return f"fraction={self.fraction:g}"
