"""A run folder of ``dmf train``, finished or not."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

from discrete_meanflow.errors import InputError
from discrete_meanflow.report.blocks import (
    DAMAGED,
    Block,
    Command,
    Details,
    Facts,
    Json,
    Note,
    Section,
    file_name,
    shortened,
)
from discrete_meanflow.report.comparison import comparison
from discrete_meanflow.report.evaluation import ScoreTable, evaluation_blocks
from discrete_meanflow.report.learning import Stage, read_stages, training_blocks
from discrete_meanflow.report.quality import privacy_blocks, quality_blocks
from discrete_meanflow.report.samples import WEIGHTS, sample_blocks
from discrete_meanflow.report.sources import Source

AFTER_TRAINING = WEIGHTS, "training.json", "evaluation.json"


class TrainRun(Source):
    """What was run, how long it took, how good it is, and samples."""

    heading = "Runs on own data"
    overview_heading = "Runs side by side"

    @staticmethod
    def recognises(folder: Path) -> bool:
        return (folder / "config.json").is_file()

    @property
    def subtitle(self) -> str:
        with contextlib.suppress(*DAMAGED):
            return shortened(
                f"{self.card['kind']}, {self.card['training records']:,} training records, "
                f"{self.environment['gpu'] or self.environment['machine']}, "
                f"{self.environment['date']}",
                150,
            )
        return "a run of dmf train"

    def build(self) -> Iterator[Section]:
        yield Section.guarded("Run", self._run)
        yield Section.guarded("Training", lambda: training_blocks(self.record, self.stages))
        yield Section.guarded("Evaluation", self._evaluation)
        if quality := self._quality:
            yield Section.guarded("Quality", lambda: quality_blocks(quality))
            yield Section.guarded("Privacy", lambda: privacy_blocks(quality))
        yield Section.guarded("Samples", lambda: sample_blocks(self.folder, self.finished))

    @classmethod
    def overview(cls, sources: Sequence[Self]) -> Iterator[Block]:
        if len(sources) > 1:
            yield from comparison({run.name: run for run in sources})

    @cached_property
    def card(self) -> Json:
        return self.record("data.json")

    @cached_property
    def environment(self) -> Json:
        return self.record("environment.json")

    @cached_property
    def plan(self) -> Json:
        return self.record("config.json")["plan"]

    @cached_property
    def stages(self) -> list[Stage]:
        return read_stages(self.folder, self.plan)

    @cached_property
    def scores(self) -> ScoreTable | None:
        """The scores of the evaluation; None without a valid evaluation."""
        with contextlib.suppress(*DAMAGED):
            return ScoreTable.of(self.record("evaluation.json")["scores"])
        return None

    @cached_property
    def _quality(self) -> Json:
        """The quality of the rows of a table; empty for other records and older evaluations."""
        with contextlib.suppress(*DAMAGED):
            return self.record("evaluation.json").get("quality", {})
        return {}

    def _run(self) -> Iterator[Block]:
        card = dict(self.card)
        if "command" in card:
            yield Command(str(card.pop("command")), "Trained by")
        else:
            yield Note("Trained from Python, so no command is recorded.")
        yield self._status()
        where = {name: value for name, value in self.environment.items() if value is not None}
        yield Facts.of({"run": self.name, **self._size(), **where})
        yield Details("Data card", (Facts.of(card),))
        yield Details("Plan", (Facts.of(self.plan),))

    @property
    def finished(self) -> bool:
        """Whether training is finished. A folder may hold its records without the weights."""
        return any((self.folder / name).exists() for name in AFTER_TRAINING)

    def _status(self) -> Block:
        if self.finished:
            missing = " The weights are not in this folder."
            has_weights = (self.folder / WEIGHTS).exists()
            return Note("Training is finished." + missing * (not has_weights))
        steps = sum(stage.done for stage in self.stages)
        planned = sum(stage.steps for stage in self.stages)
        resume = f"dmf train --resume {file_name(self.folder)}"
        return Note(
            f"Training is not finished: {steps:,} of {planned:,} steps. Continue it with {resume}",
            warning=True,
        )

    def _size(self) -> Json:
        """The number of parameters, if this version can read the config."""
        from discrete_meanflow.model.run_folder import read_config

        with contextlib.suppress(InputError):
            config = read_config(self.folder)
            return {"parameters": f"{config.plan.parameter_count(config.codec):,}"}
        return {}

    def _evaluation(self) -> Iterator[Block]:
        evaluation, run = self.record("evaluation.json"), file_name(self.folder)
        if not evaluation:
            yield Note("This run is not evaluated.")
            yield Command(f"dmf evaluate {run}", "Add scores with")
            return
        yield from evaluation_blocks(evaluation, run)
