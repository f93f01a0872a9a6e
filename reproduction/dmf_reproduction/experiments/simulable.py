"""A chain without a rate matrix: trained on simulated paths, evaluated by simulation."""

from collections.abc import Sequence

import torch
from torch import Tensor

from discrete_meanflow.ctmc.simulate import simulate
from discrete_meanflow.ctmc.uniformization import uniformized_action
from discrete_meanflow.kernel import BoundaryKernel, Kernel
from discrete_meanflow.metric import frequencies, sampling_floor, total_variation
from discrete_meanflow.network import MLP
from discrete_meanflow.objective import KernelResidual, SampledRate
from discrete_meanflow.path import ChainPaths
from discrete_meanflow.process import SimulatedProcess
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.schedule import Exponential
from discrete_meanflow.simplex import categorical
from discrete_meanflow.times import FromSource
from discrete_meanflow.training import Problem, Recipe
from dmf_reproduction.bulk_queue import BulkQueue, truncate
from dmf_reproduction.engine.experiment import Cell, Claim, Experiment, Json, Scale, mean

STATES = 192
STARTS = 4  # x_0 is uniform on 0 .. 3
DRAWS = 100_000
MANY = 8  # draws of x_t per path in the low-variance estimator


def queue() -> BulkQueue:
    """Arrivals of 1, 8 and 24 customers; a waiting room for 191."""
    return BulkQueue({1: 1.0, 8: 1.0, 24: 0.7}, service=1.0, room=STATES - 1)


def initial(states: int) -> Tensor:
    p = torch.zeros(states, dtype=torch.float64)
    p[:STARTS] = 1 / STARTS
    return p


class Simulable(Experiment):
    name = "simulable"
    title = "A bulk queue, given only by its jump rates, trained at r = 0"
    where = "algorithm 1 ('analytic or simulable')"
    claims_summary = (
        "one-step TV within 2x of the sampling floor, with 50 or more occupied states",
    )

    def cells(self, scale: Scale) -> list[Cell]:
        process = SimulatedProcess(queue(), STATES, initial(STATES))
        recipe = Recipe(10_000, learning_rate=1e-3)
        truth = _truth()

        def kernel() -> Kernel:
            return BoundaryKernel(MLP(STATES), STATES, Exponential(2 * queue().max_exit_rate))

        def watch(kernels: Sequence[Kernel]) -> dict[str, list[float]]:
            laws = [_one_step_law(kernel) for kernel in kernels]
            return {"one_step_tv": [total_variation(law, truth).item() for law in laws]}

        def measure(kernel: Kernel, seed: int) -> Json:
            law = _one_step_law(kernel)
            samples = _one_step_frequencies(kernel, scale.draws(DRAWS), seed)
            return {
                "law": law.tolist(),
                "frequencies": samples.tolist(),
                "one_step_tv_exact": total_variation(law, truth).item(),
                "one_step_tv_sampled": total_variation(samples, truth).item(),
            }

        return [
            Cell(
                f"bulk queue, {'single sample' if draws == 1 else f'{draws} samples'}",
                Problem(
                    ChainPaths(process, FromSource(0.01)),
                    kernel,
                    KernelResidual(SampledRate(process, draws)),
                ),
                scale.recipe(recipe),
                watch,
                measure,
            )
            for draws in (1, MANY)
        ]

    def facts(self, scale: Scale) -> Json:
        g = torch.Generator().manual_seed(0)
        draws = scale.draws(DRAWS)
        truth = _truth()
        x_0 = categorical(initial(STATES), g, draws)
        zero = torch.zeros(draws, dtype=torch.float64)
        simulated = frequencies(simulate(queue(), x_0, zero, zero + 1, g), STATES)
        return {
            "draws": draws,
            "truth": truth.tolist(),
            "simulated": simulated.tolist(),
            "occupied": int((simulated > 0).sum()),
            "floor": sampling_floor(truth, draws, g, repeats=50).item(),
            "simulation_tv": total_variation(simulated, truth).item(),
        }

    def claims(self, facts: Json, cells: Json) -> list[Claim]:
        floor, occupied = facts["floor"], facts["occupied"]
        simulated = torch.tensor(facts["simulated"], dtype=torch.float64)
        best = cells[f"bulk queue, {MANY} samples"]
        tv = mean(best, "one_step_tv_sampled")
        to_simulation = [
            total_variation(torch.tensor(m["frequencies"], dtype=torch.float64), simulated).item()
            for m in best["measurements"]
        ]
        two_samples = sum(to_simulation) / len(to_simulation)
        single = mean(cells["bulk queue, single sample"], "one_step_tv_sampled")
        return [
            self.claim(
                "occupied",
                "states occupied by the simulation: at least 50",
                occupied,
                occupied >= 50,
            ),
            self.claim(
                "matrix",
                f"{MANY} samples: one-step TV to the exact distribution within 2x of its floor "
                f"{floor:.4f}",
                tv,
                tv <= 2 * floor,
            ),
            self.claim(
                "simulation",
                f"{MANY} samples: one-step TV to {facts['draws']:,} simulated draws within 2x of "
                f"the floor of two samples, {2**0.5 * floor:.4f}",
                two_samples,
                two_samples <= 2 * 2**0.5 * floor,
            ),
            self.claim(
                "single",
                "single sample: one-step TV to the exact distribution within 2x of its floor",
                single,
                single <= 2 * floor,
            ),
        ]


def _truth() -> Tensor:
    """The distribution of X_1, by uniformization on the sparse rate matrix."""
    u = truncate(queue(), STATES)
    return uniformized_action(lambda v: u @ v, queue().max_exit_rate, initial(STATES), 1.0)


@torch.no_grad()
def _one_step_law(kernel: Kernel) -> Tensor:
    """``sum_x K_theta(., x, 0, 1) p_0(x)``."""
    x = torch.arange(STARTS, device=kernel.device)
    zero = torch.zeros(STARTS, dtype=kernel.dtype, device=kernel.device)
    return kernel.probs(x, zero, zero + 1).double().mean(0).cpu()


@torch.no_grad()
def _one_step_frequencies(kernel: Kernel, draws: int, seed: int) -> Tensor:
    device = kernel.device
    g = torch.Generator(device).manual_seed(seed)
    x_0 = categorical(initial(STATES).to(device), g, draws)
    return frequencies(KernelSampler(kernel).sample(x_0, g), STATES).cpu()
