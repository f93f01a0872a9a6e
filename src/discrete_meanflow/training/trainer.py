"""The training loop."""

import contextlib
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.network.transformer import quick_attention
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

LARGE_STEP = 2048  # numbers per seed from which one seed alone keeps a CPU busy
EXCLUSIVE = threading.Lock()  # trainers in threads trace and capture one at a time
Stacked = dict[str, Tensor]
Gradient = Callable[[Stacked, Stacked, PathSample], tuple[Tensor, Stacked]]
Block = tuple[PathSample, list[torch.Generator]]  # paths, and the generators after drawing them


class PrefetchStreams(threading.local):
    """The CUDA streams on which a thread prefetches, one per device for all its trainers.

    Torch has a pool of 32 streams and reuses them after that."""

    def __init__(self) -> None:
        self.streams: dict[torch.device, torch.cuda.Stream] = {}


PREFETCH = PrefetchStreams()


class NotFiniteError(InputError):
    """A loss that is NaN or infinite."""

    def __init__(self, loss: float, step: int, seed: int) -> None:
        self.loss, self.step = loss, step
        super().__init__(
            f"the loss is {loss} at step {step} of seed {seed}: training diverged; lower the "
            "learning rate or use a smaller network"
        )


@dataclass(frozen=True)
class BlockRecord:
    """The record of a block of steps."""

    iteration: int  # steps done so far
    loss: list[float]  # mean over the block, one per seed
    first_loss: list[float]  # of its first step
    seconds: float  # training time so far, over all sessions


class Trainer:
    """Trains one kernel per seed, all in one loop.

    It holds the whole state of the loop: parameters, optimiser, generators, iteration. A checkpoint
    between blocks contains all of it, so a resumed run equals an uninterrupted one.

    Args:
        problem: what to train.
        recipe: how to train it.
        seeds: one kernel each.
        device: where to train.
        start: trained kernels, one per seed, whose parameters are taken over.
        distributed: the ranks that share each batch; one by default.
    """

    def __init__(
        self,
        problem: Problem,
        recipe: Recipe,
        seeds: Sequence[int],
        device: torch.device | str = "cpu",
        start: Sequence[Kernel] | None = None,
        distributed: Distributed | None = None,
    ) -> None:
        if not seeds or len(set(seeds)) != len(seeds):
            raise InputError(f"trainer: needs distinct seeds, got {list(seeds)}")
        self.problem, self.recipe, self.seeds = problem, recipe, list(seeds)
        self.distributed = distributed or Distributed()
        self.distributed.check(recipe.batch // recipe.accumulate)
        self._check_parts()
        self.device = torch.device(device)
        problem.paths.to(self.device)
        self.stack = SeedEnsemble(problem, seeds, self.device, recipe.ema_decay > 0, recipe.bf16)
        if start is not None:
            self.stack.start_from(start)
        self.parameters = self.stack.parameters
        self.ema = {name: p.clone() for name, p in self.parameters.items() if recipe.ema_decay > 0}
        self.generators = [torch.Generator(self.device).manual_seed(seed) for seed in seeds]
        inner = inner_matrices(self.stack.kernels[0]) if recipe.muon_ratio else set()
        if recipe.muon_ratio and not inner:
            raise InputError("recipe: Muon needs a network with an nn.ModuleList of layers")
        self.optimiser = Muon(  # equals AdamW if there are no matrices
            self._groups(),
            [p for name, p in self.parameters.items() if name in inner],
            recipe.muon_ratio,
            weight_decay=recipe.weight_decay,
            fused=True,
            capturable=self.device.type == "cuda",
        )
        self.iteration = 0
        self.seconds = 0.0
        self.revised_at = 0, 0.0  # step, and its place on the schedule

    def revise(self, iterations: int) -> None:
        """Change the number of steps. The schedule goes on from its place, slower or faster."""
        reached = self.place(self.iteration) / self.recipe.iterations
        self.revision = iterations, self.iteration, reached * iterations

    @property
    def revision(self) -> tuple[int, int, float] | None:
        """The revised number of steps, the step of the revision and its place; None if planned."""
        return (self.recipe.iterations, *self.revised_at) if self.revised_at[0] else None

    @revision.setter
    def revision(self, revision: tuple[int, int, float] | None) -> None:
        if revision is not None:
            iterations, step, place = revision
            self.revised_at = step, place
            self.recipe = replace(self.recipe, iterations=iterations)

    def place(self, step: int) -> float:
        """The place of a step on the schedule, which has as many places as there are steps."""
        (first, start), last = self.revised_at, self.recipe.iterations
        return start + (last - start) * (step - first) / (last - first)

    def _check_parts(self) -> None:
        """Raise unless each rank's share of a batch has equal parts."""
        recipe, objective = self.recipe, self.problem.objective
        count = recipe.accumulate * self.distributed.world_size
        share = recipe.batch // count
        parts = len(self.problem.paths.parts)
        if share < parts or (objective.needs.parts and share % parts):
            raise InputError(
                f"recipe: {type(objective).__name__} needs a batch that {parts * count} divides "
                f"({parts} parts, accumulate={recipe.accumulate}, "
                f"{self.distributed.world_size} ranks), got {recipe.batch}"
            )

    def _groups(self) -> list[dict[str, Any]]:
        """Parameter groups: one per learning rate relative to the recipe's."""
        by_scale: dict[float, list[Tensor]] = defaultdict(list)
        for name, p in self.parameters.items():
            by_scale[self.stack.kernels[0].learning_rate_scale(name)].append(p)
        rate = self.recipe.learning_rate
        return [
            {"params": part, "lr": torch.tensor(rate * scale, device=self.device), "scale": scale}
            for scale, part in by_scale.items()
        ]

    def blocks(self) -> Iterator[BlockRecord]:
        """The training loop: train to the end and yield a record after each block."""
        run: Callable[[PathSample, Tensor], Tensor] | None = None
        prefetched: Block | None = None
        stream = self._prefetch_stream()
        while self.iteration < self.recipe.iterations:
            started = time.perf_counter()
            objective = self.problem.objective.at(
                self.place(self.iteration) / self.recipe.iterations
            )
            if objective is not self.stack.step.objective:
                self.stack.step.objective, run = objective, None
            paths, self.generators = prefetched or self._next_block(self.iteration)
            steps = len(paths.x)
            rates = torch.tensor(
                [
                    (self.recipe.learning_rate_at(self.place(i)), self.recipe.ema_rate_at(i))
                    for i in range(self.iteration, self.iteration + steps)
                ],
                device=self.device,
            )
            # A captured step has a fixed block size; only the last block may be shorter.
            if run is None or (isinstance(run, CapturedBlock) and steps < self.recipe.block):
                run = self._prepared(paths, rates)
            with _tf32(self.recipe.tf32) if self.accumulates else contextlib.nullcontext():
                losses = run(paths, rates)  # (steps, seeds)
            prefetched = self._prefetch(self.iteration + steps, stream)
            losses = losses.cpu()
            self._check(losses)
            self.iteration += steps
            self.seconds += time.perf_counter() - started
            mean, first = losses.mean(0).tolist(), losses[0].tolist()
            yield BlockRecord(self.iteration, mean, first, self.seconds)

    def kernels(self) -> list[Kernel]:
        """The current kernels, one per seed, with EMA weights if there is an EMA."""
        return self.stack.members(self.ema or self.parameters)

    def _prefetch_stream(self) -> torch.cuda.Stream | None:
        """On a GPU, a second stream that waits for all work submitted so far."""
        if self.device.type != "cuda":
            return None
        if self.device not in PREFETCH.streams:
            PREFETCH.streams[self.device] = torch.cuda.Stream(self.device)
        stream = PREFETCH.streams[self.device]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        return stream

    def _prefetch(self, iteration: int, stream: torch.cuda.Stream | None) -> Block | None:
        """Draw the block that starts at an iteration while the GPU runs the steps before it.

        On a second stream, because drawing sometimes synchronises with its own work.
        """
        if stream is None or iteration >= self.recipe.iterations:
            return None
        with torch.cuda.stream(stream):
            block = self._next_block(iteration)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return block

    def _next_block(self, iteration: int) -> Block:
        """Draw a block with copies of the generators: a checkpoint must hold those before it."""
        generators = [g.clone_state() for g in self.generators]
        steps = min(self.recipe.block, self.recipe.iterations - iteration)
        return self._draw(steps, generators), generators

    def _draw(self, steps: int, generators: Sequence[torch.Generator]) -> PathSample:
        """Paths for a block: every tensor ``(steps, seeds, batch, ...)``."""
        shape = (steps, self.recipe.batch)
        batches = [self.problem.sample(shape, g) for g in generators]
        paths = tree_map(lambda *tensors: torch.stack(tensors, 1), *batches)
        return tree_map(lambda tensor: self.distributed.part(tensor, 2), paths)

    @property
    def accumulates(self) -> bool:
        """Whether a gradient is a mean of several: over ranks or over parts of the batch."""
        return self.distributed.world_size > 1 or self.recipe.accumulate > 1

    def _mean_gradient(self, step: Gradient) -> Gradient:
        """The clipped mean of the gradients of all parts of a batch."""
        parts, ranks, clip = self.recipe.accumulate, self.distributed, self.recipe.clip

        def gradient(parameters: Stacked, ema: Stacked, path: PathSample) -> tuple[Tensor, Stacked]:
            results = [
                step(parameters, ema, PathSample(*(a[:, i::parts] for a in path)))
                for i in range(parts)
            ]
            losses, gradients = tree_map(lambda *values: sum(values) / parts, *results)
            if ranks.world_size > 1:
                losses, *means = ranks.mean([losses, *gradients.values()])
                gradients = dict(zip(gradients, means, strict=True))
            return losses, clipped(gradients, clip)

        return gradient

    def _prepared(self, paths: PathSample, rates: Tensor) -> Callable[[PathSample, Tensor], Tensor]:
        quick = quick_attention(self.stack.kernels[0], self.problem.paths.length)
        with EXCLUSIVE, _tf32(self.recipe.tf32), quick:
            return self._runner(paths, rates)

    def _runner(self, paths: PathSample, rates: Tensor) -> Callable[[PathSample, Tensor], Tensor]:
        """The function that trains on a block: compiled if that pays, captured on CUDA."""
        clip = self.recipe.clip

        def gradient(parameters: Stacked, ema: Stacked, path: PathSample) -> tuple[Tensor, Stacked]:
            if self.accumulates:
                return self.stack.gradient(parameters, ema, path)
            return self.stack.clipped_gradient(parameters, ema, path, clip)

        first = _at(paths, 0)
        if self.accumulates:
            first = PathSample(*(a[:, :: self.recipe.accumulate] for a in first))
        in_turn = self.device.type == "cpu" and first.x[0].numel() >= LARGE_STEP
        long = self.recipe.iterations >= COMPILE_FROM
        compile = long if self.recipe.compiled is None else self.recipe.compiled
        plain = _one_by_one(gradient, len(self.seeds)) if in_turn else gradient
        eager = self._stepwise(self._mean_gradient(plain) if self.accumulates else plain)
        if self.device.type == "cpu" and not compile and self.recipe.iterations < TRACE_FROM:
            return eager
        members = 1 if in_turn else len(self.seeds)
        example = tree_map(lambda a: a[:members], (self.parameters, self.ema, first))
        worth_it = compile and can_compile(self.device)
        try:
            graph = trace(gradient, *example, fused=worth_it)
        except Exception as error:  # of PyTorch or of the network: the eager step shows the latter
            _warn_untraced(self.stack.kernels[0], error)
            return eager
        if self.device.type == "cuda":
            short = self.recipe.compiled is None and len(graph.graph.nodes) < LONG_GRAPH
            if worth_it and short:
                worth_it, graph = False, trace(gradient, *example)
            graph = split_long_sums(graph)
        step: Gradient = compiled(graph) if worth_it else graph
        if in_turn:
            step = _one_by_one(step, len(self.seeds))
        if self.accumulates:
            return self._stepwise(self._mean_gradient(step))
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

        rates: ``(2,)``, the learning rate and the rate of the EMA.
        """
        losses, gradients = gradient(self.parameters, self.ema, path)
        for name, p in self.parameters.items():
            p.grad = gradients[name]
        for group in self.optimiser.param_groups:
            group["lr"].copy_(rates[0] * group["scale"])
        self.optimiser.step()
        self._update_ema(rates[1])
        return losses

    def _update_ema(self, rate: Tensor) -> None:
        """``ema <- ema + rate (parameters - ema)``."""
        averages = list(self.ema.values())
        parameters = [self.parameters[name] for name in self.ema]
        if averages and self.device.type == "cuda":  # in a few launches
            differences = torch._foreach_sub(parameters, averages)
            torch._foreach_mul_(differences, rate)
            torch._foreach_add_(averages, differences)
            return
        for ema, p in zip(averages, parameters, strict=True):
            ema.lerp_(p, rate)

    def _check(self, losses: Tensor) -> None:
        bad = (~losses.isfinite()).nonzero()
        if len(bad):
            step, member = bad[0].tolist()
            loss, seed = losses[step, member].item(), self.seeds[member]
            raise NotFiniteError(loss, self.iteration + step + 1, seed)


def _warn_untraced(kernel: Kernel, error: Exception) -> None:
    """Say that the steps of a kernel run operation by operation, and why."""
    reason = str(error).strip().partition("\n")[0]
    warnings.warn(
        f"the training step of {type(kernel).__name__} cannot be traced, so training is slower: "
        f"{type(error).__name__}: {reason}",
        stacklevel=2,
    )


def _one_by_one(step: Gradient, seeds: int) -> Gradient:
    """The gradients of all seeds from a step for one seed."""

    def gradient(parameters: Stacked, ema: Stacked, path: PathSample) -> tuple[Tensor, Stacked]:
        inputs = (parameters, ema, path)
        results = [step(*tree_map(lambda a, i=i: a[i : i + 1], inputs)) for i in range(seeds)]
        return tree_map(lambda *parts: torch.cat(parts), *results)

    return gradient


def train_kernel(
    problem: Problem,
    recipe: Recipe,
    seed: int = 0,
    device: torch.device | str = "cpu",
    start: Kernel | None = None,
) -> Kernel:
    """Train one kernel, from the weights of ``start`` if given, and return it."""
    trainer = Trainer(problem, recipe, [seed], device, None if start is None else [start])
    for _ in trainer.blocks():
        pass
    return trainer.kernels()[0]


class CapturedBlock:
    """A training step captured once as a CUDA graph and replayed without launch overhead.

    The graph reads step ``index`` of a block in fixed memory and increments the index.
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

        # Capture needs warm-up steps, which must not change the training state.
        weights = [*trainer.parameters.values(), *trainer.ema.values()]
        before = [p.clone() for p in weights]
        # Capture on a separate stream. A thread that already has its own keeps it, so that no
        # other thread draws or allocates on a stream during capture.
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
        tree_map(lambda fixed, new: fixed.copy_(new), self.paths, paths)
        self.rates.copy_(rates)
        self.index.zero_()
        for _ in range(len(rates)):
            self.graph.replay()
        return self.losses


@contextlib.contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Allow TensorFloat-32 inside; a captured step keeps the setting of its capture."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _at(paths: PathSample, i: int) -> PathSample:
    return tree_map(lambda a: a[i], paths)
