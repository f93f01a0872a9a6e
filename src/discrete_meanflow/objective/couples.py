from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.objective.cross_entropy import cross_entropy
from discrete_meanflow.process import PathSample


class OnCouples(Objective):
    """``objective`` on the first half of a batch, ``w (-log q_{0,1}(x1 | z))`` on its couples.

    Cross-entropy over independent (z, x1) would find the marginals of the data. Over
    couples x1 is a function of z, and what it finds is that function: the flow map.
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
        whole = cross_entropy(kernel, couples, couples.t)
        return self.objective(kernel, soft, teacher) + self.weight * whole

    def extra_repr(self) -> str:
        return f"weight={self.weight:g}"


def _halves(half: int) -> tuple[slice, slice]:
    return slice(half), slice(half, None)
