"""Noise between neighbouring symbols: which objective learns the kernel at intermediate times?"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from discrete_meanflow.ctmc import chains
from discrete_meanflow.data import BigramChain, Law
from discrete_meanflow.kernel import BridgeKernel, ExactPosterior, Kernel
from discrete_meanflow.network import DiagonalNetwork, Transformer
from discrete_meanflow.objective import Objective, TransitionLikelihood
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import SequenceProcess, Structured
from discrete_meanflow.times import MixedTimes, UniformGap
from discrete_meanflow.training import Problem, Recipe
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale, mean
from dmf_reproduction.experiments.sequence_parts import OBJECTIVES as SEQUENCE_OBJECTIVES
from dmf_reproduction.metrics import time_grid, time_triples

V, D = 5, 3  # 125 sequences: all are enumerated
GRID = 11
ITERATIONS = 4_000
NOISES = {"ordinal": chains.birth_death, "ring": chains.ring}
TIMES = MixedTimes(0.75, UniformGap(0.02), 0.0)  # the same for all objectives
IDENTITY = "KR, KL form"  # claimed to be the best
OBJECTIVES: dict[str, Callable[[SequenceProcess], Objective]] = {
    **{
        name: SEQUENCE_OBJECTIVES[name]
        for name in ("KR", "KR, 8 samples", "KR, Rao-Blackwell", "KR, weighted", IDENTITY)
    },
    "transition likelihood": lambda process: TransitionLikelihood(),
    **{name: SEQUENCE_OBJECTIVES[name] for name in ("KCE", "PR")},
}


def noised(noise: str) -> Structured:
    """A new process for each cell: training moves it to its device."""
    return Structured(NOISES[noise](V))


def data_law() -> Law:
    return BigramChain.dirichlet(V, D, 1.0)


def exact_kernel(law: Law, process: SequenceProcess) -> BridgeKernel:
    return BridgeKernel(ExactPosterior(law, process), process)


class StructuredNoise(Experiment):
    name = "structured-noise"
    title = "Ordinal and circular noise with bridge kernels: 4,000 iterations"
    where = "beyond the paper"
    claims_summary = (
        "the KL form has the lowest error over the whole grid of (r, t) and in its middle",
        "the KL form has the composition defect closest to that of the exact posterior",
    )
    of_the_paper = False

    def cells(self, scale: Scale) -> list[Cell]:
        names = NOISES if scale is Scale.paper else ("ordinal",)
        return [_cell(noise, objective, scale) for noise in names for objective in OBJECTIVES]

    def facts(self, scale: Scale) -> Json:
        facts: Json = {"V": V, "D": D, "grid": GRID}
        for noise in NOISES:
            kernel = exact_kernel(data_law(), noised(noise))
            facts[noise] = {"law": repr(data_law()), "defect": defect(kernel, D)}
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        claims = []
        for noise in NOISES:
            row = {o: cells[f"{noise}, {o}"] for o in OBJECTIVES if f"{noise}, {o}" in cells}
            for key, what in (
                ("max_error", "maximum error over the grid of (r, t)"),
                ("middle_tv", "mean TV where 0.2 <= r < t <= 0.8"),
                ("defect", "composition defect, distance to that of the exact posterior"),
            ):
                truth = facts[noise]["defect"] if key == "defect" else 0.0
                values = {o: abs(mean(cell, key) - truth) for o, cell in row.items()}
                if values:
                    claims.append(self._lowest_claim(noise, key, what, values))
        return claims

    def _lowest_claim(self, noise: str, key: str, what: str, values: dict[str, float]) -> Claim:
        best = min(values, key=lambda o: values[o])
        return self.claim(
            f"{key}/{noise}",
            f"{noise} noise, {what}: lowest for {IDENTITY}; measured lowest for {best}",
            ", ".join(f"{o} {v:.1e}" for o, v in values.items()),
            best == IDENTITY,
        )


def _cell(noise: str, objective: str, scale: Scale) -> Cell:
    process = noised(noise)

    def kernel() -> Kernel:
        network = Transformer(V, D, width=64, layers=2, feed_forward=64, time_width=64)
        return BridgeKernel(DiagonalNetwork(network) if objective == "PR" else network, process)

    paths = DataPaths(process, data_law(), TIMES)
    problem = Problem(paths, kernel, OBJECTIVES[objective](process))
    recipe = Recipe(ITERATIONS, learning_rate=1e-3)
    if scale is Scale.toy:
        recipe = replace(scale.recipe(recipe), batch=8, iterations=10)

    def watch(kernels: Sequence[Kernel]) -> dict[str, list[float]]:
        measured = [errors(kernel, noise) for kernel in kernels]
        return {key: [m[key] for m in measured] for key in ("max_error", "middle_tv")}

    def measure(kernel: Kernel, seed: int) -> Json:
        return {**errors(kernel, noise), "defect": defect(kernel, D)}

    return Cell(f"{noise}, {objective}", problem, recipe, watch, measure)


def errors(kernel: Kernel, noise: str) -> Json:
    """Maximum error at each (r, t) over all start sequences and positions, and mean TVs."""
    r, t = time_grid(GRID)
    exact, x = _exact(noise)
    gap = (marginals_from(kernel, x, r, t) - exact).abs()
    tv = gap.sum(-1).mean((-1, -2)) / 2  # (pairs,)
    grid = gap.amax((-1, -2, -3))
    return {
        "max_error": grid.max().item(),
        "mean_tv": tv.mean().item(),
        "middle_tv": tv[(r >= 0.2) & (t <= 0.8) & (r < t)].mean().item(),
        "error_grid": grid.tolist(),
    }


@cache
def _exact(noise: str) -> tuple[Tensor, Tensor]:
    """The exact kernel on the grid, and all sequences."""
    kernel = exact_kernel(data_law(), noised(noise))
    x = everything(kernel, D)
    return marginals_from(kernel, x, *time_grid(GRID)), x


def everything(kernel: Kernel, length: int) -> Tensor:
    """All sequences of states: shape ``(n^D, D)``."""
    return torch.tensor(list(itertools.product(range(kernel.states), repeat=length)))


@torch.no_grad()
def marginals_from(kernel: Kernel, x: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """``K_d(y | x)`` at each pair of times: shape ``(pairs, N, D, n)``, float64 on the CPU."""
    x = x.to(kernel.device)
    times = (s.to(kernel.device, kernel.dtype)[:, None, None].expand(-1, len(x), 1) for s in (r, t))
    return kernel.probs(x.expand(len(r), -1, -1), *times).double().cpu()


def defect(kernel: Kernel, length: int) -> float:
    """The largest change of a marginal when the step from r to t is split in two.

    Positions are sampled independently within a step, so even the exact posterior has a defect
    on dependent data.
    """
    x = everything(kernel, length)
    pairs = sorted({pair for r, s, t in time_triples() for pair in ((r, s), (s, t), (r, t))})
    begin, end = torch.tensor(pairs, dtype=torch.float64).T
    K = dict(zip(pairs, marginals_from(kernel, x, begin, end), strict=True))  # each (N, D, n)

    def in_two_steps(r: float, s: float, t: float) -> Tensor:
        joint = K[r, s][:, torch.arange(x.shape[1]), x].prod(-1)  # (N from, N to)
        return torch.einsum("xz,zdy->xdy", joint, K[s, t])

    return max((in_two_steps(r, s, t) - K[r, t]).abs().max().item() for r, s, t in time_triples())
