"""Methods side by side: trained for equal times at equal sizes, scored on equal records."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from discrete_meanflow.data.codec import Dataset
from discrete_meanflow.data.kind import Kind
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.eval_samples import EvalSplit
from discrete_meanflow.model.evaluate import Evaluator
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.model.likelihood import likelihood
from discrete_meanflow.model.metrics_log import read_metrics
from discrete_meanflow.model.options import CompareOptions, SampleOptions
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.run_folder import (
    CONFIG,
    METRICS,
    TRAIN,
    Config,
    read_config,
    read_weights,
)
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.model.train import train
from discrete_meanflow.run.environment import environment
from discrete_meanflow.run.json_files import Json, read_json, write_json
from discrete_meanflow.run.progress import OnProgress
from discrete_meanflow.training import Distributed

OPTIONS, COMPARISON = "options.json", "comparison.json"


class Comparison:
    """Trains and scores methods, each in a folder of its own. Finished parts are kept.

    Args:
        folder: of the comparison.
        kind: of the data.
        dataset: the data.
        options: what to compare.
        device: cpu or cuda.
    """

    def __init__(
        self, folder: Path, kind: Kind, dataset: Dataset, options: CompareOptions, device: str
    ) -> None:
        self.folder, self.kind, self.dataset = folder, kind, dataset
        self.options, self.device = options, device

    def claim_folder(self) -> None:
        """Create the folder, or check that it holds this comparison."""
        ours: Json = {**asdict(self.options), "device": self.device}
        path = self.folder / OPTIONS
        if not path.exists():
            if self.folder.exists() and any(self.folder.iterdir()):
                raise InputError(f"{self.folder} contains other files; choose another --out")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(path, ours)
            return
        # Methods and numbers of steps may be added later.
        free = ("methods", "steps")
        theirs = read_json(path)
        differ = [
            name for name in ours if name not in free and theirs.get(name) != _plain(ours[name])
        ]
        if differ:
            raise InputError(
                f"{self.folder} holds a comparison with other {' and '.join(differ)}; choose "
                "another --out"
            )

    def run(self, on_progress: OnProgress, on_method: Callable[[str], None]) -> Json:
        """Train and score all methods; write and return the comparison."""
        self.claim_folder()
        methods: Json = {}
        for name in self.options.methods:
            on_method(name)
            methods[name] = self._method(name, on_progress)
        comparison = {
            "options": {**asdict(self.options), "device": self.device},
            "environment": environment(),
            REAL: self._real(self.options.methods[0]),
            "methods": methods,
        }
        write_json(self.folder / COMPARISON, comparison)
        return comparison

    def _method(self, name: str, on_progress: OnProgress) -> Json:
        folder, options = self.folder / name, self.options
        if not (folder / CONFIG).exists():
            fit, distributed = options.fit(name), Distributed(device=self.device)
            prepare(folder, self.kind, self.dataset, fit, distributed)
        config = read_config(folder)
        train(folder, config, Distributed(device=self.device), on_progress)
        return self._scored(folder, config, read_weights(folder, config).to(self.device))

    def _scored(self, folder: Path, config: Config, kernel: Kernel) -> Json:
        """Scores at each number of steps; those that were scored before are kept."""
        path, plan, codec = folder / COMPARISON, config.plan, config.codec
        content = read_json(path) if path.exists() else {}
        rows, evaluator, count = content.get("steps", {}), *self._evaluator(folder, config)
        bits = content.get("likelihood") or likelihood(
            kernel, config, self._split(folder, config).real
        )
        next(sample_tokens(kernel, config, SampleOptions(2, self._steps(config)[0])))  # warm up
        for steps in self._steps(config):
            if str(steps) in rows:
                continue
            started = time.monotonic()
            sample = SampleOptions(count, steps, self.options.seed)
            tokens = torch.cat(list(sample_tokens(kernel, config, sample)))
            seconds = time.monotonic() - started
            rows[str(steps)] = {"seconds per record": seconds / count, **evaluator(tokens)}
            content = {
                "summary": plan.system.summary,
                "parameters": plan.parameter_count(codec),
                "training steps": plan.steps,
                "training seconds": read_metrics(folder / METRICS)[-1]["seconds"],
                "likelihood": bits,
                "steps": rows,
            }
            write_json(path, content)
        kept = {str(k): rows[str(k)] for k in self._steps(config)}
        return content | {"steps": kept}

    def _steps(self, config: Config) -> tuple[int, ...]:
        """A causal model takes one evaluation for each position."""
        causal = config.plan.system.causal
        return (config.codec.length,) if causal else self.options.steps

    def _split(self, folder: Path, config: Config) -> EvalSplit:
        return EvalSplit.read(folder, config.codec, self.options.n)

    def _evaluator(self, folder: Path, config: Config) -> tuple[Evaluator, int]:
        """The evaluator, and the number of records it scores."""
        split = self._split(folder, config)
        train_tokens = read_tokens(folder / TRAIN, config.codec)
        return Evaluator(config, train_tokens, split.reference), len(split.real)

    def _real(self, name: str) -> Json:
        """The scores of held-out records, which a perfect generator would reach."""
        folder = self.folder / name
        config = read_config(folder)
        return self._evaluator(folder, config)[0](self._split(folder, config).real)


def _plain(value: object) -> object:
    """A value as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value
