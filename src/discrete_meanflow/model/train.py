"""Train the run in a folder, from its checkpoint if there is one."""

import contextlib
import copy
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import (
    folder_lock,
    read_regular_file,
    remove_temporary_files,
    write_atomically,
)
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.signals import stop_requests
from discrete_meanflow.training import (
    BlockRecord,
    Distributed,
    NotFiniteError,
    Problem,
    Recipe,
    Trainer,
    checkpoint,
    train_resumable,
)

EXPLODED = 3.0  # times the first loss, or that of guessing


@dataclass(frozen=True)
class ProgressEvent:
    """What a block of training tells."""

    iteration: int
    iterations: int
    loss: float
    seconds: float
    tokens_per_second: float
    kernel: Callable[[], Kernel]  # as it is now


def train(
    folder: Path,
    processes: Distributed,
    watch: Callable[[ProgressEvent], None],
    on_couples: Callable[[float], None] = lambda share: None,
) -> None:
    """Both stages to the end, then write the weights. A trained run is left as it is.

    ``on_couples`` hears what share of the couples is made, between the stages.
    """
    config = run.read_config(folder)
    if (folder / run.WEIGHTS).exists():
        return
    codec, plan = config.codec, config.plan
    data = TokenArray(run.read_tokens(folder, run.TRAIN, codec), codec.vocabulary)
    problem = plan.problem(codec, data)
    with contextlib.ExitStack() as held:
        with processes.first_before_others() as first:
            if first:
                held.enter_context(folder_lock(folder))
                remove_temporary_files(folder)
        stopped = held.enter_context(stop_requests())
        stages = Stages(folder, config, processes, watch, on_couples, stopped)
        held.callback(stages.close)
        kernel = stages.train(problem, plan.first, run.CHECKPOINTS[0], None)
        recipe = plan.coupling.recipe
        if checkpoint.iteration_in(folder / run.CHECKPOINTS[1]) < recipe.iterations:
            problem = plan.coupling.problem(problem, kernel, plan.seed, stages.stops, processes)
        # Else the second stage has ended, and its kernel is all that is wanted.
        kernel = stages.train(problem, recipe, run.CHECKPOINTS[1], kernel)
        with processes.first_before_others() as first:
            if first:
                run.write_weights(folder, kernel)


def steps_done(folder: Path) -> int:
    """In all stages, by the checkpoints of a run."""
    return sum(checkpoint.iteration_in(folder / name) for name in run.CHECKPOINTS)


class Stages:
    """The stages of a run, one after the other: steps and seconds add up."""

    def __init__(
        self,
        folder: Path,
        config: run.Config,
        processes: Distributed,
        watch: Callable[[ProgressEvent], None],
        on_couples: Callable[[float], None],
        stopped: Callable[[], bool],
    ) -> None:
        self.folder, self.config, self.processes = folder, config, processes
        self.watch, self.on_couples, self.stopped = watch, on_couples, stopped
        self.done, self.seconds = 0, 0.0  # in the stages before
        self.log = Log(folder, steps_done(folder)) if processes.first else None

    def close(self) -> None:
        if self.log is not None:
            self.log.close()

    def stops(self, done: float) -> bool:
        """Between rounds of couples, of which a share is ``done``."""
        if self.processes.first:
            self.on_couples(done)
        return self.processes.any(self.stopped())

    def train(self, problem: Problem, recipe: Recipe, name: str, start: Kernel | None) -> Kernel:
        plan, saved = self.config.plan, self.folder / name
        given = None if start is None else [start]
        here = self.processes
        trainer = Trainer(problem, recipe, [plan.seed], here.device, given, here)

        before = (0, 0.0)  # the first pace is that of all so far, the code's preparation included

        def on_block(record: BlockRecord, history: Any) -> None:
            loss = record.loss[0]
            first = history.setdefault("first loss", loss) if isinstance(history, dict) else None
            if not isinstance(first, float):
                raise InputError(f"{saved} is damaged: its history is none; delete it")
            if loss > EXPLODED * max(first, math.log(self.config.codec.vocabulary)):
                how = f"went from {first:.3g} to {loss:.3g}"
                raise self._came_apart(how, record.iteration, saved)
            nonlocal before
            seconds = self.seconds + record.seconds
            done, took = record.iteration - before[0], record.seconds - before[1]
            positions = done * recipe.batch * self.config.codec.length
            before = (record.iteration, record.seconds)
            news = ProgressEvent(
                self.done + record.iteration,
                plan.iterations + plan.second,
                loss,
                seconds,
                positions / max(took, 1e-9),
                lambda: trainer.kernels()[0],
            )
            if self.log is not None:
                self.log.add(news)
                self.watch(news)

        try:
            train_resumable(trainer, saved, self.config.describe(), {}, on_block, self.stopped)
        except NotFiniteError as error:
            raise self._came_apart(f"is {error.loss}", error.step, saved) from None
        self.done += recipe.iterations
        self.seconds += trainer.seconds
        return copy.deepcopy(trainer.kernels()[0])

    def _came_apart(self, how: str, step: int, saved: Path) -> InputError:
        """What to say of a loss that did so at a step of this stage."""
        return InputError(
            f"the loss {how} at step {self.done + step}: training has come apart; {saved} is as it "
            "was before. Try a smaller --size"
        )


class Log:
    """metrics.jsonl, and TensorBoard where it is installed."""

    def __init__(self, folder: Path, iteration: int) -> None:
        """Go on behind ``iteration``: lines of steps that were lost go, once others come."""
        self.path = folder / "metrics.jsonl"
        if not os.access(folder, os.W_OK):
            raise InputError(f"cannot write to {folder}")
        try:
            lines = [line for line in self._lines() if line["iteration"] <= iteration]
            self.kept: str | None = "".join(json.dumps(line) + "\n" for line in lines)
            self.board = _board(folder / run.BOARD, iteration + 1)
        except OSError as error:
            raise InputError(f"cannot log to {folder}: {error}") from None

    def _lines(self) -> list[dict[str, Any]]:
        found = []
        there = os.path.lexists(self.path)
        held = read_regular_file(self.path).decode(errors="replace") if there else ""
        for line in held.splitlines():
            try:
                words = json.loads(line)
            except (ValueError, RecursionError):
                continue  # cut short by a crash
            if isinstance(words, dict) and isinstance(words.get("iteration"), int):
                found.append(words)
        return found

    def add(self, news: ProgressEvent) -> None:
        values = {
            "loss": news.loss,
            "seconds": news.seconds,
            "tokens_per_second": news.tokens_per_second,
        }
        if self.kept is not None:
            write_atomically(self.path, self.kept.encode())
            self.kept = None
        try:
            with open(self.path, "a") as file:
                file.write(json.dumps({"iteration": news.iteration, **values}) + "\n")
            if self.board is not None:
                for name, value in values.items():
                    self.board.add_scalar(name, value, news.iteration)
        except OSError as error:
            where = f"{self.path.parent}: {error.strerror or error}"
            raise InputError(f"cannot write to {where}; what was saved before stays") from None

    def close(self) -> None:
        """TensorBoard writes in a thread, which must not outlive the folder."""
        with contextlib.suppress(OSError):  # metrics.jsonl has the same, and has told of it
            if self.board is not None:
                self.board.close()


def _board(folder: Path, step: int) -> Any:
    """TensorBoard's writer, from ``step`` on; None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    if folder.is_symlink():
        raise InputError(f"{folder} is a link, which could lead anywhere: remove it")
    return SummaryWriter(str(folder), purge_step=step)
