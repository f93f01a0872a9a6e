"""Methods side by side: trained for equal times at equal sizes, scored on equal records."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from discrete_meanflow.data.split import FEWEST_HELD_OUT
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.files import digest, make_folder
from discrete_meanflow.io.codec import Dataset
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.comparison_grid import EVALUATIONS, SECONDS
from discrete_meanflow.model.eval_samples import EvalSplit
from discrete_meanflow.model.evaluate import Evaluator
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.model.likelihood import check_likelihood, likelihood
from discrete_meanflow.model.options import CompareOptions, SampleOptions
from discrete_meanflow.model.prepare import prepare, split_dataset
from discrete_meanflow.model.run_folder import (
    CONFIG,
    TRAIN,
    WEIGHTS,
    Config,
    read_config,
    read_weights,
)
from discrete_meanflow.model.sampling import sample_tokens, sampler_of
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.model.train import train
from discrete_meanflow.run.environment import environment
from discrete_meanflow.run.json_files import Json, read_json, write_json
from discrete_meanflow.run.progress import OnProgress
from discrete_meanflow.training import Distributed
from discrete_meanflow.types import Tokens

OPTIONS, COMPARISON = "options.json", "comparison.json"
LATER = ("methods", "steps")  # may be added to a finished comparison
FAILED = "failed"


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
        _, held_out, _ = split_dataset(self.dataset, self.options.held_out, self.options.seed)
        if len(held_out) < FEWEST_HELD_OUT:
            raise InputError(
                f"{len(held_out)} held-out records are too few, at least {FEWEST_HELD_OUT} are "
                "needed; use --held-out N"
            )
        ours, path = self._settings, self.folder / OPTIONS
        if not path.exists():
            others = [name for name in make_folder(self.folder) if not name.startswith(".")]
            if others:
                raise InputError(
                    f"{self.folder} contains other files, such as {min(others)}; choose another "
                    "--out"
                )
            write_json(path, ours)
            return
        theirs = read_json(path)
        differ = [name for name in ours if name not in LATER and theirs.get(name) != ours[name]]
        if differ:
            raise InputError(
                f"{self.folder} holds a comparison with other {' and '.join(differ)}; choose "
                "another --out"
            )

    @property
    def _settings(self) -> Json:
        """What the folder belongs to, as JSON gives it back."""
        tokens = self.dataset.encoded().contiguous().numpy()
        data = hashlib.sha256(repr(self.dataset.codec.describe()).encode() + tokens.tobytes())
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self.options).items()
        }
        return {**options, "device": self.device, "data": data.hexdigest()}

    def run(self, on_progress: OnProgress, on_method: Callable[[str], None]) -> Json:
        """Train and score all methods; write and return the comparison.

        A method that fails is reported in its row, and the others go on.
        """
        self.claim_folder()
        comparison: Json = {"options": self._settings, "environment": environment(), "methods": {}}
        for name in self.options.methods:
            on_method(name)
            try:
                comparison["methods"][name] = self._method(name, on_progress)
                comparison.setdefault(REAL, self._real(name))
            except Interrupted:
                raise
            except InputError as error:
                comparison["methods"][name] = {FAILED: str(error)}
                on_method(f"{name}: {error}")
            if REAL in comparison:
                write_json(self.folder / COMPARISON, comparison)
        if REAL not in comparison:
            name, failure = next(iter(comparison["methods"].items()))
            raise InputError(f"no method could be compared; {name}: {failure[FAILED]}")
        return comparison

    def _method(self, name: str, on_progress: OnProgress) -> Json:
        folder, options = self.folder / name, self.options
        if not (folder / CONFIG).exists():
            fit, distributed = options.fit(name), Distributed(device=self.device)
            prepare(folder, self.kind, self.dataset, fit, distributed)
        config = read_config(folder)
        train(folder, config, Distributed(device=self.device), on_progress)
        config = read_config(folder)  # the steps may have been revised
        return self._scored(folder, config, read_weights(folder, config).to(self.device))

    def _scored(self, folder: Path, config: Config, kernel: Kernel) -> Json:
        """Scores at each number of steps; those that were scored before are kept."""
        path, plan, split = folder / COMPARISON, config.plan, self._split(folder, config)
        content = _kept(path, digest(folder / WEIGHTS)) or {
            "summary": plan.system.summary,
            "parameters": plan.parameter_count(config.codec),
            "training steps": plan.steps,
            "weights": digest(folder / WEIGHTS),
            "likelihood": likelihood(kernel, config, split.real),
            "steps": {},
        }
        evaluator, count = self._evaluator(folder, config), len(split.real)
        steps = plan.evaluated_steps(config.codec, self.options.steps)
        missing = [k for k in steps if str(k) not in content["steps"]]
        if missing:
            next(sample_tokens(kernel, config, SampleOptions(count, min(steps))))  # warm up
        for k in missing:
            tokens, cost = _sampled(kernel, config, SampleOptions(count, k, self.options.seed))
            content["steps"][str(k)] = {**cost, **evaluator(tokens)}
            write_json(path, content)
        return content | {"steps": {str(k): content["steps"][str(k)] for k in steps}}

    def _split(self, folder: Path, config: Config) -> EvalSplit:
        return EvalSplit.read(folder, config.codec, self.options.n)

    def _evaluator(self, folder: Path, config: Config) -> Evaluator:
        train_tokens = read_tokens(folder / TRAIN, config.codec)
        return Evaluator(config, train_tokens, self._split(folder, config).reference)

    def _real(self, name: str) -> Json:
        """The scores of held-out records, which a perfect generator would reach."""
        folder = self.folder / name
        config = read_config(folder)
        return self._evaluator(folder, config)(self._split(folder, config).real)


def _sampled(kernel: Kernel, config: Config, options: SampleOptions) -> tuple[Tokens, Json]:
    """Samples, and what each costs: function evaluations and seconds."""
    started, sampler = time.monotonic(), sampler_of(kernel, config, options)
    chunks, evaluations = [], 0.0
    for tokens in sample_tokens(kernel, config, options, sampler=sampler):
        chunks.append(tokens)
        evaluations += len(tokens) * sampler.evaluations
    seconds = time.monotonic() - started
    cost = {EVALUATIONS: evaluations / options.n, SECONDS: seconds / options.n}
    return torch.cat(chunks), cost


def _kept(path: Path, weights: str) -> Json | None:
    """The scores of an earlier session, if they are those of these weights."""
    if not path.exists():
        return None
    content = read_json(path, "delete it")
    try:
        check_likelihood(content["likelihood"])
        costs = [
            float(row[of]) for row in content["steps"].values() for of in (EVALUATIONS, SECONDS)
        ]
        assert all(cost >= 0 for cost in costs)
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError):
        raise InputError(f"{path} is damaged; delete it") from None
    return content if content.get("weights") == weights else None
