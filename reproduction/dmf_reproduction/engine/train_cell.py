"""Train one cell of an experiment, stage by stage, and record its measurements."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.files import write_atomically
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.run.environment import device_name, versions
from discrete_meanflow.run.json_files import Json, write_json
from discrete_meanflow.run.progress import OnProgress, ProgressEvent
from discrete_meanflow.run.stages import Stages
from discrete_meanflow.training import Distributed, Problem, checkpoint
from discrete_meanflow.training.trainer import EXCLUSIVE
from dmf_reproduction.engine.experiment import AnyCell, Cell
from dmf_reproduction.engine.record import rounded
from dmf_reproduction.engine.spec import RunSpec, cell_settings
from dmf_reproduction.engine.train_method import MethodTraining

CURVE_POINTS = 50


def train_cell(
    spec: RunSpec, cell: AnyCell, on_progress: OnProgress, stopped: Callable[[], bool]
) -> None:
    """Train one cell, from its checkpoints if there are any, and write its measurements."""
    training: CellTraining | MethodTraining
    if isinstance(cell, Cell):
        training = CellTraining(cell, spec, on_progress, stopped)
    else:
        training = MethodTraining(cell, spec, on_progress, stopped)
    with error_context(f"{spec.experiment}, cell '{cell.name}'"):
        kernels = training.train()
    with EXCLUSIVE:  # no other cell may change the precision of matrix products meanwhile
        measurements = [
            {"seed": seed, **training.measure(kernel, seed)}
            for kernel, seed in zip(kernels, spec.seeds, strict=True)
        ]
    for measurement in measurements:
        write_samples(spec.out / "samples", measurement.pop("samples", {}))
    part = {
        "settings": cell_settings(spec, cell),
        "device": device_name(spec.device),
        "versions": versions(),
        "iterations": training.iterations,
        "seconds": training.seconds,
        "curve": training.curve,
        "measurements": measurements,
    }
    write_json(spec.part(cell.name, ".json"), rounded(part))


class CellTraining:
    """The stages of a cell. Their loss curve is the history that checkpoints keep."""

    def __init__(
        self, cell: Cell, spec: RunSpec, on_progress: OnProgress, stopped: Callable[[], bool]
    ) -> None:
        if cell.then and len(spec.seeds) > 1:
            raise InputError("distillation needs a single seed: its pairs have one teacher")
        self.spec, self.cell = spec, cell
        self.on_progress, self.stopped = on_progress, stopped
        self.metrics: dict[str, float] = {}  # the newest
        curve: Json = {"iteration": [], "loss": [], "at": []}
        here = Distributed(device=spec.device)
        self.stages = Stages(spec.seeds, here, self._on_block, stopped, curve)

    def train(self) -> list[Kernel]:
        cell, train = self.cell, self.stages.train
        kernels = train(cell.problem, cell.recipe, self._checkpoint(0), self._settings(0))
        for number, distillation in enumerate(cell.then, 1):
            saved, problem = self._checkpoint(number), cell.problem
            if checkpoint.iteration_in(saved) < distillation.recipe.iterations:
                problem = self._distillation(number, kernels[0])
            kernels = train(problem, distillation.recipe, saved, self._settings(number))
        return kernels

    def measure(self, kernel: Kernel, seed: int) -> Json:
        return self.cell.measure(kernel, seed)

    @property
    def iterations(self) -> int:
        return self.cell.iterations

    @property
    def seconds(self) -> float:
        return self.stages.seconds

    @property
    def curve(self) -> Any:
        return self.stages.history

    def _checkpoint(self, number: int) -> Path:
        suffix = {0: "", 1: "-then"}.get(number, f"-then{number}")
        return self.spec.part(self.cell.name, f"{suffix}.safetensors")

    def _settings(self, number: int) -> Json:
        """Its own and earlier stages only, so that later stages can be added."""
        return cell_settings(self.spec, replace(self.cell, then=self.cell.then[:number]))

    def _distillation(self, number: int, teacher: Kernel) -> Problem:
        first, seed = self.cell.problem, self.spec.seeds[0] + number - 1
        with EXCLUSIVE:
            return self.cell.then[number - 1].problem(
                first, teacher, seed, lambda done: self.stopped()
            )

    def _on_block(self, losses: list[float], curve: Json) -> None:
        stages, trainer, recipe = self.stages, self.stages.trainer, self.stages.trainer.recipe
        curve["iteration"].append(stages.iteration)
        curve["loss"].append(losses)
        every = recipe.block * max(1, recipe.iterations // (CURVE_POINTS * recipe.block))
        if trainer.iteration % every == 0:
            self.metrics = self._measure(curve)
        self.on_progress(
            ProgressEvent(
                self.cell.name,
                stages.iteration,
                self.cell.iterations,
                sum(losses) / len(losses),
                stages.seconds,
                metrics=self.metrics,
            )
        )

    def _measure(self, curve: Json) -> dict[str, float]:
        """Add the quantities that the cell watches to the curve; return their means over seeds."""
        with EXCLUSIVE:  # a derivative must not be taken while another cell traces
            watched = self.cell.watch(self.stages.trainer.kernels())
        curve["at"].append(self.stages.iteration)
        for name, values in watched.items():
            curve.setdefault(name, []).append(values)
        return {name: sum(values) / len(values) for name, values in watched.items()}


def write_samples(folder: Path, samples: dict[str, list[str]]) -> None:
    """Write lines of text, gzipped without a date: equal samples make equal files."""
    for name, lines in samples.items():
        folder.mkdir(exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        write_atomically(folder / name, gzip.compress(text.encode(), mtime=0))
