"""Train the run in a folder: the teacher, then the student. Resumes from checkpoints."""

import contextlib
import math
from pathlib import Path
from typing import Any

from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import folder_lock, remove_temporary_files
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.metrics_log import MetricsLog
from discrete_meanflow.model.run_folder import CHECKPOINTS, TRAIN, Config, is_trained, write_weights
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.run.progress import OnProgress, ProgressEvent
from discrete_meanflow.run.stages import Stage, StageBlock, Stages
from discrete_meanflow.signals import stop_requests
from discrete_meanflow.training import Distributed, NotFiniteError, Problem, checkpoint

DIVERGED = 3.0  # times the first loss, or the loss of a uniform guess


def train(
    folder: Path,
    config: Config,
    distributed: Distributed,
    on_progress: OnProgress = lambda event: None,
) -> None:
    """Train both stages to the end and write the weights. A trained run is left unchanged."""
    if is_trained(folder):
        return
    codec = config.codec
    data = TokenArray(read_tokens(folder / TRAIN, codec), codec.vocabulary)
    with contextlib.ExitStack() as stack:
        with distributed.first_before_others() as first:
            if first:
                stack.enter_context(folder_lock(folder))
                remove_temporary_files(folder)
        training = RunTraining(folder, config, distributed, on_progress)
        stack.callback(training.close)
        kernel = training.train(config.plan.problem(codec, data))
        with distributed.first_before_others() as first:
            if first:
                write_weights(folder, kernel)


def steps_done(folder: Path) -> int:
    """Optimiser steps of both stages so far, read from the checkpoints."""
    return sum(checkpoint.iteration_in(folder / name) for name in CHECKPOINTS)


class RunTraining:
    """The two stages of a run, its log and its progress events. The first rank reports."""

    def __init__(
        self, folder: Path, config: Config, distributed: Distributed, on_progress: OnProgress
    ) -> None:
        self.folder, self.config, self.distributed = folder, config, distributed
        self.on_progress = on_progress
        self.log = MetricsLog(folder, steps_done(folder)) if distributed.first else None

    def close(self) -> None:
        if self.log is not None:
            self.log.close()

    def train(self, problem: Problem) -> Kernel:
        plan, settings = self.config.plan, self.config.describe()
        teacher, student = (self.folder / name for name in CHECKPOINTS)
        with stop_requests() as stopped:
            self.stages = Stages([plan.seed], self.distributed, self._on_block, stopped, {})
            try:
                kernels = self.stages.train(
                    problem,
                    [
                        Stage(plan.teacher_recipe, teacher, settings),
                        Stage(plan.distillation.recipe, student, settings, self._distillation),
                    ],
                )
            except NotFiniteError as error:
                raise self._diverged(f"is {error.loss}", error.step) from None
        return kernels[0]

    def _distillation(self, first: Problem, kernels: list[Kernel]) -> Problem:
        plan, stages = self.config.plan, self.stages

        assert stages.stage is not None
        done = stages.iteration + stages.stage.steps_done  # by an earlier session

        def stop(fraction: float) -> bool:
            if self.distributed.first:
                self.on_progress(self._event(done, None, stages.seconds, fraction))
            return self.distributed.any(stages.stopped())

        return plan.distillation.problem(first, kernels[0], plan.seed, stop, self.distributed)

    def _on_block(self, block: StageBlock, history: Any) -> None:
        loss, vocabulary = block.record.loss[0], self.config.codec.vocabulary
        path = block.stage.checkpoint
        if not isinstance(history, dict):
            raise InputError(f"{path} is damaged: it has no history; delete it")
        key = "first loss" if block.stage.problem is None else "first student loss"
        first = history.setdefault(key, loss)
        if not isinstance(first, float):
            raise InputError(f"{path} is damaged: its first loss is {first!r}; delete it")
        if loss > DIVERGED * max(first, math.log(vocabulary)):
            raise self._diverged(f"went from {first:.3g} to {loss:.3g}", block.record.iteration)
        if self.log is None:
            return
        in_second_stage = block.iteration > self.config.plan.teacher_steps
        event = self._event(block.iteration, loss, block.seconds, in_second_stage, block)
        self.log.add(event)
        self.on_progress(event)

    def _event(
        self,
        iteration: int,
        loss: float | None,
        seconds: float,
        pairs: float,
        block: StageBlock | None = None,
    ) -> ProgressEvent:
        plan, length = self.config.plan, self.config.codec.length
        return ProgressEvent(
            self.folder.name,
            iteration,
            plan.steps,
            loss,
            seconds,
            0.0 if block is None else block.records_per_second * length,
            kernel=None if block is None else lambda: block.trainer.kernels()[0],
            work_done=plan.work_done(iteration, pairs),
        )

    def _diverged(self, change: str, step: int) -> InputError:
        stage = self.stages.stage
        assert stage is not None
        return InputError(
            f"the loss {change} at step {self.stages.iteration + step}: training diverged; "
            f"{stage.checkpoint} has the state before. Try a smaller --size"
        )
