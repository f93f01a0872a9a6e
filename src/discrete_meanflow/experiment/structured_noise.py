"""Noise that moves between neighbours: which objective finds the kernel at intermediate times?"""

import itertools
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from discrete_meanflow.ctmc import chains
from discrete_meanflow.data import BigramChain
from discrete_meanflow.experiment.base import Cell, Claim, Experiment, Json, Scale, mean
from discrete_meanflow.experiment.sequence_parts import OBJECTIVES as SEQUENCE_OBJECTIVES
from discrete_meanflow.experiment.sequence_parts import times_of
from discrete_meanflow.kernel import BridgeKernel, Kernel
from discrete_meanflow.metric import time_grid, triples
from discrete_meanflow.network import SingleTime, Transformer
from discrete_meanflow.objective import Objective, TransitionLikelihood
from discrete_meanflow.process import Posterior, SequenceProcess, Structured
from discrete_meanflow.training import Problem, Recipe

V, D = 5, 3  # 125 sequences: everything is enumerated
GRID = 11
ITERATIONS = 8_000
NOISES = {"ordinal": lambda: chains.birth_death(V), "ring": lambda: chains.ring(V)}
RESIDUALS = ("KR", "KR, 8 samples", "KR, Rao-Blackwell", "KR, weighted", "KR, KL form")
OBJECTIVES: dict[str, Callable[[SequenceProcess], Objective]] = {
    **{name: SEQUENCE_OBJECTIVES[name] for name in (*RESIDUALS, "KCE", "PR")},
    "transition likelihood": lambda process: TransitionLikelihood(),
}


@cache
def process(noise: str) -> Structured:
    return Structured(BigramChain.dirichlet(V, D, 1.0), NOISES[noise]())


class StructuredNoise(Experiment):
    name = "structured-noise"
    title = "Ordinal and circular noise, kernels through the bridge: 8,000 steps each"
    where = "beyond the paper"
    promises = (
        "the max error over a grid of (r, t) for residuals, likelihoods and posterior regression",
        "what two steps differ from one, for each and for the exact factorised kernel",
    )
    of_the_paper = False

    def cells(self, scale: Scale) -> list[Cell]:
        names = NOISES if scale is Scale.paper else ("ordinal",)
        return [_cell(noise, objective, scale) for noise in names for objective in OBJECTIVES]

    def facts(self, scale: Scale) -> Json:
        facts: Json = {"V": V, "D": D, "grid": GRID}
        for noise in NOISES:
            exact = BridgeKernel(Posterior(process(noise)), process(noise))
            facts[noise] = {"law": repr(process(noise).data), "defect": defect(exact)}
        return facts

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        claims = []
        for noise in NOISES:
            row = {o: cells[f"{noise}, {o}"] for o in OBJECTIVES if f"{noise}, {o}" in cells}
            if not row:
                continue
            for key, what in (
                ("max_error", "max error over the grid of (r, t)"),
                ("middle_tv", "mean TV at r, t in [0.2, 0.8]"),
                ("defect", f"two steps against one (exact: {facts[noise]['defect']:.1e})"),
            ):
                found = {o: mean(cell, key) for o, cell in row.items()}
                best = min(found, key=lambda o: found[o])
                claims.append(
                    Claim(
                        f"{key}/{noise}",
                        f"{noise} noise, {what}: lowest for an objective of the identity ({best})",
                        self.where,
                        None,
                        ", ".join(f"{o} {v:.1e}" for o, v in found.items()),
                        best in RESIDUALS,
                    )
                )
        return claims


def _cell(noise: str, objective: str, scale: Scale) -> Cell:
    noised = process(noise)

    def kernel() -> Kernel:
        network = Transformer(V, D, width=64, layers=2, feed_forward=64, time_width=64)
        return BridgeKernel(SingleTime(network) if objective == "PR" else network, noised)

    problem = Problem(noised, times_of(objective), kernel, OBJECTIVES[objective](noised))
    recipe = scale.recipe(Recipe(ITERATIONS, learning_rate=1e-3))

    def watch(kernels: Sequence[Kernel]) -> dict[str, list[float]]:
        found = [errors(kernel, noise) for kernel in kernels]
        return {key: [each[key] for each in found] for key in ("max_error", "middle_tv")}

    def measure(kernel: Kernel, seed: int) -> Json:
        return {**errors(kernel, noise), "defect": defect(kernel)}

    return Cell(f"{noise}, {objective}", problem, recipe, watch, measure)


def errors(kernel: Kernel, noise: str) -> Json:
    """Of all start sequences and positions: the max error at each (r, t), and mean TVs."""
    r, t = time_grid(GRID)
    exact = _exact(noise)
    gap = on_all_sequences(kernel, r, t) - exact
    tv = gap.abs().sum(-1).mean((-1, -2)) / 2  # (pairs,)
    middle = (r >= 0.2) & (t <= 0.8) & (r < t)
    grid = gap.abs().amax((-1, -2, -3))
    return {
        "max_error": grid.max().item(),
        "mean_tv": tv.mean().item(),
        "middle_tv": tv[middle].mean().item(),
        "error_grid": grid.tolist(),
    }


@cache
def _exact(noise: str) -> Tensor:
    exact = BridgeKernel(Posterior(process(noise)), process(noise))
    return on_all_sequences(exact, *time_grid(GRID))


@torch.no_grad()
def on_all_sequences(kernel: Kernel, r: Tensor, t: Tensor) -> Tensor:
    """``K_d(y | x)`` for all x in V^D: shape ``(pairs, V^D, D, V)``, float64 on the CPU."""
    x = torch.tensor(list(itertools.product(range(V), repeat=D)), device=kernel.home.device)
    times = (s.to(kernel.home)[:, None, None].expand(-1, len(x), 1) for s in (r, t))
    return kernel.probs(x.expand(len(r), -1, -1), *times).double().cpu()


def defect(kernel: Kernel) -> float:
    """The largest change of a position's law if the way from r to t is made in two steps."""
    return max(_two_against_one(kernel, *times) for times in triples())


def _two_against_one(kernel: Kernel, r: float, s: float, t: float) -> float:
    begin = torch.tensor([r, s, r], dtype=torch.float64)
    end = torch.tensor([s, t, t], dtype=torch.float64)
    first, second, direct = on_all_sequences(kernel, begin, end)  # each (V^D, D, V)
    z = torch.tensor(list(itertools.product(range(V), repeat=D)))
    joint = first[:, torch.arange(D), z].prod(-1)  # (x, z): positions move independently
    composed = torch.einsum("xz,zdy->xdy", joint, second)
    return (composed - direct).abs().max().item()
