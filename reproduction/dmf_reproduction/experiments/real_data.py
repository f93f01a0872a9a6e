"""Real data from files: a soft kernel beside a factorised one, judged by what they generate.

Training and sampling need the file and a device; judging needs the samples alone, which lie
as text beside the results, so that it can be done again, and elsewhere.
"""

import time
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from discrete_meanflow.data import Alphabet, TokenArray
from discrete_meanflow.data.content import text
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, FlowMapKernel, Kernel
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import Masking, OneHotFlow, SequenceProcess
from discrete_meanflow.sampler import KernelSampler, chunk_size, forbid
from discrete_meanflow.schedule import Linear
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe, sequence_problem
from discrete_meanflow.types import State
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale

STEPS = (1, 2, 4, 8, 16, 64)
KINDS = ("soft", "factorised")
PEAK = {  # FLOP/s of the data sheet, dense
    ("NVIDIA H200", "bfloat16"): 989e12,
    ("NVIDIA H200", "float32"): 67e12,
}


@dataclass(frozen=True)
class Records:
    """Data cut in two before training."""

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
    """``records`` are learned by two kernels; ``score`` judges samples of each number of steps."""

    where = "beyond the paper: its limit"
    of_the_paper = False
    one_seed = True
    draws = 10_000
    recipes: ClassVar[dict[str, Recipe]]  # of the soft kernel and of the factorised one
    couplings: ClassVar[tuple[FlowMapDistillation, ...]] = ()  # the soft kernel's further stages
    whole: ClassVar[float] = 0.1  # share of its time pairs that are (0, 1)
    conditioning: ClassVar[float] = 0.0  # share of its training records of which some is known
    minibatch_ot: ClassVar[int] = 0  # of its training noises, how many are dealt out together

    @abstractmethod
    def cut(self) -> Records:
        """Read the file, remove duplicates, cut it in two."""

    @abstractmethod
    def network(self, states: int, length: int, scale: Scale) -> nn.Module:
        """The network of both kernels."""

    @abstractmethod
    def score(self, samples: list[str]) -> Json:
        """How good samples are."""

    @cached_property
    def records(self) -> Records:
        return self.cut()

    def cells(self, scale: Scale) -> list[Cell]:
        return [self._cell(kind, scale) for kind in KINDS]

    def facts(self, scale: Scale) -> Json:
        held_out = self.records.alphabet.decode(self.records.held_out)
        return {
            **self.records.describe(),
            "steps": list(STEPS),
            "held out": self.score(held_out),
        }

    def scores(self, folder: Path) -> Json:
        return {
            kind: {str(k): self.score(samples_in(folder / sample_file(kind, k))) for k in STEPS}
            for kind in KINDS
        }

    def _cell(self, kind: str, scale: Scale) -> Cell:
        data = TokenArray(self.records.train, self.records.vocabulary)
        problem = self.problem(kind, data, scale)
        recipe, then = self.recipes[kind], self.couplings if kind == "soft" else ()
        if scale is Scale.toy:
            recipe = replace(scale.recipe(recipe), batch=16, iterations=10)
            then = tuple(FlowMapDistillation(50, 2, recipe) for _ in then)

        def measure(kernel: Kernel, seed: int) -> Json:
            assert isinstance(problem.process, SequenceProcess)
            draws = self.draws if scale is Scale.paper else 50
            # In the precision that it was trained in.
            with torch.autocast(kernel.home.device.type, torch.bfloat16, enabled=recipe.bf16):
                samples = {
                    sample_file(kind, k): generate(kernel, problem.process, k, draws, seed)
                    for k in STEPS
                }
                more = self.more_samples(kind, kernel, problem.process, draws, seed)
                measured = pace(kernel, problem.process, draws)
            return {
                "parameters": sum(p.numel() for p in kernel.parameters()),
                **measured,
                "samples": {name: self.shown(x) for name, x in (samples | more).items()},
            }

        return Cell(kind, problem, recipe, lambda kernels: {}, measure, then)

    def problem(self, kind: str, data: TokenArray, scale: Scale) -> Problem:
        process: SequenceProcess = (
            OneHotFlow(data, self.conditioning, self.minibatch_ot)
            if kind == "soft"
            else Masking(data)
        )

        def kernel() -> Kernel:
            network = self.network(process.states, process.length, scale)
            if isinstance(process, Masking):
                return BoundaryKernel(network, Linear(), mask=process.token)
            return FlowMapKernel(network, process.states)

        if kind != "soft":
            return sequence_problem(data, process=lambda data: process, kernel=kernel)
        return sequence_problem(
            data,
            process=lambda data: process,
            kernel=kernel,
            times=ClockUniform(process.states, self.whole),
            # With another stage to come, the diagonal is all that the first has to learn.
            objective=PosteriorRegression() if self.couplings else None,
        )

    def more_samples(
        self, kind: str, kernel: Kernel, process: SequenceProcess, draws: int, seed: int
    ) -> dict[str, State]:
        """Samples of another kind, by the name of their file."""
        return {}

    def shown(self, tokens: State) -> list[str]:
        """Samples as lines, raw."""
        return self.records.alphabet.decode(tokens)

    @abstractmethod
    def verdicts(self, facts: Json) -> list[Claim]:
        """What is claimed of the samples."""

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        return [*self.verdicts(facts), self._pace(cells["soft"]["measurements"])]

    def _pace(self, measured: list[Json]) -> Claim:
        one, cost = measured[0], max(m["flops_over_diagonal"] for m in measured)
        limit = one.get("samples_per_second_at_peak")
        at_peak = f", of {limit:,.0f} that the device's peak would allow" if limit else ""
        return self._claim(
            "pace",
            "one step costs at most 1.1x the operations of a look at the diagonal; samples a "
            f"second: {one['samples_per_second']:,.0f}{at_peak}",
            f"{cost:.2f}x",
            cost <= 1.1,
        )

    def file(self, name: str) -> Path:
        """A file of the folder that the data are read from."""
        if self.data is None:
            raise InputError(f"{self.name} reads {name}: say where with --data FOLDER")
        return self.data / name

    def _claim(self, id: str, text: str, ours: str | float, holds: bool) -> Claim:
        return Claim(id, text, self.where, None, ours, holds)


def sample_file(kind: str, steps: int) -> str:
    return f"{kind}-{steps}.txt.gz"


def samples_in(path: Path) -> list[str]:
    """The samples in a file, empty ones among them."""
    return text(path).split("\n")[:-1]


def generate(kernel: Kernel, process: SequenceProcess, steps: int, draws: int, seed: int) -> State:
    """Raw samples: shape ``(draws, D)``, on the CPU."""
    g = torch.Generator(kernel.home.device).manual_seed(seed)
    # The mask is noise and no symbol of the data; a factorised kernel could draw it.
    logit_processors = [forbid(process.token)] if isinstance(process, Masking) else []
    sampler = KernelSampler.steps(kernel, steps, logit_processors)
    lot = chunk_size(process.length, process.states, kernel.network)
    chunks = [min(lot, draws - i) for i in range(0, draws, lot)]
    starts = (process.source((n, process.length), g) for n in chunks)
    return torch.cat([sampler.sample(x, g).cpu() for x in starts])


def cost(kernel: Kernel, process: SequenceProcess) -> Json:
    """Operations of a sample in one step, and over those of a look at the diagonal."""
    g = torch.Generator(kernel.home.device).manual_seed(0)
    one = process.source((1, process.length), g)
    middle = torch.full((1, 1), 0.5, device=kernel.home.device, dtype=kernel.home.dtype)
    with FlopCounterMode(display=False) as step:
        KernelSampler.steps(kernel, 1).sample(one, g)
    with FlopCounterMode(display=False) as look, torch.no_grad():
        kernel(one, middle, middle)
    flops = step.get_total_flops()
    return {
        "flops_per_sample": flops,
        "flops_over_diagonal": flops / look.get_total_flops(),
    }


def pace(kernel: Kernel, process: SequenceProcess, draws: int) -> Json:
    """What a step costs, and samples a second."""
    found = cost(kernel, process)
    generate(kernel, process, 1, draws, 0)  # warm
    started = time.perf_counter()
    generate(kernel, process, 1, draws, 0)
    seconds = time.perf_counter() - started
    where = kernel.home.device.type
    precision = "bfloat16" if torch.is_autocast_enabled(where) else "float32"
    peak = PEAK.get((torch.cuda.get_device_name() if where == "cuda" else "CPU", precision))
    limit = {} if peak is None else {"samples_per_second_at_peak": peak / found["flops_per_sample"]}
    return {
        "precision": precision,
        **found,
        "samples_per_second": draws / seconds,
        **limit,
    }


def at_steps(scores: Json, kind: str, key: str) -> list[float]:
    """A score of one kind of kernel at each number of steps."""
    return [scores[kind][str(k)][key] for k in STEPS]
