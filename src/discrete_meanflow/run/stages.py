"""Stages of training: each starts from the kernels of the one before and resumes by itself."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.training import (
    BlockRecord,
    Distributed,
    Problem,
    Recipe,
    Trainer,
    checkpoint,
    train_resumable,
)


@dataclass(frozen=True)
class Stage:
    """One training of a run.

    Args:
        recipe: how it is optimised.
        checkpoint: the file of its state.
        settings: what the checkpoint belongs to; others are rejected.
        problem: the problem, given the problem of the first stage and the kernels so far. It is
            built only if the stage is not finished. None: the problem of the first stage.
    """

    recipe: Recipe
    checkpoint: Path
    settings: Json
    problem: Callable[[Problem, list[Kernel]], Problem] | None = None

    @property
    def steps_done(self) -> int:
        return checkpoint.iteration_in(self.checkpoint)

    @property
    def is_finished(self) -> bool:
        return self.steps_done >= self.recipe.iterations


@dataclass(frozen=True)
class StageBlock:
    """What a block of steps reports, counted over all stages."""

    stage: Stage
    trainer: Trainer
    record: BlockRecord  # counted within the stage
    iteration: int
    seconds: float
    records_per_second: float  # of this block; the first includes the compilation


class Stages:
    """Trains stages one after the other. Steps and seconds add up over stages.

    Args:
        seeds: one kernel per seed.
        distributed: the ranks and the device.
        on_block: called after each block with the history, which is saved in the checkpoint.
        stopped: whether the user asked to stop.
        history: what the history starts from.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        distributed: Distributed,
        on_block: Callable[[StageBlock, Any], None],
        stopped: Callable[[], bool],
        history: Any,
    ) -> None:
        self.seeds, self.distributed = seeds, distributed
        self.on_block, self.stopped, self.history = on_block, stopped, history
        self.iteration, self.seconds = 0, 0.0  # of the stages that are finished
        self.stage: Stage | None = None  # the current one

    def train(self, first: Problem, stages: Sequence[Stage]) -> list[Kernel]:
        """Train all stages to the end; return the kernels of the last, one per seed."""
        kernels: list[Kernel] | None = None
        for stage in stages:
            self.stage, problem = stage, first
            if stage.problem is not None and kernels is not None and not stage.is_finished:
                problem = stage.problem(first, kernels)
            kernels = self._train(stage, problem, kernels)
        assert kernels is not None
        return kernels

    def _train(self, stage: Stage, problem: Problem, start: list[Kernel] | None) -> list[Kernel]:
        recipe, here = stage.recipe, self.distributed
        trainer = Trainer(problem, recipe, self.seeds, here.device, start, here)
        before = BlockRecord(0, [], 0.0)

        def on_block(record: BlockRecord, history: Any) -> None:
            nonlocal before
            steps, seconds = record.iteration - before.iteration, record.seconds - before.seconds
            before = record
            self.on_block(
                StageBlock(
                    stage,
                    trainer,
                    record,
                    self.iteration + record.iteration,
                    self.seconds + record.seconds,
                    steps * recipe.batch / max(seconds, 1e-9),
                ),
                history,
            )

        self.history = train_resumable(
            trainer, stage.checkpoint, stage.settings, self.history, on_block, self.stopped
        )
        self.iteration += recipe.iterations
        self.seconds += trainer.seconds
        return copy.deepcopy(trainer.kernels())
