"""What an experiment is: cells to train, things to measure, claims to judge."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe

Json = dict[str, Any]
STEPS = (1, 2, 4, 8)  # of generation; what is measured at each is a list in this order


class Scale(Enum):
    """How much of the paper's work is done."""

    paper = "paper"  # the paper's iterations and draws
    toy = "toy"  # seconds of work: shows that all runs, proves nothing

    def recipe(self, recipe: Recipe) -> Recipe:
        if self is Scale.paper:
            return recipe
        return replace(recipe, iterations=20, block=5)

    def draws(self, draws: int) -> int:
        return draws if self is Scale.paper else max(100, draws // 100)


@dataclass(frozen=True)
class Cell:
    """One training of an experiment, all seeds side by side."""

    name: str
    problem: Problem
    recipe: Recipe
    # kernels, one per seed -> values by name, one per seed: the curves of training
    watch: Callable[[Sequence[Kernel]], dict[str, list[float]]]
    # (kernel, seed) -> the raw measurements that claims are computed from; lines of text by file
    # name under "samples" become files of their own
    measure: Callable[[Kernel, int], Json]
    then: tuple[FlowMapDistillation, ...] = ()  # further stages of training, of one seed

    @property
    def iterations(self) -> int:
        """Of all stages."""
        return self.recipe.iterations + sum(stage.recipe.iterations for stage in self.then)

    def describe(self) -> Json:
        words = {**self.problem.describe(), "recipe": self.recipe.describe()}
        stages = [stage.describe() for stage in self.then]
        return {**words, "then": stages[0] if len(stages) == 1 else stages} if stages else words


@dataclass(frozen=True)
class Claim:
    """A statement of the paper (or of ours), what it says, what we measured, whether it holds."""

    id: str
    text: str
    where: str
    paper: str | float | None
    ours: str | float
    holds: bool

    def describe(self) -> Json:
        return asdict(self)


class Experiment(ABC):
    """``cells`` are trained and measured; ``claims`` is a pure function of what was measured."""

    name: str
    title: str
    where: str  # the table or figure of the paper
    claims_summary: tuple[str, ...]  # the claims in words, for `dmf list`
    reuses_cells_of: tuple[str, ...] = ()  # experiments that may have trained some of its cells
    of_the_paper: bool = True  # whether `dmf reproduce paper` runs it
    one_seed: bool = False  # the paper reports a single seed: take the first
    data: Path | None = None  # the folder that files are read from, where it reads any

    @abstractmethod
    def cells(self, scale: Scale) -> list[Cell]: ...

    def facts(self, scale: Scale) -> Json:
        """What is known without training: exact kernels, sampling floors. Lines of text by file
        name under "samples" become files, as those of a cell do."""
        return {}

    def scores(self, samples: Path) -> Json:
        """What the samples are worth that the cells have left as files in a folder."""
        return {}

    @abstractmethod
    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        """Judge the JSON of ``facts`` and of the cells, as written to results.json."""


def in_words(values: Sequence[float], digits: int = 3) -> str:
    """``0.275 0.311``: numbers in a row, as claims tell them."""
    return " ".join(f"{v:.{digits}f}" for v in values)


def per_seed(cell: Json, key: str, steps: int | None = None) -> list[float]:
    """A measurement for each seed; ``steps`` picks from those made at each number of steps."""
    values = [m[key] for m in cell["measurements"]]
    return values if steps is None else [v[STEPS.index(steps)] for v in values]


def mean(cell: Json, key: str, steps: int | None = None) -> float:
    return statistics.fmean(per_seed(cell, key, steps))
