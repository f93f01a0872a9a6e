"""The training loop."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.network.transformer import quick_attention
from discrete_meanflow.objective import OnCouples
from discrete_meanflow.process import PathSample
from discrete_meanflow.training.distributed import Distributed
from discrete_meanflow.training.ensemble import SeedEnsemble, clipped
from discrete_meanflow.training.muon import Muon, inner_matrices
from discrete_meanflow.training.problem import Problem, Recipe
from discrete_meanflow.training.trace import (
    COMPILE_FROM,
    LONG_GRAPH,
    TRACE_FROM,
    can_compile,
    compiled,
    split_long_sums,
    trace,
)

# Positions per seed from which a step fills a CPU by itself: stacked seeds would only share
# its cores unevenly.
LARGE_STEP = 2048
EXCLUSIVE = threading.Lock()  # trainers in threads trace and capture one at a time
Stacked = dict[str, Tensor]
Gradient = Callable[[Stacked, Stacked, PathSample], tuple[Tensor, Stacked]]
Drawn = tuple[PathSample, list[torch.Generator]]  # and the generators as they are after it


class Aside(threading.local):
    """The streams on which a thread draws ahead, one for all its trainers: torch has 32, and then
    deals them out again."""

    def __init__(self) -> None:
        self.streams: dict[torch.device, torch.cuda.Stream] = {}


ASIDE = Aside()


class NotFiniteError(InputError):
    """A loss that is no number."""

    def __init__(self, loss: float, step: int, seed: int) -> None:
        self.loss, self.step = loss, step
        super().__init__(
            f"the loss is {loss} at step {step} of seed {seed}: training has come apart; lower the "
            "learning rate, or make the network smaller"
        )


@dataclass(frozen=True)
class BlockRecord:
    """What a block of steps reports."""

    iteration: int  # steps done so far
    loss: list[float]  # mean over the block, one per seed
    seconds: float  # training time so far, over all sessions


class Trainer:
    """Trains one kernel per seed, side by side.

    All state of the loop is here: parameters, optimiser, generators, iteration. A checkpoint
    taken between blocks holds all of it, so a resumed run is the run itself.
    """

    def __init__(
        self,
        problem: Problem,
        recipe: Recipe,
        seeds: Sequence[int],
        device: torch.device | str = "cpu",
        start: Sequence[Kernel] | None = None,
        processes: Distributed | None = None,
    ) -> None:
        """start: kernels trained before, one per seed, whose parameters are taken over.
        processes: those among which each batch is shared; by default this one alone."""
        if not seeds or len(set(seeds)) != len(seeds):
            raise InputError(f"trainer: needs distinct seeds, got {list(seeds)}")
        self.problem, self.recipe, self.seeds = problem, recipe, list(seeds)
        self.processes = processes or Distributed()
        if self.shared:
            self.processes.check(recipe.batch // recipe.accumulate)
        at_once = recipe.batch // recipe.accumulate
        halved = at_once % 2 == 0 or (recipe.accumulate == 1 and at_once > 1)
        if isinstance(problem.objective, OnCouples) and not halved:
            raise InputError(f"trainer: couples are half of a batch; {at_once} have no half")
        self.device = torch.device(device)
        problem.process.to(self.device)
        self.stack = SeedEnsemble(problem, seeds, self.device, recipe.ema_decay > 0, recipe.bf16)
        if start is not None:
            self.stack.start_from(start)
        self.parameters = self.stack.parameters
        self.ema = {name: p.clone() for name, p in self.parameters.items() if recipe.ema_decay > 0}
        self.generators = [torch.Generator(self.device).manual_seed(seed) for seed in seeds]
        self.learning_rate = torch.tensor(recipe.learning_rate, device=self.device)
        inner = inner_matrices(self.stack.kernels[0]) if recipe.muon_ratio else set()
        if recipe.muon_ratio and not inner:
            raise InputError("recipe: Muon is for networks with an nn.ModuleList of layers")
        self.optimiser = Muon(  # AdamW, where it is given no matrices
            self.parameters.values(),
            [p for name, p in self.parameters.items() if name in inner],
            recipe.muon_ratio,
            lr=self.learning_rate,
            weight_decay=recipe.weight_decay,
            fused=True,
            capturable=self.device.type == "cuda",
        )
        self.iteration = 0
        self.seconds = 0.0

    def blocks(self) -> Iterator[BlockRecord]:
        """Train to the end, a record after each block. The whole loop."""
        run: Callable[[PathSample, Tensor], Tensor] | None = None
        ahead: Drawn | None = None
        aside = self._aside()
        while self.iteration < self.recipe.iterations:
            started = time.perf_counter()
            objective = self.problem.objective.at(self.iteration / self.recipe.iterations)
            if objective is not self.stack.step.objective:
                self.stack.step.objective, run = objective, None
            paths, self.generators = ahead or self._next_block(self.iteration)
            steps = len(paths.x)
            rates = torch.tensor(
                [
                    (self.recipe.learning_rate_at(i), self.recipe.ema_rate_at(i))
                    for i in range(self.iteration, self.iteration + steps)
                ],
                device=self.device,
            )
            # A captured step is bound to its block's size; only the last may be shorter.
            if run is None or (isinstance(run, CapturedBlock) and steps < self.recipe.block):
                run = self._prepared(paths, rates)
            with _tf32(self.recipe.tf32) if self.shared else contextlib.nullcontext():
                losses = run(paths, rates)  # (steps, seeds)
            ahead = self._ahead(self.iteration + steps, aside)
            losses = losses.cpu()
            self._check(losses)
            self.iteration += steps
            self.seconds += time.perf_counter() - started
            yield BlockRecord(self.iteration, losses.mean(0).tolist(), self.seconds)

    def kernels(self) -> list[Kernel]:
        """The kernels as they are now, one per seed: the running ema, if one is kept."""
        return self.stack.members(self.ema or self.parameters)

    def _aside(self) -> torch.cuda.Stream | None:
        """A stream beside that of the steps, on a GPU; what was put there before, it finds done."""
        if self.device.type != "cuda":
            return None
        if self.device not in ASIDE.streams:
            ASIDE.streams[self.device] = torch.cuda.Stream(self.device)
        stream = ASIDE.streams[self.device]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        return stream

    def _ahead(self, iteration: int, aside: torch.cuda.Stream | None) -> Drawn | None:
        """The block that begins there, if one does, drawn while a GPU is at the steps before it.

        On a stream of its own, since drawing waits, now and then, for what it has drawn so far.
        """
        if aside is None or iteration >= self.recipe.iterations:
            return None
        with torch.cuda.stream(aside):
            drawn = self._next_block(iteration)
        torch.cuda.current_stream(self.device).wait_stream(aside)
        return drawn

    def _next_block(self, iteration: int) -> Drawn:
        """The trainer's own generators stay as they are until a block is trained on: what a
        checkpoint keeps of them is from before."""
        generators = [g.clone_state() for g in self.generators]
        steps = min(self.recipe.block, self.recipe.iterations - iteration)
        return self._draw(steps, generators), generators

    def _draw(self, steps: int, generators: Sequence[torch.Generator]) -> PathSample:
        """Paths for a block: every tensor ``(steps, seeds, batch, ...)``."""
        shape = (steps, self.recipe.batch)
        drawn = [self.problem.paths(shape, g) for g in generators]
        whole = (torch.stack(parts, 1) for parts in zip(*drawn, strict=True))
        return PathSample(*(self.processes.share(part, 2) for part in whole))

    @property
    def shared(self) -> bool:
        """Whether a step's gradient comes in pieces: from processes, or one after the other."""
        return self.processes.count > 1 or self.recipe.accumulate > 1

    def _gathered(self, step: Gradient) -> Gradient:
        """The clipped mean of the gradients of all pieces of a batch."""
        pieces, processes, clip = self.recipe.accumulate, self.processes, self.recipe.clip

        def gradient(parameters: Stacked, ema: Stacked, path: PathSample) -> tuple[Tensor, Stacked]:
            found = [
                step(parameters, ema, PathSample(*(a[:, i::pieces] for a in path)))
                for i in range(pieces)
            ]
            losses, gradients = tree_map(lambda *parts: sum(parts) / pieces, *found)
            if processes.count > 1:
                losses, *means = processes.mean([losses, *gradients.values()])
                gradients = dict(zip(gradients, means, strict=True))
            return losses, clipped(gradients, clip)

        return gradient

    def _prepared(self, paths: PathSample, rates: Tensor) -> Callable[[PathSample, Tensor], Tensor]:
        length = getattr(self.problem.process, "length", 1)
        quick = quick_attention(self.stack.kernels[0], length)
        with EXCLUSIVE, _tf32(self.recipe.tf32), quick:
            return self._runner(paths, rates)

    def _runner(self, paths: PathSample, rates: Tensor) -> Callable[[PathSample, Tensor], Tensor]:
        """The code that steps through a block: compiled where that pays, captured on CUDA."""
        clip = self.recipe.clip

        def gradient(parameters: Stacked, ema: Stacked, path: PathSample) -> tuple[Tensor, Stacked]:
            if self.shared:
                return self.stack.gradient(parameters, ema, path)
            return self.stack.clipped_gradient(parameters, ema, path, clip)

        first = _at(paths, 0)
        if self.shared:
            first = PathSample(*(a[:, :: self.recipe.accumulate] for a in first))
        in_turn = self.device.type == "cpu" and first.x[0].numel() >= LARGE_STEP
        long = self.recipe.iterations >= COMPILE_FROM
        compile = long if self.recipe.compiled is None else self.recipe.compiled
        if self.device.type == "cpu" and not compile and self.recipe.iterations < TRACE_FROM:
            plain = _one_by_one(gradient, len(self.seeds)) if in_turn else gradient
            return self._stepwise(self._gathered(plain) if self.shared else plain)
        members = 1 if in_turn else len(self.seeds)
        example = tree_map(lambda a: a[:members], (self.parameters, self.ema, first))
        worth_it = compile and can_compile(self.device)
        graph = trace(gradient, *example, fused=worth_it)
        if self.device.type == "cuda":
            short = self.recipe.compiled is None and len(graph.graph.nodes) < LONG_GRAPH
            if worth_it and short:
                worth_it, graph = False, trace(gradient, *example)
            graph = split_long_sums(graph)
        step: Gradient = compiled(graph) if worth_it else graph
        if in_turn:
            step = _one_by_one(step, len(self.seeds))
        if self.shared:
            return self._stepwise(self._gathered(step))
        if self.device.type == "cuda":
            return CapturedBlock(self, step, paths, rates)
        return self._stepwise(step)

    def _stepwise(self, step: Gradient) -> Callable[[PathSample, Tensor], Tensor]:
        def run(paths: PathSample, rates: Tensor) -> Tensor:
            return torch.stack(
                [self._advance(step, _at(paths, i), rates[i]) for i in range(len(rates))]
            )

        return run

    @torch.no_grad()
    def _advance(self, gradient: Gradient, path: PathSample, rates: Tensor) -> Tensor:
        """One optimisation step for all seeds; the losses before it, ``(seeds,)``.

        rates: ``(2,)``, those of the optimiser and of the ema.
        """
        losses, gradients = gradient(self.parameters, self.ema, path)
        for name, p in self.parameters.items():
            p.grad = gradients[name]
        self.learning_rate.copy_(rates[0])
        self.optimiser.step()
        self._update_ema(rates[1])
        return losses

    def _update_ema(self, pace: Tensor) -> None:
        """``ema <- ema + pace (parameters - ema)``."""
        averages = list(self.ema.values())
        parameters = [self.parameters[name] for name in self.ema]
        if averages and self.device.type == "cuda":  # all in a few launches
            ways = torch._foreach_sub(parameters, averages)
            torch._foreach_mul_(ways, pace)
            torch._foreach_add_(averages, ways)
            return
        for ema, p in zip(averages, parameters, strict=True):
            ema.lerp_(p, pace)

    def _check(self, losses: Tensor) -> None:
        bad = (~losses.isfinite()).nonzero()
        if len(bad):
            step, member = bad[0].tolist()
            loss, seed = losses[step, member].item(), self.seeds[member]
            raise NotFiniteError(loss, self.iteration + step + 1, seed)


def _one_by_one(step: Gradient, seeds: int) -> Gradient:
    """The gradients of all seeds from a step that takes one at a time."""

    def gradient(parameters: Stacked, ema: Stacked, path: PathSample) -> tuple[Tensor, Stacked]:
        given = (parameters, ema, path)
        found = [step(*tree_map(lambda a, i=i: a[i : i + 1], given)) for i in range(seeds)]
        return tree_map(lambda *parts: torch.cat(parts), *found)

    return gradient


def train(
    problem: Problem,
    recipe: Recipe,
    seed: int = 0,
    device: torch.device | str = "cpu",
    start: Kernel | None = None,
) -> Kernel:
    """Train one kernel to the end, from the weights of ``start`` if given, and return it."""
    trainer = Trainer(problem, recipe, [seed], device, None if start is None else [start])
    for _ in trainer.blocks():
        pass
    return trainer.kernels()[0]


class CapturedBlock:
    """A training step recorded once as a CUDA graph and replayed: no launch costs, no Python.

    The graph reads step ``index`` of a block held in fixed memory and moves the index on.
    """

    def __init__(
        self, trainer: Trainer, gradient: Gradient, paths: PathSample, rates: Tensor
    ) -> None:
        self.paths: PathSample = tree_map(torch.clone, paths)
        self.rates = rates.clone()
        self.index = torch.zeros(1, dtype=torch.long, device=rates.device)
        self.losses = torch.empty(len(rates), len(trainer.seeds), device=rates.device)

        def step() -> None:
            path = tree_map(lambda a: a.index_select(0, self.index)[0], self.paths)
            rates = self.rates.index_select(0, self.index)[0]
            losses = trainer._advance(gradient, path, rates)
            self.losses.index_copy_(0, self.index, losses[None])
            self.index += 1

        # Capture needs warm-up steps; they must leave no trace in the training state.
        weights = [*trainer.parameters.values(), *trainer.ema.values()]
        before = [p.clone() for p in weights]
        # Capture on a stream of its own; a thread that has one already keeps to it, so that
        # no other thread draws or allocates on a stream that is being captured.
        here = torch.cuda.current_stream()
        stream = torch.cuda.Stream() if here == torch.cuda.default_stream() else here
        stream.wait_stream(here)
        fresh = not trainer.optimiser.state
        state = [tree_map(torch.clone, dict(s)) for s in trainer.optimiser.state.values()]
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.index.zero_()
                step()
        here.wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.index.zero_()
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
            step()
        with torch.no_grad():
            for p, value in zip(weights, before, strict=True):
                p.copy_(value)
            for i, slots in enumerate(trainer.optimiser.state.values()):
                for name, slot in slots.items():
                    slot.zero_() if fresh else slot.copy_(state[i][name])

    def __call__(self, paths: PathSample, rates: Tensor) -> Tensor:
        tree_map(lambda held, new: held.copy_(new), self.paths, paths)
        self.rates.copy_(rates)
        self.index.zero_()
        for _ in range(len(rates)):
            self.graph.replay()
        return self.losses


@contextlib.contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """What a captured step computes with is decided while it is captured."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _at(paths: PathSample, i: int) -> PathSample:
    return tree_map(lambda a: a[i], paths)
