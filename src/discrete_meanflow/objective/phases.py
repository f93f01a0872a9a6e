import itertools
import math

from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Objective
from discrete_meanflow.process import PathSample


class Phases(Objective):
    """One objective after the other, each for a share of the training: ``(0.5, A), (0.5, B)``.

    A soft kernel learns the diagonal first, which is all that composition can build on.
    """

    def __init__(self, *phases: tuple[float, Objective]) -> None:
        super().__init__()
        shares = [share for share, _ in phases]
        if not phases or min(shares) <= 0 or not math.isclose(sum(shares), 1):
            raise InputError(f"phases: needs shares > 0 that sum to 1, got {shares}")
        self.shares = shares
        self.objectives = nn.ModuleList(objective for _, objective in phases)
        self.draws = max(objective.draws for _, objective in phases)
        self.soft = all(objective.soft for _, objective in phases)

    def at(self, progress: float) -> Objective:
        ends = itertools.accumulate(self.shares)
        ahead = [o for o, end in zip(self.objectives, ends, strict=True) if progress < end - 1e-12]
        found = (ahead or list(self.objectives)[-1:])[0]
        assert isinstance(found, Objective)
        return found

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        """The loss of the last phase, which is where training leads."""
        return self.at(1.0)(kernel, path, teacher)

    def extra_repr(self) -> str:
        return f"shares={self.shares}"
