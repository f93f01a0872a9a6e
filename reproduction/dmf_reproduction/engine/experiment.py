"""What an experiment is: cells to train, quantities to measure, claims to check."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe
from dmf_reproduction.settings import STEPS

Json = dict[str, Any]


class Scale(Enum):
    """The size of a run."""

    paper = "paper"  # the paper's iterations and draws
    toy = "toy"  # seconds of work: checks that everything runs; its numbers are not meaningful

    def recipe(self, recipe: Recipe) -> Recipe:
        if self is Scale.paper:
            return recipe
        return replace(recipe, iterations=20, block=5)

    def draws(self, draws: int) -> int:
        return draws if self is Scale.paper else max(100, draws // 100)


@dataclass(frozen=True)
class Cell:
    """One training run of an experiment; all seeds train side by side.

    Args:
        watch: kernels, one per seed -> values by name, one per seed: the training curves.
        measure: (kernel, seed) -> raw measurements from which claims are computed. Lists of
            lines under "samples", by file name, are written as files.
        then: further training stages; they need a single seed.
    """

    name: str
    problem: Problem
    recipe: Recipe
    watch: Callable[[Sequence[Kernel]], dict[str, list[float]]]
    measure: Callable[[Kernel, int], Json]
    then: tuple[FlowMapDistillation, ...] = ()

    @property
    def iterations(self) -> int:
        """The iterations of all stages."""
        return self.recipe.iterations + sum(stage.recipe.iterations for stage in self.then)

    def describe(self) -> Json:
        settings: Json = {**self.problem.describe(), "recipe": self.recipe.describe()}
        stages = {"then": [stage.describe() for stage in self.then]} if self.then else {}
        return settings | stages


@dataclass(frozen=True)
class MethodCell:
    """A run of ``dmf train`` with its defaults: all stages of a method, for a training time.

    Args:
        records: the training data, ``(N, D)`` whole numbers.
        fit: how to train; the seed is that of the run.
        measure: (kernel, config, seed) -> raw measurements.
    """

    name: str
    records: Callable[[], Any]
    fit: FitOptions
    measure: Callable[[Kernel, Config, int], Json]

    def describe(self) -> Json:
        return {"method": self.fit.method, **asdict(self.fit)}


AnyCell = Cell | MethodCell


@dataclass(frozen=True)
class Claim:
    """A statement of the paper or of ours, the paper's value, our value, and whether it holds."""

    id: str
    text: str
    where: str
    paper: str | float | None
    ours: str | float
    holds: bool

    def describe(self) -> Json:
        return asdict(self)


class Experiment(ABC):
    """``cells`` are trained and measured; ``claims`` is a pure function of the measurements."""

    name: str
    title: str
    where: str  # the table or figure of the paper
    claims_summary: tuple[str, ...]  # the claims in words, for `dmf list`
    reuses_cells_of: tuple[str, ...] = ()  # experiments that may already have trained its cells
    of_the_paper: bool = True  # whether `dmf reproduce paper` runs it
    one_seed: bool = False  # run the first seed only, as the paper does
    data: Path | None = None  # folder of the data files, if it reads any

    @abstractmethod
    def cells(self, scale: Scale) -> Sequence[AnyCell]: ...

    def facts(self, scale: Scale) -> Json:
        """Values that need no training: exact kernels, sampling floors.

        Lists of lines under "samples", by file name, are written as files.
        """
        return {}

    def scores(self, samples: Path) -> Json:
        """The scores of the sample files that the cells wrote into a folder."""
        return {}

    @abstractmethod
    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        """Check the JSON of ``facts`` and of the cells, as written to results.json."""

    def claim(
        self,
        id: str,
        text: str,
        ours: str | float,
        holds: bool,
        paper: str | float | None = None,
        where: str | None = None,
    ) -> Claim:
        """A claim; ``where`` defaults to the experiment's place in the paper."""
        return Claim(id, text, where or self.where, paper, ours, holds)


def format_numbers(values: Sequence[float], digits: int = 3, separator: str = " ") -> str:
    """Numbers in a row, as claims show them: ``0.275 0.311``."""
    return separator.join(f"{v:.{digits}f}" for v in values)


def per_seed(cell: Json, key: str, steps: int | None = None) -> list[float]:
    """A measurement for each seed; ``steps`` selects from a list in the order of STEPS."""
    values = [m[key] for m in cell["measurements"]]
    return values if steps is None else [v[STEPS.index(steps)] for v in values]


def mean(cell: Json, key: str, steps: int | None = None) -> float:
    return statistics.fmean(per_seed(cell, key, steps))


def mean_at_steps(cell: Json, key: str) -> list[float]:
    """A measurement, averaged over seeds, at each of STEPS."""
    return [mean(cell, key, steps) for steps in STEPS]
