"""Train a method as ``dmf train`` does, in a run folder among the parts."""

from collections.abc import Callable
from dataclasses import replace

from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.metrics_log import read_metrics
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.run_folder import CONFIG, METRICS, read_config, read_weights
from discrete_meanflow.model.train import train
from discrete_meanflow.run.json_files import Json
from discrete_meanflow.run.progress import OnProgress, ProgressEvent
from discrete_meanflow.training import Distributed
from dmf_reproduction.engine.experiment import MethodCell
from dmf_reproduction.engine.spec import RunSpec

CURVE_POINTS = 50


class MethodTraining:
    """The run of a cell. It resumes by itself; ``stopped`` is read where the run reads signals."""

    def __init__(
        self,
        cell: MethodCell,
        spec: RunSpec,
        on_progress: OnProgress,
        stopped: Callable[[], bool],
    ) -> None:
        self.cell, self.on_progress = cell, on_progress
        self.folder = spec.part(cell.name, "")
        self.distributed = Distributed(device=spec.device)
        if not (self.folder / CONFIG).exists():
            kind, dataset = dataset_from_python(cell.records())
            fit = replace(cell.fit, seed=spec.seeds[0])
            prepare(self.folder, kind, dataset, fit, self.distributed)
        self.config = read_config(self.folder)

    def train(self) -> list[Kernel]:
        train(self.folder, self.config, self.distributed, self._report)
        return [read_weights(self.folder, self.config).to(self.distributed.device)]

    def measure(self, kernel: Kernel, seed: int) -> Json:
        parameters = self.config.plan.parameter_count(self.config.codec)
        return {"parameters": parameters, **self.cell.measure(kernel, self.config, seed)}

    @property
    def iterations(self) -> int:
        return self.config.plan.steps

    @property
    def seconds(self) -> float:
        return float(read_metrics(self.folder / METRICS)[-1]["seconds"])

    @property
    def curve(self) -> Json:
        """The loss of at most 50 blocks."""
        lines = read_metrics(self.folder / METRICS)
        lines = lines[:: max(1, len(lines) // CURVE_POINTS)]
        return {
            "iteration": [line["iteration"] for line in lines],
            "loss": [[line["loss"]] for line in lines],
        }

    def _report(self, event: ProgressEvent) -> None:
        self.on_progress(replace(event, name=self.cell.name, kernel=None))
