"""What is trained and how, as values: the parts of a training and its recipe."""

import math
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel, RateKernel
from discrete_meanflow.objective import Objective
from discrete_meanflow.path import Paths
from discrete_meanflow.process import MixturePath, PathSample, Process
from discrete_meanflow.state import Continuous

GLOBAL_GENERATOR = threading.Lock()  # trainers in threads take turns with it


@dataclass(frozen=True)
class Problem:
    """What is trained: training paths, a kernel and an objective."""

    paths: Paths
    kernel: Callable[[], Kernel]  # builds a new kernel
    objective: Objective

    def __post_init__(self) -> None:
        needs, process = self.objective.needs, self.process
        parts = [m for m in self.objective.modules() if isinstance(m, Process)]
        if any(part is not process for part in parts):
            raise InputError("problem: the objective was built on another process")
        if isinstance(process.space, Continuous) and not needs.continuous:
            raise InputError(
                f"problem: {type(self.objective).__name__} would teach a flow map the mean "
                "endpoint; use PosteriorRegression with SemigroupLoss"
            )
        if needs.data_ends and not self.paths.data_ends:
            raise InputError(
                f"problem: {type(self.objective).__name__} needs paths that end in data; use "
                "PairCrossEntropy on TeacherPairs"
            )
        if needs.flow_map_ends and not self.paths.flow_map_ends:
            raise InputError(
                f"problem: {type(self.objective).__name__} needs TeacherPairs, or DataPaths with "
                "OnDiagonal times; other paths end in data that noise does not determine"
            )
        if needs.parts and tuple(map(type, self.paths.parts)) != needs.parts:
            names = ", ".join(part.__name__ for part in needs.parts)
            raise InputError(
                f"problem: {type(self.objective).__name__} needs MixedPaths({names}), in this order"
            )

    @property
    def process(self) -> Process:
        return self.paths.process

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> PathSample:
        """Training paths of the given shape."""
        return self.paths.sample(shape, g, self.objective.needs.draws)

    def build(self, seed: int) -> Kernel:
        """A new kernel, its weights drawn from the seed.

        Initialisation draws from torch's global generator, which is seeded and then restored.
        """
        with GLOBAL_GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            kernel = self.kernel()
        self._check(kernel)
        return kernel

    def _check(self, kernel: Kernel) -> None:
        """Raise an error unless the kernel fits the process."""
        process = self.process
        if kernel.space != process.space:
            raise InputError(f"problem: the kernel has {kernel.space}, the process {process.space}")
        if isinstance(kernel, RateKernel) and kernel.process is not process:
            raise InputError("problem: the kernel belongs to another process")
        mask = kernel.mask
        token = process.token if isinstance(process, MixturePath) else None
        if mask is not None and mask != token:
            raise InputError(f"problem: the kernel's mask is {mask}, the process's noise {token}")

    def describe(self) -> dict[str, str]:
        """The parts as text: recorded, and compared when a run resumes."""
        return {
            "paths": describe_module(self.paths),
            "kernel": describe_module(self.build(0)),
            "objective": describe_module(self.objective),
        }


def describe_module(module: nn.Module) -> str:
    """A module's type, its ``extra_repr``, the shapes of its parameters, and its children.

    PyTorch's modules have other ``extra_repr`` in other versions, so theirs are left out.
    """
    foreign = type(module).__module__.startswith("torch.")
    shapes = ["x".join(map(str, p.shape)) for p in module.parameters(recurse=False)]
    own = [] if foreign else [" ".join(module.extra_repr().split())]
    children = [f"{name}={describe_module(child)}" for name, child in module.named_children()]
    return (
        f"{type(module).__name__}({', '.join(part for part in [*own, *shapes, *children] if part)})"
    )


@dataclass(frozen=True)
class Recipe:
    """AdamW with a cosine schedule, as in the paper's table of hyperparameters.

    Args:
        iterations: optimisation steps.
        batch: paths per step.
        learning_rate: at the first step.
        weight_decay: of AdamW.
        final_lr_fraction: last learning rate over the first.
        clip: largest gradient norm, per seed.
        ema_decay: decay of the exponential moving average (EMA) of the weights; 0 keeps none.
        tf32: matrix products in TensorFloat-32 on CUDA.
        bf16: networks in bfloat16; weights, laws and derivatives stay in float32.
        block: steps between records; paths are drawn a block at a time.
        accumulate: gradient accumulation steps per batch.
        muon_ratio: learning rate of inner matrices, by Muon, over that of AdamW; 0 uses AdamW.
        compiled: compile the step; None compiles if the run is long enough to gain from it.
    """

    iterations: int
    batch: int = 256
    learning_rate: float = 3e-4
    weight_decay: float = 1e-5
    final_lr_fraction: float = 0.01
    clip: float = 1.0
    ema_decay: float = 0.0
    tf32: bool = False
    bf16: bool = False
    block: int = 100
    accumulate: int = 1
    muon_ratio: float = 0.0
    compiled: bool | None = None

    def __post_init__(self) -> None:
        if min(self.iterations, self.batch, self.block, self.accumulate) < 1:
            raise InputError("recipe: iterations, batch, block and accumulate must be at least 1")
        if self.batch % self.accumulate:
            raise InputError(
                f"recipe: accumulate={self.accumulate} does not divide the batch of {self.batch}"
            )
        if not self.learning_rate > 0 or not self.clip > 0 or self.weight_decay < 0:
            raise InputError("recipe: learning rate and clip must be > 0, weight decay >= 0")
        if not 0 <= self.muon_ratio < math.inf:
            raise InputError(f"recipe: muon_ratio must be finite and >= 0, got {self.muon_ratio}")
        if not 0 <= self.ema_decay < 1:
            raise InputError(f"recipe: ema_decay must lie in [0, 1), got {self.ema_decay}")

    def learning_rate_at(self, step: float) -> float:
        """Cosine from ``learning_rate`` to ``final_lr_fraction`` of it."""
        fall = (1 + math.cos(math.pi * step / self.iterations)) / 2
        return self.learning_rate * (self.final_lr_fraction + (1 - self.final_lr_fraction) * fall)

    def ema_rate_at(self, step: int) -> float:
        """The weight of the new parameters in the EMA: large at first, then ``1 - ema_decay``."""
        return max(1 - self.ema_decay, 9 / (10 + step))

    def describe(self) -> dict[str, Any]:
        return asdict(self)
