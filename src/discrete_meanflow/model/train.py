"""Train the run in a folder, stage by stage. Resumes from checkpoints."""

import contextlib
import copy
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import folder_lock, remove_temporary_files
from discrete_meanflow.kernel import FlowMapKernel, Kernel, MatchedFlowMap, StudentAndFake
from discrete_meanflow.model.metrics_log import MetricsLog
from discrete_meanflow.model.pace import Pace, Timekeeper
from discrete_meanflow.model.plan import Plan, without_steps
from discrete_meanflow.model.run_folder import (
    CHECKPOINTS,
    TRAIN,
    Config,
    is_trained,
    read_config,
    read_start,
    write_config,
    write_weights,
)
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.model.training_record import (
    DIVERGENCE,
    composition_residual,
    steps_done,
    write_training_record,
)
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.run.progress import OnProgress, ProgressEvent
from discrete_meanflow.run.stages import Stages
from discrete_meanflow.signals import stop_requests
from discrete_meanflow.training import Distributed, NotFiniteError, Problem, checkpoint

MATCHING = 2  # the third stage
PAIRS, RESIDUAL = "teacher pairs", "composition residual"  # notes of the training record


def train(
    folder: Path,
    config: Config,
    distributed: Distributed,
    on_progress: OnProgress = lambda event: None,
) -> None:
    """Train all stages to the end and write the weights. A trained run is left unchanged."""
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
                if training.timekeeper is not None:
                    write_config(folder, training.config)
                write_weights(folder, kernel)  # now the run counts as trained
                with contextlib.suppress(InputError, ValueError):  # the record is only advice
                    write_training_record(folder, kernel, training.config, tokens, training.notes)


def _timekeeper(
    folder: Path, plan: Plan, distributed: Distributed
) -> tuple[Timekeeper | None, Plan]:
    """What keeps a run to its training time, and the plan with the steps of its checkpoints.

    A run with a given number of steps has no timekeeper.
    """
    pace = Pace.read(folder)
    if pace is None:
        return None, plan
    paths = [folder / name for name in CHECKPOINTS]
    for stage, path in enumerate(paths):
        plan = plan.with_steps(stage, checkpoint.iterations_in(path))
    return Timekeeper(pace, sum(map(checkpoint.seconds_in, paths)), distributed), plan


class DivergedError(InputError):
    """A loss that grew far above its first value, or is not finite."""


class RunTraining:
    """The stages of a run, its log and its progress events. The first rank reports."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        distributed: Distributed,
        on_progress: OnProgress,
        stopped: Callable[[], bool],
    ) -> None:
        self.folder, self.distributed = folder, distributed
        self.timekeeper, plan = _timekeeper(folder, config.plan, distributed)
        self.config = replace(config, plan=plan)
        self.on_progress = on_progress
        self.stages = Stages([config.plan.seed], distributed, self._on_block, stopped, {})
        self.log = (
            MetricsLog(folder, steps_done(folder, config.plan)) if distributed.first else None
        )

    @property
    def notes(self) -> Json:
        """What the training record says about the stages."""
        notes = (PAIRS, RESIDUAL, DIVERGENCE)
        return {name: self.history[name] for name in notes if name in self.history}

    @property
    def history(self) -> Json:
        """First losses and notes. A checkpoint contains them, so a resumed run has them too."""
        history = self.stages.history
        if not isinstance(history, dict):
            raise InputError(
                f"the checkpoints in {self.folder} are damaged: one has no history; delete them"
            )
        return history

    def train(self, first: Problem) -> Kernel:
        try:
            return self._train(first)
        except NotFiniteError as error:
            raise self._not_finite(error) from None

    def _train(self, first: Problem) -> Kernel:
        start = read_start(self.folder, self.config)
        self.stages.kernels = None if start is None else [start]
        teacher = self._stage(0, first)
        if not self.config.plan.system.distilled:
            return teacher
        second = self._distillation(first, teacher) if self._unfinished(1, MATCHING) else first
        student = self._stage(1, second)
        plan = self.config.plan
        if not plan.matching_steps:
            return student
        matching = plan.matching
        third = replace(first, kernel=lambda: matching.pair(first.kernel(), first.kernel()))
        if self._unfinished(MATCHING):
            third = matching.problem(first, second, teacher)
        self.stages.kernels = [matching.pair(student, teacher)]
        assert isinstance(student, FlowMapKernel)
        kernel = MatchedFlowMap(student, self._matched(third, student))
        self.history[RESIDUAL] = {
            "before matching": composition_residual(student, self.config),
            "after matching": composition_residual(kernel, self.config),
        }
        return kernel

    def _matched(self, third: Problem, student: FlowMapKernel) -> FlowMapKernel:
        """The student after the third stage; as it was before, if the fake network diverges."""
        try:
            trained = self._stage(MATCHING, third)
        except NotFiniteError as error:
            self.history[DIVERGENCE] = str(self._not_finite(error))
        except DivergedError as error:
            self.history[DIVERGENCE] = str(error)
        else:
            assert isinstance(trained, StudentAndFake)
            return trained.student()
        return copy.deepcopy(student)

    def _stage(self, stage: int, problem: Problem) -> Kernel:
        """Train a stage from its checkpoint to its end."""
        recipe, path = self.config.plan.stages[stage].recipe, self.folder / CHECKPOINTS[stage]
        settings = self.config.describe()
        if self.timekeeper is not None:
            self.timekeeper.begin(
                self.config.plan, stage, checkpoint.iteration_in(path) / recipe.iterations
            )
            settings["plan"] = without_steps(self.config.plan)  # which are revised
        kernels = self.stages.train(problem, recipe, path, settings)
        self._plan_rest(stage)
        return copy.deepcopy(kernels[0])

    def _plan_rest(self, stage: int) -> None:
        """Revise the steps of the stages after one that ended, unless the next has begun."""
        plan, following = self.config.plan, self.folder / CHECKPOINTS[min(stage + 1, MATCHING)]
        if self.timekeeper is None or stage + 1 == len(plan.stages) or following.exists():
            return
        with self.distributed.first_before_others() as first:
            if first:
                plan = self.timekeeper.remaining(plan, stage)
                write_config(self.folder, replace(self.config, plan=plan))
        self.config = replace(self.config, plan=read_config(self.folder).plan)

    def _keep_time(self, stage: int) -> None:
        """Revise the steps of the current stage."""
        if self.timekeeper is None:
            return
        trainer = self.stages.trainer
        steps = self.timekeeper.steps(trainer)
        if steps != trainer.recipe.iterations:
            trainer.revise(steps)
            self.config = replace(self.config, plan=self.config.plan.with_steps(stage, steps))

    def _unfinished(self, *stages: int) -> bool:
        """Whether steps of any of the stages are left."""
        return any(
            checkpoint.iteration_in(self.folder / CHECKPOINTS[stage])
            < self.config.plan.stages[stage].steps
            for stage in stages
            if stage < len(self.config.plan.stages)
        )

    def _distillation(self, first: Problem, teacher: Kernel) -> Problem:
        """The second stage, with its teacher pairs."""
        plan, done = self.config.plan, steps_done(self.folder, self.config.plan)

        def stop(fraction: float) -> bool:
            if self.distributed.first:
                self.on_progress(self._event(done, None, fraction))
            return self.distributed.any(self.stages.stopped())

        problem = plan.distillation.problem(first, teacher, plan.seed, stop, self.distributed)
        report = plan.distillation.report(problem, teacher)
        self.history[PAIRS] = asdict(report)
        return problem

    def _on_block(self, losses: list[float], history: Any) -> None:
        stages, codec, loss = self.stages, self.config.codec, losses[0]
        place = self.config.plan.stage_at(stages.iteration)
        self._keep_time(place)
        stage, path = self.config.plan.stages[place], self.folder / CHECKPOINTS[place]
        if not isinstance(history, dict):
            raise InputError(f"{path} is damaged: it has no history; delete it")
        # The third stage starts from trained networks and may diverge within its first block.
        start = stages.first_losses[0] if place == MATCHING else loss
        first = history.setdefault(f"first {stage.name} loss", start)
        if not isinstance(first, float):
            raise InputError(f"{path} is damaged: its first loss is {first!r}; delete it")
        if loss > stage.largest_loss * max(first, math.log(codec.vocabulary)):
            raise self._diverged(f"went from {first:.3g} to {loss:.3g}", stages.iteration)
        if self.log is not None:
            event = replace(
                self._event(stages.iteration, loss, place > 0),
                tokens_per_second=stages.records_per_second * codec.length,
                kernel=lambda: stages.trainer.kernels()[0],
            )
            self.log.add(event)
            self.on_progress(event)

    def _event(self, iteration: int, loss: float | None, pairs: float) -> ProgressEvent:
        plan, name, seconds = self.config.plan, self.folder.name, self.stages.seconds
        work_done, stage = plan.work_done(iteration, pairs), plan.stages[plan.stage_at(iteration)]
        return ProgressEvent(
            name, iteration, plan.steps, loss, seconds, stage=stage.name, work_done=work_done
        )

    def _not_finite(self, error: NotFiniteError) -> DivergedError:
        return self._diverged(f"is {error.loss}", self.stages.finished_steps + error.step)

    def _diverged(self, change: str, step: int) -> DivergedError:
        stage, where = self.config.plan.stage_at(step), f"the loss {change} at step {step}"
        if stage == MATCHING:
            return DivergedError(
                f"{where}: the fake network of distribution matching diverged, so the run keeps "
                "the student of its second stage. Try a smaller size, or leave the stage out with "
                "matching no"
            )
        # A checkpoint is written only after the next block went well, so this stage may have none.
        saved = [name for name in CHECKPOINTS[: stage + 1] if (self.folder / name).exists()]
        state = f"{self.folder / saved[-1]} has the state before" if saved else "nothing is saved"
        return DivergedError(f"{where}: training diverged; {state}. Try a smaller size")
