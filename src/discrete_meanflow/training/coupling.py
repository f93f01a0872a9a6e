"""The second stage of a soft kernel: learn in one step what the first does in many."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.kernel import Kernel, SoftKernel
from discrete_meanflow.network import SingleTime
from discrete_meanflow.objective import OnCouples, PosteriorRegression
from discrete_meanflow.process import Coupled, Soft
from discrete_meanflow.sampler import KernelSampler, lot_size
from discrete_meanflow.training.problem import Problem, Recipe


@dataclass(frozen=True)
class Coupling:
    """``count`` draws of noise, each carried to its end in ``steps`` by the kernel so far."""

    count: int
    steps: int
    recipe: Recipe

    def __post_init__(self) -> None:
        if self.count < 1 or self.steps < 1:
            raise InputError(f"coupling: needs couples and steps, got {self.count}, {self.steps}")

    def problem(
        self,
        first: Problem,
        kernel: Kernel,
        seed: int,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Problem:
        """The diagonal as before, and the couples beside it."""
        if not isinstance(first.process, Soft):
            raise InputError("coupling: is for soft states")
        process = self.couples(first.process, kernel, seed, stopped)
        return replace(first, process=process, objective=OnCouples(PosteriorRegression()))

    @torch.no_grad()
    def couples(
        self,
        process: Soft,
        kernel: Kernel,
        seed: int,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Coupled:
        """Noise, some of it clamped as the process clamps, and where the kernel carries it.

        They follow from the kernel and the seed: nothing of them is saved when they are stopped.
        """
        g = torch.Generator(kernel.home.device).manual_seed(seed)
        # The diagonal is what has been learned: over short steps it stands for what is off it.
        diagonal = SoftKernel(SingleTime(kernel.network), process.states)
        sampler = KernelSampler.steps(diagonal, self.steps)
        parts = []
        lot = lot_size(process.length, process.states)
        for done in range(0, self.count, lot):
            shape = (min(lot, self.count - done),)
            held = process.clamps.sample(shape, process.length, g)
            x1 = process.data.sample(shape, g)
            start = process.hold(process.source((*shape, process.length), g), x1, held)
            with torch.autocast(g.device.type, torch.bfloat16, enabled=self.recipe.bf16):
                ends = sampler.sample(start, g, clamped=held if process.clamps.share else None)
            parts.append((start.half(), ends, held))
            if stopped():
                raise Interrupted
        starts, ends, held = (torch.cat(each) for each in zip(*parts, strict=True))
        return Coupled(process.data, starts, ends, held, process.clamps)

    def describe(self) -> dict[str, Any]:
        return {"count": self.count, "steps": self.steps, "recipe": self.recipe.describe()}
