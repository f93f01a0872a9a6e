"""Train one cell of an experiment, stage by stage, and write down what was measured."""

import copy
import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from discrete_meanflow.errors import error_context
from discrete_meanflow.files import write_atomically
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.training import BlockRecord, Problem, Recipe, Trainer, train_resumable
from discrete_meanflow.training.checkpoint import iteration_in
from discrete_meanflow.training.trainer import EXCLUSIVE
from dmf_reproduction.engine.experiment import Cell, Json
from dmf_reproduction.engine.record import device_name, rounded, versions, write_json
from dmf_reproduction.engine.spec import Progress, RunSpec, cell_settings

CURVE_POINTS = 50


def train_cell(
    order: RunSpec, cell: Cell, watch: Callable[[Progress], None], stopped: Callable[[], bool]
) -> None:
    """Train one cell, from its checkpoint if there is one, and write its measurements."""
    stage = Stage(order, cell, watch, stopped)
    with error_context(f"{order.experiment}, cell '{cell.name}'"):
        trainer = stage.train(0, cell.problem, cell.recipe)
        for number, coupling in enumerate(cell.then, 1):
            kernel, problem = copy.deepcopy(trainer.kernels()[0]), cell.problem
            # A stage that has ended needs no couples, only its kernel.
            if iteration_in(stage.checkpoint(number)) < coupling.recipe.iterations:
                with EXCLUSIVE:
                    seed = order.seeds[0] + number - 1
                    problem = coupling.problem(problem, kernel, seed, lambda done: stopped())
            trainer = stage.train(number, problem, coupling.recipe, [kernel])
    kernels = zip(trainer.kernels(), order.seeds, strict=True)
    with EXCLUSIVE:  # no other cell changes the precision of products meanwhile
        measurements = [{"seed": seed, **cell.measure(kernel, seed)} for kernel, seed in kernels]
    for measured in measurements:
        write_samples(order.out / "samples", measured.pop("samples", {}))
    part = {
        "settings": cell_settings(order, cell),
        "device": device_name(order.device),
        "versions": versions(),
        "iterations": cell.iterations,
        "seconds": stage.seconds,
        "curve": stage.curve,
        "measurements": measurements,
    }
    write_json(order.part(cell.name, ".json"), rounded(part))


class Stage:
    """The trainings of a cell, one after the other: their curve and their time add up."""

    def __init__(
        self,
        order: RunSpec,
        cell: Cell,
        watch: Callable[[Progress], None],
        stopped: Callable[[], bool],
    ) -> None:
        self.order, self.cell, self.watch, self.stopped = order, cell, watch, stopped
        self.curve: Json = {"iteration": [], "loss": [], "at": []}
        self.done, self.seconds = 0, 0.0  # in the stages before

    def checkpoint(self, number: int) -> Path:
        suffix = {0: "", 1: "-then"}.get(number, f"-then{number}")
        return self.order.part(self.cell.name, f"{suffix}.safetensors")

    def train(
        self, number: int, problem: Problem, recipe: Recipe, start: list[Kernel] | None = None
    ) -> Trainer:
        """To the end, from the checkpoint if there is one.

        A checkpoint belongs to the stages that led to it: others may follow one day.
        """
        trainer = Trainer(problem, recipe, self.order.seeds, self.order.device, start)
        every = recipe.block * max(1, recipe.iterations // (CURVE_POINTS * recipe.block))
        metrics: dict[str, float] = {}

        def on_block(record: BlockRecord, curve: Json) -> None:
            nonlocal metrics
            now = self.done + record.iteration
            curve["iteration"].append(now)
            curve["loss"].append(record.loss)
            if record.iteration % every == 0:
                metrics = self._look(trainer, curve, now)
            loss = sum(record.loss) / len(record.loss)
            seconds = self.seconds + record.seconds
            self.watch(Progress(self.cell.name, now, self.cell.iterations, loss, metrics, seconds))

        self.curve = train_resumable(
            trainer,
            self.checkpoint(number),
            cell_settings(self.order, replace(self.cell, then=self.cell.then[:number])),
            self.curve,
            on_block,
            self.stopped,
        )
        self.done += recipe.iterations
        self.seconds += trainer.seconds
        return trainer

    def _look(self, trainer: Trainer, curve: Json, now: int) -> dict[str, float]:
        """Add to the curve what the cell watches."""
        with EXCLUSIVE:  # a derivative taken here must not meet another cell's tracing
            watched = self.cell.watch(trainer.kernels())
        curve["at"].append(now)
        for name, values in watched.items():
            curve.setdefault(name, []).append(values)
        return {name: sum(v) / len(v) for name, v in watched.items()}


def write_samples(folder: Path, samples: dict[str, list[str]]) -> None:
    """Lines of text, gzipped without a date: the same samples make the same file."""
    for name, lines in samples.items():
        folder.mkdir(exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        write_atomically(folder / name, gzip.compress(text.encode(), mtime=0))
