"""Train the run in a folder: the teacher, then the student. Resumes from checkpoints."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import folder_lock, remove_temporary_files
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.metrics_log import MetricsLog
from discrete_meanflow.model.run_folder import CHECKPOINTS, TRAIN, Config, is_trained, write_weights
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.model.training_record import steps_done, write_training_record
from discrete_meanflow.run.progress import OnProgress, ProgressEvent
from discrete_meanflow.run.stages import Stages
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
    tokens = read_tokens(folder / TRAIN, codec)
    data = TokenArray(tokens, codec.vocabulary)
    with contextlib.ExitStack() as stack:
        with distributed.first_before_others() as first:
            if first:
                stack.enter_context(folder_lock(folder))
                remove_temporary_files(folder)
        stopped = stack.enter_context(stop_requests())
        training = RunTraining(folder, config, distributed, on_progress, stopped)
        if training.log is not None:
            stack.callback(training.log.close)
        kernel = training.train(config.plan.problem(codec, data))
        with distributed.first_before_others() as first:
            if first:
                write_weights(folder, kernel)  # now the run counts as trained
                with contextlib.suppress(InputError):  # the record is only advice
                    write_training_record(folder, kernel, config, tokens)


class RunTraining:
    """The two stages of a run, its log and its progress events. The first rank reports."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        distributed: Distributed,
        on_progress: OnProgress,
        stopped: Callable[[], bool],
    ) -> None:
        self.folder, self.config, self.distributed = folder, config, distributed
        self.on_progress = on_progress
        self.stages = Stages([config.plan.seed], distributed, self._on_block, stopped, {})
        self.log = MetricsLog(folder, steps_done(folder)) if distributed.first else None

    def train(self, first: Problem) -> Kernel:
        plan, settings = self.config.plan, self.config.describe()
        teacher, student = (self.folder / name for name in CHECKPOINTS)
        try:
            kernels = self.stages.train(first, plan.teacher_recipe, teacher, settings)
            second = first
            if checkpoint.iteration_in(student) < plan.student_steps:
                second = self._distillation(first, kernels[0])
            return self.stages.train(second, plan.distillation.recipe, student, settings)[0]
        except NotFiniteError as error:
            step = self.stages.finished_steps + error.step
            raise self._diverged(f"is {error.loss}", step) from None

    def _distillation(self, first: Problem, teacher: Kernel) -> Problem:
        plan, done = self.config.plan, steps_done(self.folder)

        def stop(fraction: float) -> bool:
            if self.distributed.first:
                self.on_progress(self._event(done, None, fraction))
            return self.distributed.any(self.stages.stopped())

        return plan.distillation.problem(first, teacher, plan.seed, stop, self.distributed)

    def _on_block(self, losses: list[float], history: Any) -> None:
        stages, codec, loss = self.stages, self.config.codec, losses[0]
        is_student = stages.iteration > self.config.plan.teacher_steps
        path = self.folder / CHECKPOINTS[is_student]
        if not isinstance(history, dict):
            raise InputError(f"{path} is damaged: it has no history; delete it")
        first = history.setdefault("first student loss" if is_student else "first loss", loss)
        if not isinstance(first, float):
            raise InputError(f"{path} is damaged: its first loss is {first!r}; delete it")
        if loss > DIVERGED * max(first, math.log(codec.vocabulary)):
            raise self._diverged(f"went from {first:.3g} to {loss:.3g}", stages.iteration)
        if self.log is not None:
            event = replace(
                self._event(stages.iteration, loss, is_student),
                tokens_per_second=stages.records_per_second * codec.length,
                kernel=lambda: stages.trainer.kernels()[0],
            )
            self.log.add(event)
            self.on_progress(event)

    def _event(self, iteration: int, loss: float | None, pairs: float) -> ProgressEvent:
        plan, name, seconds = self.config.plan, self.folder.name, self.stages.seconds
        work_done = plan.work_done(iteration, pairs)
        stage = "student" if iteration > plan.teacher_steps else "teacher"
        return ProgressEvent(
            name, iteration, plan.steps, loss, seconds, stage=stage, work_done=work_done
        )

    def _diverged(self, change: str, step: int) -> InputError:
        path = self.folder / CHECKPOINTS[step > self.config.plan.teacher_steps]
        return InputError(
            f"the loss {change} at step {step}: training diverged; {path} has the state before. "
            "Try a smaller --size"
        )
