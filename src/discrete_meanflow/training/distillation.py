"""The second stage of a soft kernel: learn in one step what the first does in many."""

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from discrete_meanflow.data.tokens import token_dtype
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.network import DiagonalNetwork
from discrete_meanflow.objective import OnCouples
from discrete_meanflow.process import Coupled, OneHotFlow
from discrete_meanflow.sampler import ODESampler, chunk_size
from discrete_meanflow.training.distributed import Distributed
from discrete_meanflow.training.problem import Problem, Recipe
from discrete_meanflow.training.trace import CompiledNetwork, can_compile
from discrete_meanflow.types import Point, State

ROUNDING = 1e-6  # of a difference of states in float32
MANY_LOOKS = 300  # at large lots; compiling takes as long as a hundred or so


def chunk_seed(seed: int, number: int) -> int:
    """The seed of a lot."""
    return int(numpy.random.SeedSequence([seed, number]).generate_state(1, numpy.uint64)[0] >> 1)


@dataclass(frozen=True)
class FlowMapDistillation:
    """``count`` draws of noise, each carried to its end in ``steps`` of the kernel's flow so far.

    A share ``whole`` of the couples are noise and its end, which is all that one step needs. The
    others are two states on the way, and make steps of any length agree with it.
    """

    count: int
    steps: int
    recipe: Recipe
    whole: float = 0.7

    def __post_init__(self) -> None:
        if self.count < 1 or self.steps < 1:
            raise InputError(f"coupling: needs couples and steps, got {self.count}, {self.steps}")
        if not 0 <= self.whole <= 1:
            raise InputError(f"coupling: the share of whole ways must lie in [0, 1]: {self.whole}")

    def problem(
        self,
        first: Problem,
        kernel: Kernel,
        seed: int,
        stopped: Callable[[float], bool] = lambda done: False,
        processes: Distributed | None = None,
    ) -> Problem:
        """The diagonal as before, and the couples beside it."""
        if not isinstance(first.process, OneHotFlow):
            raise InputError("coupling: is for soft states")
        process = self.couples(first.process, kernel, seed, stopped, processes)
        return replace(first, process=process, objective=OnCouples())

    def couples(
        self,
        process: OneHotFlow,
        kernel: Kernel,
        seed: int,
        stopped: Callable[[float], bool] = lambda done: False,
        processes: Distributed | None = None,
    ) -> Coupled:
        """Noise, some of it clamped as the process clamps, and where the kernel carries it.

        They follow from the kernel and the seed, up to the rounding of compiled code where there is
        much to do: nothing of them is saved when they are stopped. Processes make lots in turn and
        hand them to each other. ``stopped`` is asked after each round, and told what share is done.
        """
        here = processes or Distributed()
        count = math.ceil(self.count / chunk_size(process.length, process.states, kernel.network))
        size = math.ceil(self.count / count)  # all of one size: the code of one serves all
        compiled = self.worth_compiling(math.ceil(count / here.count), kernel.home.device)
        lots = self.lots(process, kernel, seed, size, compiled, here.rank, here.count)
        kept = self._room(process, kernel.home.device)
        for done in range(0, count, here.count):
            mine = next(lots) if done + here.rank < count else None
            for rank in range(min(here.count, count - done)):
                # Put in place one after the other: to join them would take twice the memory.
                place = slice((done + rank) * size, (done + rank + 1) * size)
                for i, whole in enumerate(kept):
                    if mine is not None and rank == here.rank:
                        whole[place] = mine[i][: len(whole[place])]
                    here.hand_out(whole[place], rank)
            if stopped(min(1.0, (done + here.count) / count)):
                raise Interrupted
        starts, ends, times, held = kept
        return Coupled(
            process.data, starts, ends, held, process.conditioning, times, process.minibatch_ot
        )

    def _room(self, process: OneHotFlow, device: torch.device) -> tuple[Tensor, ...]:
        """For all couples: ``X_r``, symbols, (r, t), which were held."""
        shape = (self.count, process.length)
        return (
            torch.empty(*shape, process.states, dtype=torch.half, device=device),
            torch.empty(shape, dtype=token_dtype(process.states), device=device),
            torch.empty(self.count, 2, device=device),
            torch.empty(shape, dtype=torch.bool, device=device),
        )

    @torch.no_grad()
    def lots(
        self,
        process: OneHotFlow,
        kernel: Kernel,
        seed: int,
        size: int,
        compiled: bool,
        first: int = 0,
        every: int = 1,
    ) -> Iterator[tuple[Point, State, Tensor, Tensor]]:
        """Couples without end, ``size`` at a time: ``X_r``, symbols, (r, t), which were held.

        Each lot has random numbers of its own, so that any of them can be made anywhere: these
        are number ``first`` and each ``every``-th after it.
        """
        # The diagonal is what has been learned: over short steps it stands for what is off it.
        network: nn.Module = DiagonalNetwork(kernel.network)
        diagonal = FlowMapKernel(CompiledNetwork(network) if compiled else network, process.states)
        flow = ODESampler(diagonal, self.steps)
        for number in itertools.count(first, every):
            g = torch.Generator(kernel.home.device).manual_seed(chunk_seed(seed, number))
            held = process.conditioning.sample((size,), process.length, g)
            x1 = process.data.sample((size,), g)
            start = process.hold(process.source((size, process.length), g), x1, held)
            with torch.autocast(g.device.type, torch.bfloat16, enabled=self.recipe.bf16):
                trajectory = flow.trajectory(start, held if process.conditioning.share else None)
                found = self._couple(diagonal, start, trajectory, start.new_tensor(flow.grid), g)
            yield (*found, held)

    def worth_compiling(self, lots: int, device: torch.device) -> bool:
        """Where it is asked for on a GPU; else where there is much to do and nobody forbids it."""
        asked, many = self.recipe.compiled, lots * self.steps >= MANY_LOOKS
        wanted = asked is not False and (many or (asked and device.type == "cuda"))
        return bool(wanted) and can_compile(device)

    def _couple(
        self,
        kernel: FlowMapKernel,
        start: Point,
        trajectory: Iterator[Point],
        times: Tensor,
        g: torch.Generator,
    ) -> tuple[Point, State, Tensor]:
        """``X_r``, a draw from the law that leads from it to ``X_t``, and (r, t).

        The law is ``q = X_r + (X_t - X_r)/alpha``; at t = 1 it is the end, and the end a symbol.
        """
        if self.whole == 1:
            end = deque(trajectory, maxlen=1)[0]
            return start.half(), kernel.decode(end), times[[0, -1]].expand(len(start), 2)
        chance = torch.rand(len(start), self.steps + 2, generator=g, device=g.device)
        first, last = chance[:, 1:].argsort(-1)[:, :2].sort(-1).values.unbind(-1)  # of the grid
        whole = chance[:, 0] < self.whole
        first, last = first.masked_fill(whole, 0), last.masked_fill(whole, self.steps)
        low = high = start
        for i, x in enumerate(trajectory, 1):
            low = torch.where((first == i)[:, None, None], x, low)
            high = torch.where((last == i)[:, None, None], x, high)
        r, t = times[first, None], times[last, None]
        alpha = kernel.schedule(r, t)[..., None]
        q = low + (high - low) / alpha
        q = q.where(q > ROUNDING / alpha, 0)
        drawn = torch.where(t == 1, kernel.decode(high), kernel.decode(q, g))
        return low.half(), drawn, torch.cat([r, t], -1)

    def describe(self) -> dict[str, Any]:
        words = {
            "count": self.count,
            "steps": self.steps,
            "order": 2,  # records made before say nothing of it: theirs is 1
            "recipe": self.recipe.describe(),
        }
        return words if self.whole == 1 else {**words, "whole": self.whole}
