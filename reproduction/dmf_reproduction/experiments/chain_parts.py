"""Shared parts of the experiments on finite chains: the paper's settings and metrics."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import RateGenerator
from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.metric import frequencies, sampling_floor, total_variation
from discrete_meanflow.objective import KernelResidual, Objective, SampledRate
from discrete_meanflow.process import ChainProcess
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import TimeSampler
from discrete_meanflow.training import Recipe, chain_problem
from dmf_reproduction.engine.experiment import Cell, Json, Scale
from dmf_reproduction.metrics import composition_defect, kernel_error, time_grid
from dmf_reproduction.settings import CHAIN_GRID

ITERATIONS = {"two-state": 15_000, "ring": 20_000, "birth-death": 30_000}
DRAWS = {"two-state": 5_000, "ring": 5_000, "birth-death": 10_000}


def single_sample(process: ChainProcess) -> Objective:
    """The paper's objective."""
    return KernelResidual(SampledRate(process))


def chain_cell(
    name: str,
    generator: RateGenerator,
    recipe: Recipe,
    scale: Scale,
    *,
    objective: Callable[[ChainProcess], Objective] = single_sample,
    kernel: Callable[[], Kernel] | None = None,
    times: TimeSampler | None = None,
    stratified: bool = False,
    draws: int = 5_000,
) -> Cell:
    """A cell at the paper's settings, except for the arguments."""
    problem = chain_problem(
        generator, objective=objective, kernel=kernel, times=times, stratified=stratified
    )
    r, t = time_grid(CHAIN_GRID)
    exact = transition(generator, r, t)

    def errors(kernels: Sequence[Kernel]) -> dict[str, list[float]]:
        grids = [kernel_error(_matrix(k, r, t), exact) for k in kernels]
        last = [_matrix(k, 0.0, 1.0) for k in kernels]
        return {
            "max_error": [e.max for e in grids],
            "mean_error": [e.mean for e in grids],
            "column_tv": [e.column_tv for e in grids],
            "one_step_tv": [_columns_tv(K, exact[CHAIN_GRID - 1]) for K in last],
        }

    def measure(kernel: Kernel, seed: int) -> Json:
        error = kernel_error(_matrix(kernel, r, t), exact)
        K = _matrix(kernel, 0.0, 1.0)
        counts = one_step_counts(kernel, scale.draws(draws), seed)
        return {
            "max_error": error.max,
            "mean_error": error.mean,
            "column_tv": error.column_tv,
            "error_grid": error.grid.tolist(),
            "defect": composition_defect(lambda r, t: _matrix(kernel, r, t)),
            "kernel": K.tolist(),
            "one_step_counts": counts.tolist(),
            "one_step_tv_exact": _columns_tv(K, exact[CHAIN_GRID - 1]),
            "one_step_tv_sampled": _columns_tv(counts.T / counts.sum(1), exact[CHAIN_GRID - 1]),
        }

    return Cell(name, problem, scale.recipe(recipe), errors, measure)


def chain_facts(generators: dict[str, RateGenerator], draws: dict[str, int]) -> Json:
    """For each chain: the exact kernel at (0, 1) and the sampling floor of the one-step TV."""
    facts: Json = {}
    for name, generator in generators.items():
        K = transition(generator, 0.0, 1.0)
        floor = sampling_floor(K.T, draws[name], torch.Generator().manual_seed(0))
        facts[name] = {
            "kernel": K.tolist(),
            "draws": draws[name],
            "one_step_tv_floor": floor.mean().item(),
        }
    return facts


@torch.no_grad()
def one_step_counts(kernel: Kernel, draws: int, seed: int) -> Tensor:
    """Counts[x_0, y] of one-step samples, ``draws`` for each start state."""
    device, states = kernel.device, kernel.states
    x_0 = torch.arange(states, device=device)[:, None].expand(states, draws)
    y = KernelSampler(kernel).sample(x_0, torch.Generator(device).manual_seed(seed))
    return (frequencies(y, states) * draws).round().long().cpu()


@torch.no_grad()
def _matrix(kernel: Kernel, r: Any, t: Any) -> Tensor:
    return kernel.matrix(r, t).double().cpu()


def _columns_tv(K: Tensor, exact: Tensor) -> float:
    """Mean over start states of TV between columns."""
    return total_variation(K.T, exact.T).mean().item()
