"""Flow-map distillation: teach one step what the teacher does in many."""

import itertools
import math
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
from discrete_meanflow.objective import PairCrossEntropy
from discrete_meanflow.path import DataPaths, MixedPaths, TeacherPairs
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import ODESampler, TwoWayODE, chunk_size
from discrete_meanflow.simplex import delta
from discrete_meanflow.state import Continuous
from discrete_meanflow.times import OnDiagonal
from discrete_meanflow.training.distributed import Distributed
from discrete_meanflow.training.pair_report import PairReport, describe_pairs
from discrete_meanflow.training.problem import Problem, Recipe
from discrete_meanflow.training.trace import CompiledNetwork, can_compile
from discrete_meanflow.types import Point, Tokens

ROUNDING = 1e-6  # of a difference of states in float32
MANY_EVALUATIONS = 300  # of large chunks; compiling costs about a hundred
Chunk = tuple[Point, Tokens, Tensor, Tensor, Tensor]  # X_r, symbols, (r, t), observed, from data


def chunk_seed(seed: int, number: int) -> int:
    """The random seed of a chunk."""
    return int(numpy.random.SeedSequence([seed, number]).generate_state(1, numpy.uint64)[0] >> 1)


@dataclass(frozen=True)
class FlowMapDistillation:
    """A second training stage on teacher pairs.

    The teacher is the diagonal of the kernel trained so far. Its ODE maps noise to data in
    ``steps`` steps; the student learns the map at once. Pairs as in reflow (Liu et al. 2022,
    arXiv:2209.03003), for the flow map at all (r, t) (Boffi et al. 2024, arXiv:2406.07507).

    Pairs from noise repeat the teacher's faults. Pairs from data end in a training record: the ODE
    runs backward from the record with late noise, as in 2-rectified flow++ (Lee et al. 2024,
    arXiv:2405.20320). The exact diagonal leads them to normal noise.

    Args:
        pairs: number of teacher pairs.
        steps: ODE steps per trajectory.
        recipe: of the student's training.
        full_interval_fraction: fraction of pairs at (0, 1), which one-step generation needs. The
            others join two states inside a trajectory and keep several steps consistent.
        data_fraction: fraction of pairs from data.
    """

    pairs: int
    steps: int
    recipe: Recipe
    full_interval_fraction: float = 0.7
    data_fraction: float = 0.5

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.steps < 1:
            raise InputError(
                f"distillation: needs pairs >= 1 and steps >= 1, got {self.pairs}, {self.steps}"
            )
        fractions = {"(0, 1)": self.full_interval_fraction, "from data": self.data_fraction}
        for name, fraction in fractions.items():
            if not 0 <= fraction <= 1:
                raise InputError(
                    f"distillation: the fraction of pairs {name} must lie in [0, 1], got "
                    f"{fraction:g}"
                )

    def problem(
        self,
        first: Problem,
        teacher: Kernel,
        seed: int,
        stopped: Callable[[float], bool] = lambda done: False,
        distributed: Distributed | None = None,
    ) -> Problem:
        """The student's problem: half of each batch is data on the diagonal, half teacher pairs.

        Args:
            first: the teacher's problem.
            teacher: the trained kernel.
            seed: of the pairs.
            stopped: called with the finished fraction after each round of chunks; True interrupts.
            distributed: the ranks that share the work.
        """
        paths = _data_paths(first)
        times = paths.times
        on_diagonal = OnDiagonal(times.times if isinstance(times, OnDiagonal) else times)
        diagonal = DataPaths(paths.process, paths.data, on_diagonal, paths.conditioning)
        pairs = self.teacher_pairs(paths, teacher, seed, stopped, distributed)
        return replace(first, paths=MixedPaths(diagonal, pairs), objective=PairCrossEntropy())

    def report(self, problem: Problem, teacher: Kernel) -> PairReport:
        """Statistics of the teacher pairs of a student's problem."""
        pairs, data = TeacherPairs.among(problem.paths), problem.paths.parts[0]
        if not isinstance(data, DataPaths):
            raise InputError("distillation: the report needs the student's problem")
        kernel = _flow_map(teacher).with_network(DiagonalNetwork(teacher.network))
        with torch.autocast(teacher.device.type, torch.bfloat16, enabled=self.recipe.bf16):
            return describe_pairs(pairs, data.data, ODESampler(kernel, self.steps))

    def teacher_pairs(
        self,
        paths: DataPaths,
        teacher: Kernel,
        seed: int,
        stopped: Callable[[float], bool] = lambda done: False,
        distributed: Distributed | None = None,
    ) -> TeacherPairs:
        """Integrate noise and data along the teacher's ODE, observing positions as in the paths.

        Pairs are a function of teacher and seed, up to the rounding of compiled code: an
        interrupted run makes them again. Ranks make chunks in turn and exchange them.
        """
        ranks, process = distributed or Distributed(), _one_hot_flow(paths)
        count = math.ceil(self.pairs / chunk_size(paths.length, process.states, teacher.network))
        size = math.ceil(self.pairs / count)  # equal sizes, so that compiled code serves all
        compiled = self.worth_compiling(math.ceil(count / ranks.world_size), teacher.device)
        chunks = self.chunks(paths, teacher, seed, size, compiled, ranks.rank, ranks.world_size)
        stores = self._stores(paths, process.space, teacher.device)
        for done in range(0, count, ranks.world_size):
            mine = next(chunks) if done + ranks.rank < count else None
            for rank in range(min(ranks.world_size, count - done)):
                # Written in place: concatenation would double the memory.
                place = slice((done + rank) * size, (done + rank + 1) * size)
                for i, store in enumerate(stores):
                    if mine is not None and rank == ranks.rank:
                        store[place] = mine[i][: len(store[place])]
                    ranks.broadcast(store[place], rank)
            if stopped(min(1.0, (done + ranks.world_size) / count)):
                raise Interrupted
        starts, ends, times, observed, from_data = stores
        observed_pairs = observed if paths.conditioned else None
        return TeacherPairs(process, starts, ends, times, observed_pairs, from_data)

    def _stores(self, paths: DataPaths, space: Continuous, device: torch.device) -> Chunk:
        """Memory for all pairs."""
        shape, states = (self.pairs, paths.length), space.size
        # Networks see sums of the noise of ordered symbols, which half precision would blur.
        precision = torch.float if space.ordered else torch.half
        return (
            torch.empty(*shape, states, dtype=precision, device=device),
            torch.empty(shape, dtype=token_dtype(states), device=device),
            torch.empty(self.pairs, 2, device=device),
            torch.empty(shape, dtype=torch.bool, device=device),
            torch.empty(self.pairs, dtype=torch.bool, device=device),
        )

    @torch.no_grad()
    def chunks(
        self,
        paths: DataPaths,
        teacher: Kernel,
        seed: int,
        size: int,
        compiled: bool,
        first: int = 0,
        every: int = 1,
    ) -> Iterator[Chunk]:
        """An endless iterator of chunks number ``first``, ``first + every``, ...

        Each chunk has its own random numbers, so any rank can make any chunk.
        """
        process = _one_hot_flow(paths)
        network: nn.Module = DiagonalNetwork(teacher.network)
        network = CompiledNetwork(network) if compiled else network
        diagonal = _flow_map(teacher).with_network(network)
        # Row by row, so that every part of a chunk has its share.
        share = (torch.arange(size + 1, device=teacher.device) * self.data_fraction).floor()
        ode = TwoWayODE(diagonal, self.steps, share.diff() > 0)
        for number in itertools.count(first, every):
            g = torch.Generator(teacher.device).manual_seed(chunk_seed(seed, number))
            observed = paths.conditioning.sample((size,), paths.length, g)
            x1 = paths.data.sample((size,), g)
            start = ode.start(process, x1, observed, g)
            condition = (x1, observed) if paths.conditioned else (None, None)
            with torch.autocast(g.device.type, torch.bfloat16, enabled=self.recipe.bf16):
                trajectory = ode.trajectory(start, g, *condition)
                pair = self._pair(diagonal, ode, start, x1, trajectory, g)
            yield (*pair, observed, ode.backward)

    def worth_compiling(self, chunks: int, device: torch.device) -> bool:
        """If the recipe asks for it on a GPU, or if there are many evaluations and it allows it."""
        asked, many = self.recipe.compiled, chunks * self.steps >= MANY_EVALUATIONS
        compiled = asked is not False and (many or (asked and device.type == "cuda"))
        return bool(compiled) and can_compile(device)

    def _pair(
        self,
        kernel: FlowMapKernel,
        ode: TwoWayODE,
        start: Point,
        x1: Tokens,
        trajectory: Iterator[Point],
        g: torch.Generator,
    ) -> tuple[Point, Tokens, Tensor]:
        """``X_r``, a draw from the law that leads from it to ``X_t``, and (r, t).

        The law is ``q = X_r + (X_t - X_r)/alpha``; at t = 1 the endpoint is decoded instead.
        Trajectories from data end in x1.
        """
        u = torch.rand(len(start), self.steps + 2, generator=g, device=g.device)
        first, last = u[:, 1:].argsort(-1)[:, :2].sort(-1).values.unbind(-1)  # places on the grid
        full = u[:, 0] < self.full_interval_fraction
        full[:1] |= self.full_interval_fraction > 0  # distribution matching needs one such pair
        first, last = first.masked_fill(full, 0), last.masked_fill(full, self.steps)
        from_data = ode.backward[:, None]
        record = delta(x1, start.shape[-1], start.dtype)
        low = high = torch.where(from_data[..., None], record, start)
        for i, x in enumerate(trajectory, 1):
            low = torch.where((first == ode.places(i))[:, None, None], x, low)
            high = torch.where((last == ode.places(i))[:, None, None], x, high)
        r, t = ode.place_times(torch.stack([first, last], -1)).split(1, -1)
        alpha = kernel.schedule(r, t)[..., None]
        q = low + (high - low) / alpha
        q = q.where(q > ROUNDING / alpha, 0)
        symbols = torch.where(t == 1, kernel.decode(high), kernel.decode(q, g))
        return low, symbols, torch.cat([r, t], -1)

    def describe(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "steps": self.steps,
            "solver": "Adams-Bashforth",
            "full_interval_fraction": self.full_interval_fraction,
            "data_fraction": self.data_fraction,
            "recipe": self.recipe.describe(),
        }


def _data_paths(problem: Problem) -> DataPaths:
    if not isinstance(problem.paths, DataPaths):
        raise InputError("distillation: needs a problem on data, with DataPaths")
    return problem.paths


def _flow_map(teacher: Kernel) -> FlowMapKernel:
    if not isinstance(teacher, FlowMapKernel):
        raise InputError("distillation: the teacher must be a FlowMapKernel")
    return teacher


def _one_hot_flow(paths: DataPaths) -> OneHotFlow:
    if not isinstance(paths.process, OneHotFlow):
        raise InputError("distillation: needs the process OneHotFlow")
    return paths.process
