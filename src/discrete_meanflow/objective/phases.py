import itertools
import math

from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective.base import Needs, Objective
from discrete_meanflow.process import PathSample


class Phases(Objective):
    """Objectives in sequence, each for a fraction of the training: ``(0.5, A), (0.5, B)``.

    A flow map learns the diagonal first, because self-distillation builds on it.
    """

    def __init__(self, *phases: tuple[float, Objective]) -> None:
        super().__init__()
        fractions = [fraction for fraction, _ in phases]
        if not phases or min(fractions) <= 0 or not math.isclose(sum(fractions), 1):
            raise InputError(f"phases: needs fractions > 0 that sum to 1, got {fractions}")
        self.fractions = fractions
        self.objectives = nn.ModuleList(objective for _, objective in phases)
        self.needs = Needs.union(objective.needs for _, objective in phases)

    def at(self, progress: float) -> Objective:
        ends = itertools.accumulate(self.fractions)
        ahead = [o for o, end in zip(self.objectives, ends, strict=True) if progress < end - 1e-12]
        objective = (ahead or list(self.objectives)[-1:])[0]
        assert isinstance(objective, Objective)
        return objective

    def forward(self, kernel: Kernel, path: PathSample, teacher: Kernel | None = None) -> Tensor:
        """The loss of the last phase."""
        return self.at(1.0)(kernel, path, teacher)

    def extra_repr(self) -> str:
        return f"fractions={self.fractions}"
