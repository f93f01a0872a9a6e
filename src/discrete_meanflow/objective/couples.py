from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.objective.cross_entropy import cross_entropy
from discrete_meanflow.process import PathSample


class OnCouples(Objective):
    """``objective`` on the first half of a batch, ``w (-log q_{r,t}(x | X_r))`` on its couples.

    Cross-entropy over independent (z, x1) would find the marginals of the data. Over couples x is
    drawn from the flow map's own law, at t = 1 a function of X_r: so that is what it finds.
    """

    soft = True

    def __init__(self, objective: Objective, weight: float = 1.0) -> None:
        super().__init__()
        if not objective.soft:
            raise InputError("couples: the other half's objective must be one for soft states")
        self.objective, self.weight, self.draws = objective, weight, objective.draws

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        half = len(path.x) // 2
        soft, couples = (PathSample(*(a[part] for a in path)) for part in _halves(half))
        on_couples = cross_entropy(kernel, couples, couples.t)
        return self.objective(kernel, soft, teacher) + self.weight * on_couples

    def extra_repr(self) -> str:
        return f"weight={self.weight:g}"


def _halves(half: int) -> tuple[slice, slice]:
    return slice(half), slice(half, None)
