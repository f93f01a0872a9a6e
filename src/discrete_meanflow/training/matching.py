"""Distribution matching distillation: train the student on its own samples."""

import copy
from dataclasses import dataclass
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel, StudentAndFake
from discrete_meanflow.objective import DistributionMatching
from discrete_meanflow.path import DataPaths, MatchingPaths, MixedPaths, TeacherPairs
from discrete_meanflow.training.problem import Problem, Recipe


@dataclass(frozen=True)
class MatchingDistillation:
    """A third training stage: :class:`DistributionMatching` of the student to the teacher.

    It trains the map (0, 1). Half of each batch is noise; the other half are the teacher pairs of
    the second stage at (0, 1), whose cross-entropy keeps modes that distribution matching alone
    would drop. The result belongs in a :class:`MatchedFlowMap` beside the student of the second
    stage, whose steps compose.

    Args:
        recipe: of the training.
        pair_weight: weight of the cross-entropy on teacher pairs.
        fake_rate: learning rate of the fake network relative to that of the student.
        reverse: see :class:`DistributionMatching`.
    """

    recipe: Recipe
    pair_weight: float = 0.1
    fake_rate: float = 3.0
    reverse: float = 0.0

    def problem(self, first: Problem, second: Problem, teacher: Kernel) -> Problem:
        """The problem of this stage.

        Args:
            first: the teacher's problem.
            second: the problem of flow-map distillation, with its teacher pairs.
            teacher: the trained kernel of the first stage.
        """
        if not isinstance(first.paths, DataPaths):
            raise InputError("distribution matching: needs a problem on data, with DataPaths")
        pairs = TeacherPairs.among(second.paths)
        full = (pairs.times[:, 0] == 0) & (pairs.times[:, 1] == 1)
        if not bool(full.any()):
            raise InputError(
                "distribution matching: no teacher pair joins the times 0 and 1; use a "
                "full_interval_fraction above 0"
            )
        return Problem(
            MixedPaths(MatchingPaths(first.paths), pairs.subset(full)),
            lambda: self.pair(first.kernel(), first.kernel()),
            DistributionMatching(teacher, self.pair_weight, self.reverse),
        )

    def pair(self, student: Kernel, fake: Kernel) -> StudentAndFake:
        """What is trained: the student and the fake network, which starts from the teacher."""
        one_step, diagonal = student.for_step(0, 1), fake.for_step(0, 0)
        if not (isinstance(one_step, FlowMapKernel) and isinstance(diagonal, FlowMapKernel)):
            raise InputError("distribution matching needs FlowMapKernels: states are discrete")
        return StudentAndFake(one_step, copy.deepcopy(diagonal), self.fake_rate)

    def describe(self) -> dict[str, Any]:
        return {**vars(self), "recipe": self.recipe.describe()}
