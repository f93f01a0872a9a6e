"""Stages of training: each starts from the kernels of the one before and resumes by itself."""

import copy
from collections.abc import Callable, Sequence
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
    train_resumable,
)


class Stages:
    """Trains stages one after the other. Steps and seconds add up over stages.

    Args:
        seeds: one kernel per seed.
        distributed: the ranks and the device.
        on_block: called after each block with its losses, one per seed, and with the history, which
            is saved in the checkpoint.
        stopped: whether the user asked to stop.
        history: what the history starts from.
    """

    trainer: Trainer  # of the current stage
    records_per_second: float  # of the newest block; the first includes the compilation
    first_losses: list[float]  # of its first step, one per seed

    def __init__(
        self,
        seeds: Sequence[int],
        distributed: Distributed,
        on_block: Callable[[list[float], Any], None],
        stopped: Callable[[], bool],
        history: Any,
    ) -> None:
        self.seeds, self.distributed = seeds, distributed
        self.on_block, self.stopped, self.history = on_block, stopped, history
        self.finished_steps, self.finished_seconds = 0, 0.0  # of the stages before the current one
        self.iteration, self.seconds = 0, 0.0  # so far
        self.kernels: list[Kernel] | None = None  # of the stage before

    def train(self, problem: Problem, recipe: Recipe, saved: Path, settings: Json) -> list[Kernel]:
        """Train the next stage to the end; return its kernels, one per seed.

        Args:
            problem: what is trained; not used if the checkpoint is that of a finished stage.
            recipe: how it is optimised.
            saved: the checkpoint.
            settings: what the checkpoint belongs to; others are rejected.
        """
        here = self.distributed
        self.trainer = Trainer(problem, recipe, self.seeds, here.device, self.kernels, here)
        before = BlockRecord(0, [], [], 0.0)

        def on_block(record: BlockRecord, history: Any) -> None:
            nonlocal before
            steps, seconds = record.iteration - before.iteration, record.seconds - before.seconds
            self.records_per_second = steps * recipe.batch / max(seconds, 1e-9)
            self.iteration = self.finished_steps + record.iteration
            self.seconds = self.finished_seconds + record.seconds
            before, self.first_losses = record, record.first_loss
            self.on_block(record.loss, history)

        self.history = train_resumable(
            self.trainer, saved, settings, self.history, on_block, self.stopped
        )
        self.finished_steps += self.trainer.iteration
        self.finished_seconds += self.trainer.seconds
        self.iteration, self.seconds = self.finished_steps, self.finished_seconds
        self.kernels = copy.deepcopy(self.trainer.kernels())
        return self.kernels
