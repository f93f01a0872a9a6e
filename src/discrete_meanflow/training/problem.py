"""What is trained and how, as values: the parts of a training run and its recipe."""

import math
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.objective import Objective, OnCouples
from discrete_meanflow.process import Coupled, OneHotFlow, PathSample, Process
from discrete_meanflow.times import TimeSampler

NEW = ("average", "bf16", "compiled", "accumulate", "muon")  # in a recipe, since the first records
GLOBAL_GENERATOR = threading.Lock()  # trainers in threads take turns with it


@dataclass(frozen=True)
class Problem:
    """A reference process, the times it is seen at, a kernel and what is asked of it."""

    process: Process
    times: TimeSampler
    kernel: Callable[[], Kernel]  # builds a fresh kernel; seeds differ in what it draws
    objective: Objective

    def __post_init__(self) -> None:
        others = [m for m in self.objective.modules() if isinstance(m, Process)]
        if any(other is not self.process for other in others):
            raise InputError("problem: the objective was built on another process")
        if isinstance(self.process, OneHotFlow) and not self.objective.soft:
            raise InputError(
                f"problem: {type(self.objective).__name__} would teach a soft kernel the mean of "
                "where a point goes, not where it goes; use PosteriorRegression with Composition"
            )
        if isinstance(self.objective, OnCouples) != isinstance(self.process, Coupled):
            raise InputError("problem: couples need both, the process Coupled and OnCouples")
        kernel = self.build(0)
        if getattr(kernel, "process", self.process) is not self.process:
            raise InputError("problem: the kernel's bridge belongs to another process")
        mask, token = getattr(kernel, "mask", None), getattr(self.process, "token", None)
        if mask is not None and mask != token:
            raise InputError(f"problem: the kernel's mask is {mask}, the process's noise {token}")
        for module in kernel.network.modules():
            for what in ("states", "length"):
                ours, theirs = getattr(module, what, None), getattr(self.process, what, None)
                if isinstance(ours, int) and theirs is not None and ours != theirs:
                    raise InputError(
                        f"problem: the network has {what} {ours}, the process {theirs}"
                    )

    def paths(self, shape: tuple[int, ...], g: torch.Generator) -> PathSample:
        """Training paths of the given shape."""
        return self.process.path(self.times.sample(shape, g), g, self.objective.draws)

    def build(self, seed: int) -> Kernel:
        """A fresh kernel, its weights drawn from the seed.

        Initialisation draws from torch's global generator: lend it the seed, then give it back.
        """
        with GLOBAL_GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.kernel()

    def describe(self) -> dict[str, str]:
        """The parts in words: what a record keeps and what a resumed run is checked against."""
        return {
            "process": in_words(self.process),
            "times": repr(self.times),
            "kernel": in_words(self.build(0)),
            "objective": in_words(self.objective),
        }


def in_words(module: nn.Module) -> str:
    """A module by its type, what it says of itself, its parameters' shapes and its parts.

    PyTorch's own modules say different things in different versions: of them, type and shapes.
    """
    foreign = type(module).__module__.startswith("torch.")
    shapes = ["x".join(map(str, p.shape)) for p in module.parameters(recurse=False)]
    own = [] if foreign else [" ".join(module.extra_repr().split())]
    children = [f"{name}={in_words(child)}" for name, child in module.named_children()]
    return (
        f"{type(module).__name__}({', '.join(part for part in [*own, *shapes, *children] if part)})"
    )


@dataclass(frozen=True)
class Recipe:
    """AdamW with a cosine schedule, as in the paper's table of hyperparameters; Muon if asked."""

    iterations: int
    batch: int = 256
    learning_rate: float = 3e-4
    weight_decay: float = 1e-5
    final_lr_fraction: float = 0.01  # the learning rate ends at this share of where it began
    clip: float = 1.0  # largest gradient norm, per seed
    ema_decay: float = 0.0  # decay of a running average of the weights, which teaches; 0: none
    tf32: bool = False  # matrix products in TensorFloat-32 where CUDA has it
    bf16: bool = False  # networks in bfloat16, but for derivatives; weights stay in float32
    block: int = 100  # steps between records; paths are drawn a block at a time
    accumulate: int = 1  # pieces that a batch is worked through in, one after the other
    muon_ratio: float = 0.0  # learning rate of inner matrices, by Muon, over the others'; 0: AdamW
    compiled: bool | None = None  # the step; None: if the run is long enough to win the time back

    def __post_init__(self) -> None:
        if min(self.iterations, self.batch, self.block, self.accumulate) < 1:
            raise InputError("recipe: iterations, batch, block and accumulate must be at least 1")
        if self.batch % self.accumulate:
            raise InputError(f"recipe: {self.accumulate} pieces do not divide {self.batch}")
        if not self.learning_rate > 0 or not self.clip > 0 or self.weight_decay < 0:
            raise InputError("recipe: learning rate and clip must be > 0, weight decay >= 0")
        if not 0 <= self.muon_ratio < math.inf:
            raise InputError(
                f"recipe: the ratio for Muon must be a number >= 0, got {self.muon_ratio}"
            )
        if not 0 <= self.ema_decay < 1:
            raise InputError(
                f"recipe: the average's decay must lie in [0, 1), got {self.ema_decay}"
            )

    def learning_rate_at(self, step: int) -> float:
        """Cosine from ``learning_rate`` to ``final_lr_fraction`` of it."""
        fall = (1 + math.cos(math.pi * step / self.iterations)) / 2
        return self.learning_rate * (self.final_lr_fraction + (1 - self.final_lr_fraction) * fall)

    def ema_rate_at(self, step: int) -> float:
        """How far the average moves towards the weights: fast at first, then ``1 - average``."""
        return max(1 - self.ema_decay, 9 / (10 + step))

    def describe(self) -> dict[str, Any]:
        return described(self, NEW)


def described(value: Any, new: tuple[str, ...]) -> dict[str, Any]:
    """A dataclass in words; of its ``new`` fields those that are not as they are by default.

    Records made before there was such a field say nothing of it.
    """
    plain = {field.name: field.default for field in fields(value) if field.name in new}
    return {name: v for name, v in asdict(value).items() if plain.get(name, ...) != v}
