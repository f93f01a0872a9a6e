"""Distribution matching distillation: train the student on its own samples."""

from dataclasses import dataclass
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel, StudentAndFake
from discrete_meanflow.objective import DistributionMatching
from discrete_meanflow.path import DataPaths, MatchingPaths, MixedPaths
from discrete_meanflow.training.problem import Problem, Recipe


@dataclass(frozen=True)
class MatchingDistillation:
    """A third training stage: :class:`DistributionMatching` of the student to the teacher.

    Half of each batch are starts of the student, the other half is the batch of the second stage.
    Its cross-entropy keeps the student near the teacher's flow map: distribution matching alone
    drops rare modes, and several steps would become worse.

    Args:
        recipe: of the training.
        pair_weight: weight of the second stage's objective.
        fake_rate: learning rate of the fake network relative to that of the student.
        reverse: see :class:`DistributionMatching`.
    """

    recipe: Recipe
    pair_weight: float = 0.1
    fake_rate: float = 3.0
    reverse: float = 0.0

    def __post_init__(self) -> None:
        batch, accumulate = self.recipe.batch, self.recipe.accumulate
        if batch % (2 * accumulate):  # else a part would mistake starts for pairs
            raise InputError(
                f"distribution matching: needs a batch that 2 * accumulate divides, got {batch} "
                f"and accumulate={accumulate}"
            )

    def problem(self, first: Problem, second: Problem, teacher: Kernel) -> Problem:
        """The problem of this stage.

        Args:
            first: the teacher's problem.
            second: the problem of flow-map distillation, with its teacher pairs.
            teacher: the trained kernel of the first stage.
        """
        if not isinstance(first.paths, DataPaths):
            raise InputError("distribution matching: needs a problem on data, with DataPaths")
        if not second.paths.flow_map_ends:
            raise InputError("distribution matching: needs a second stage with teacher pairs")
        matching = MatchingPaths(first.paths)
        return Problem(
            MixedPaths(matching, second.paths),
            lambda: self.pair(first.kernel(), first.kernel()),
            DistributionMatching(teacher, self.pair_weight, self.reverse),
        )

    def pair(self, student: Kernel, fake: Kernel) -> StudentAndFake:
        """What is trained: the student and the fake network, which starts from the teacher."""
        if not (isinstance(student, FlowMapKernel) and isinstance(fake, FlowMapKernel)):
            raise InputError("distribution matching needs FlowMapKernels: states are discrete")
        return StudentAndFake(student, fake, self.fake_rate)

    def describe(self) -> dict[str, Any]:
        return {**vars(self), "recipe": self.recipe.describe()}
