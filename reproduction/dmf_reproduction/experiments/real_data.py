"""Real data from files: a flow-map kernel against a factorised one, compared by their samples.

Training and sampling need the data file and a device. Scoring needs the samples only, which are
stored as text beside the results.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn

from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.alphabet import Alphabet
from discrete_meanflow.io.content import read_text
from discrete_meanflow.kernel import BoundaryKernel, FlowMapKernel, Kernel
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.path import Paths
from discrete_meanflow.process import Masking, OneHotFlow, SequenceProcess
from discrete_meanflow.sampler import KernelSampler, forbid, generate as in_chunks
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe, sequence_problem
from discrete_meanflow.types import State
from dmf_reproduction.engine.experiment import Cell, Experiment, Json, Scale, format_numbers
from dmf_reproduction.settings import FLOW_MAP, KINDS, REAL_STEPS as STEPS


@dataclass(frozen=True)
class Records:
    """Data, split before training."""

    train: State  # (N, D)
    held_out: State
    alphabet: Alphabet

    @property
    def vocabulary(self) -> int:
        return len(self.alphabet.symbols)

    @property
    def length(self) -> int:
        return self.train.shape[1]

    def describe(self) -> Json:
        return {
            "training records": len(self.train),
            "held-out records": len(self.held_out),
            "alphabet": str(self.alphabet),
            "length": self.length,
        }


class RealData(Experiment):
    """Train two kernels on ``records``; ``score`` rates samples at each number of steps."""

    where = "beyond the paper: joint distributions"
    of_the_paper = False
    one_seed = True
    draws = 10_000
    recipes: ClassVar[dict[str, Recipe]]  # by kind of kernel
    distillations: ClassVar[tuple[FlowMapDistillation, ...]] = ()  # later stages of the flow map
    full_interval_fraction: ClassVar[float] = 0.1  # of the flow map's time pairs
    conditioning: ClassVar[float] = 0.0  # fraction of its training records with observed positions
    minibatch_ot: ClassVar[int] = 0  # its group size for minibatch optimal transport; 0: none

    @abstractmethod
    def read(self) -> Records:
        """Read the file, remove duplicates and split it."""

    @abstractmethod
    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        """The network of both kernels."""

    @abstractmethod
    def score(self, samples: list[str]) -> Json:
        """Rate samples."""

    @cached_property
    def records(self) -> Records:
        return self.read()

    def cells(self, scale: Scale) -> list[Cell]:
        return [self._cell(kind, scale) for kind in KINDS]

    def facts(self, scale: Scale) -> Json:
        held_out = self.records.alphabet.decode(self.records.held_out)
        return {**self.records.describe(), "steps": list(STEPS), "held out": self.score(held_out)}

    def scores(self, folder: Path) -> Json:
        return {
            kind: {str(k): self.score(read_samples(folder / sample_file(kind, k))) for k in STEPS}
            for kind in KINDS
        }

    def _cell(self, kind: str, scale: Scale) -> Cell:
        data = TokenArray(self.records.train, self.records.vocabulary)
        problem = self.problem(kind, data, scale)
        recipe, then = self.recipes[kind], self.distillations if kind == FLOW_MAP else ()
        if scale is Scale.toy:
            recipe = replace(scale.recipe(recipe), batch=16, iterations=10)
            then = tuple(FlowMapDistillation(50, 2, recipe) for _ in then)

        def measure(kernel: Kernel, seed: int) -> Json:
            assert isinstance(problem.process, SequenceProcess)
            draws = self.draws if scale is Scale.paper else 50
            # Sample in the precision of training.
            with torch.autocast(kernel.device.type, torch.bfloat16, enabled=recipe.bf16):
                samples = {
                    sample_file(kind, k): generate(kernel, problem.paths, k, draws, seed)
                    for k in STEPS
                }
                samples |= self.more_samples(kind, kernel, problem.process, draws, seed)
            return {
                "parameters": sum(p.numel() for p in kernel.parameters()),
                "samples": {name: self.lines(x) for name, x in samples.items()},
            }

        return Cell(kind, problem, recipe, lambda kernels: {}, measure, then)

    def problem(self, kind: str, data: TokenArray, scale: Scale) -> Problem:
        process: SequenceProcess = (
            OneHotFlow(data.vocabulary, self.minibatch_ot)
            if kind == FLOW_MAP
            else Masking(data.vocabulary)
        )

        def kernel() -> Kernel:
            network = self.network(process.states, data.length, scale)
            if isinstance(process, Masking):
                return BoundaryKernel(network, process.states, Linear(), mask=process.token)
            return FlowMapKernel(network, process.states)

        if kind != FLOW_MAP:
            return sequence_problem(data, process=process, kernel=kernel)
        return sequence_problem(
            data,
            process=process,
            kernel=kernel,
            times=ClockUniform(process.states, self.full_interval_fraction),
            conditioning=self.conditioning,
            # Before distillation, the first stage learns the diagonal (the teacher) only.
            objective=PosteriorRegression() if self.distillations else None,
        )

    def more_samples(
        self, kind: str, kernel: Kernel, process: SequenceProcess, draws: int, seed: int
    ) -> dict[str, State]:
        """Further samples, by file name."""
        return {}

    def lines(self, tokens: State) -> list[str]:
        """Samples as lines of text."""
        return self.records.alphabet.decode(tokens)

    def file(self, name: str) -> Path:
        """A file in the data folder."""
        if self.data is None:
            raise InputError(f"{self.name} reads {name}: give its folder with --data DIR")
        return self.data / name


def sample_file(kind: str, steps: int) -> str:
    return f"{kind.replace(' ', '-')}-{steps}.txt.gz"


def read_samples(path: Path) -> list[str]:
    """The samples in a file; empty lines are samples too."""
    return read_text(path).split("\n")[:-1]


def generate(kernel: Kernel, paths: Paths, steps: int, draws: int, seed: int) -> State:
    """Samples: shape ``(draws, D)``, on the CPU."""
    process, g = paths.process, torch.Generator(kernel.device).manual_seed(seed)
    # The mask is noise, not a symbol of the data, but a factorised kernel could draw it.
    logit_processors = [forbid(process.token)] if isinstance(process, Masking) else []
    sampler = KernelSampler.steps(kernel, steps, logit_processors)
    return torch.cat(list(in_chunks(sampler, process, (draws, paths.length), g)))


def at_steps(scores: Json, key: str, kind: str = FLOW_MAP) -> list[float]:
    """A score of one kernel at each number of steps."""
    return [scores[kind][str(k)][key] for k in STEPS]


def by_steps(scores: Json, key: str) -> str:
    """A score of both kernels at each number of steps, in words."""
    ours, factorised = (format_numbers(at_steps(scores, key, kind)) for kind in KINDS)
    return f"at {' '.join(map(str, STEPS))} steps {ours}; factorised {factorised}"
