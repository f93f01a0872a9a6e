"""Every method on the same data, for the same time and at the same size."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy
import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.method import METHODS
from discrete_meanflow.metric import frequencies, pair_tv, sampling_floor, total_variation
from discrete_meanflow.model.likelihood import likelihood
from discrete_meanflow.model.options import FitOptions, MethodName, SampleOptions
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.types import State
from dmf_reproduction import read
from dmf_reproduction.engine.experiment import Claim, Experiment, Json, MethodCell, Scale
from dmf_reproduction.experiments.sequence_parts import law
from dmf_reproduction.metrics import sequence_index
from dmf_reproduction.settings import OURS, method_of

STEPS = (1, 2, 4, 8, 16, 64, 256)
SEEDS = 3  # of the one-step samples, for the standard error
MINUTES = 1.5
RECORDS = 200_000  # of the bigram, for training
HELD_OUT = 100  # records; the scores use the law, or the published test rows
BITS_RECORDS = 500
CAUSAL = "autoregressive"


class Target(ABC):
    """What the methods learn, and how their samples are scored."""

    name: str
    score_name: str
    draws: int

    @abstractmethod
    def train(self) -> State:
        """Training records, ``(N, D)``."""

    @abstractmethod
    def test(self) -> State:
        """Records that were not trained on."""

    @abstractmethod
    def score(self, samples: State) -> float:
        """A distance from the truth; smaller is better."""

    @abstractmethod
    def floor(self) -> float:
        """The score that draws from the truth reach."""


class Bigram(Target):
    """Draws of a Markov chain: TV of adjacent pairs."""

    name, score_name, draws = "bigram (8, 16)", "TV of adjacent pairs", 10_000

    def train(self) -> State:
        return law(self.name).sample((RECORDS,), torch.Generator().manual_seed(0))

    def test(self) -> State:
        return law(self.name).sample((BITS_RECORDS,), torch.Generator().manual_seed(1))

    def score(self, samples: State) -> float:
        data = law(self.name)
        return pair_tv(samples, data, data.vocabulary)

    def floor(self) -> float:
        pairs, g = law(self.name).pair_marginals().flatten(1), torch.Generator().manual_seed(0)
        return sampling_floor(pairs, self.draws, g, 50).mean().item()


class Nltcs(Target):
    """Sixteen yes-or-no answers: TV over all 65,536 states to the published test rows."""

    name, score_name = "nltcs", "TV of whole records"

    def __init__(self, folder: Path | None) -> None:
        if folder is None:
            raise InputError("compare-nltcs reads debd_binary/nltcs: name it with --data DIR")
        self.rows = {
            part: read.whole_numbers(folder / f"debd_binary/nltcs.{part}.data.gz")
            for part in ("train", "test")
        }
        self.draws = len(self.rows["train"])

    def train(self) -> State:
        return self.rows["train"]

    def test(self) -> State:
        return self.rows["test"]

    def score(self, samples: State) -> float:
        return total_variation(self._law(samples), self._law(self.rows["test"])).item()

    def floor(self) -> float:
        return self.score(self.rows["train"])

    def _law(self, rows: State) -> Tensor:
        return frequencies(sequence_index(rows, 2), 2**16)


class Compare(Experiment):
    """The methods on one target."""

    where = "beyond the paper: its peers"
    claims_summary = (
        "every method of many steps is within 1.5x of the floor at 256 steps",
        "in one step the default is the best, or within two standard errors of the best",
    )
    of_the_paper = False
    one_seed = True

    @abstractmethod
    def target(self) -> Target:
        """What the methods learn."""

    def cells(self, scale: Scale) -> list[MethodCell]:
        target = self.target()
        return [_cell(target, name, scale) for name in _methods(scale)]

    def facts(self, scale: Scale) -> Json:
        target = self.target()
        return {
            "steps": list(STEPS),
            "minutes": MINUTES,
            "methods": _summaries(),
            "target": target.name,
            "score": target.score_name,
            "draws": target.draws,
            "floor": target.floor(),
        }

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        scores = {method_of(name): cell["measurements"][0] for name, cell in cells.items()}
        target, floor, last = facts["target"], facts["floor"], str(STEPS[-1])
        ratios = {
            name: score["scores"][last] / floor
            for name, score in scores.items()
            if METHODS[name].steps > 1
        }
        worst = max(ratios, key=lambda name: ratios[name])
        one = {name: score["one step"] for name, score in scores.items() if "one step" in score}
        means = {name: statistics.fmean(values) for name, values in one.items()}
        best = min(means, key=lambda name: means[name])
        error = _standard_error(one[best], one[OURS])
        return [
            self.claim(
                "many-steps",
                f"{target}: {facts['score']} of every method of many steps at {last} steps at most "
                f"1.5x the floor, {floor:.4f}; the worst is {worst}",
                f"{ratios[worst]:.2f}x",
                ratios[worst] <= 1.5,
            ),
            self.claim(
                "one-step",
                f"{target}: the default's {facts['score']} in one step at most two standard errors "
                f"of sampling, {2 * error:.4f}, above the best, {best} with {means[best]:.4f}",
                means[OURS],
                means[OURS] <= means[best] + 2 * error,
            ),
        ]


class CompareBigram(Compare):
    name = "compare-bigram"
    title = "All methods for equal times at equal sizes on a bigram, one seed"

    def target(self) -> Target:
        return Bigram()


class CompareNltcs(Compare):
    name = "compare-nltcs"
    title = "All methods for equal times at equal sizes on nltcs, one seed"

    def target(self) -> Target:
        return _nltcs(self.data)


@cache
def _nltcs(folder: Path | None) -> Nltcs:
    return Nltcs(folder)


def _methods(scale: Scale) -> tuple[str, ...]:
    """All methods; at toy scale one of each kind."""
    return tuple(METHODS) if scale is Scale.paper else (OURS, "mdlm", "flow-matching", CAUSAL)


def _summaries() -> Json:
    return {name: method.summary for name, method in METHODS.items()}


def _cell(target: Target, name: str, scale: Scale) -> MethodCell:
    toy = scale is Scale.toy
    fit = FitOptions(
        MINUTES,
        iterations=8 if toy else None,
        size=1e4 if toy else None,
        batch=16 if toy else None,
        method=_known(name),
        held_out=HELD_OUT if not toy else 10,
    )

    def records() -> numpy.ndarray:
        return target.train()[: 60 if toy else None].numpy()

    return MethodCell(f"{target.name}, method {name}", records, fit, _measure(target, scale))


def _known(name: str) -> MethodName:
    fit: FitOptions = FitOptions(method=name)  # type: ignore[arg-type]  # checked there
    return fit.method


def _measure(target: Target, scale: Scale) -> Callable[[Kernel, Config, int], Json]:
    def measure(kernel: Kernel, config: Config, seed: int) -> Json:
        draws = scale.draws(target.draws)
        steps = (config.codec.length,) if config.plan.system.causal else STEPS

        def score(k: int, seed: int) -> float:
            tokens = torch.cat(list(sample_tokens(kernel, config, SampleOptions(draws, k, seed))))
            return target.score(torch.from_numpy(numpy.array(config.codec.decode(tokens))))

        test = config.codec.encode(target.test()[:BITS_RECORDS].numpy())
        result: Json = {
            "scores": {str(k): score(k, seed) for k in steps},
            "likelihood": likelihood(kernel, config, test),
        }
        if 1 in steps:
            result["one step"] = [score(1, seed + i) for i in range(SEEDS)]
        return result

    return measure


def _standard_error(first: list[float], second: list[float]) -> float:
    """The standard error of the difference of two means over sampling seeds."""
    variances = [statistics.variance(values) / len(values) for values in (first, second)]
    return sum(variances) ** 0.5
