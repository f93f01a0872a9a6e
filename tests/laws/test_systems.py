"""Every system with discrete states learns a small law from end to end."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from discrete_meanflow.data import BigramChain
from discrete_meanflow.kernel import (
    BridgeKernel,
    DetailedBalance,
    EulerKernel,
    MaskScoreKernel,
    Redraw,
    TargetGuidance,
    UniformScoreKernel,
)
from discrete_meanflow.metric import frequencies, total_variation
from discrete_meanflow.network import DiagonalNetwork, FlatMLP, TimelessNetwork
from discrete_meanflow.objective import (
    KernelCE,
    PosteriorRegression,
    RateKL,
    TransitionKL,
    rate_bound,
    transition_bound,
)
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import Masking, Uniform, UniformDiffusion
from discrete_meanflow.sampler import CachedSampler, KernelSampler
from discrete_meanflow.schedule import distorted_grid, polydec
from discrete_meanflow.times import GridTimes, OneTime
from discrete_meanflow.training import Problem, Recipe, train_kernel
from laws.joint_law import joint_states
from problems import seeded

STEPS = 32
LAW = BigramChain.dirichlet(3, 2, 0.3, seed=1)  # dependent positions
ENTROPY = -(LAW.log_prob(joint_states(3)).exp() * LAW.log_prob(joint_states(3))).sum().item()


class System(NamedTuple):
    """The parts of a system, all built here as a user would."""

    process: Callable
    kernel: Callable
    objective: Callable
    times: object
    sampler: Callable
    bound: Callable | None
    slack: float = 0.0  # of the bound of an exact model, above the entropy


def bridge(process):
    token = getattr(process, "token", None)
    return BridgeKernel(DiagonalNetwork(FlatMLP(process.states, 2, 64, 1)), process, token)


def timeless(process):
    network = TimelessNetwork(FlatMLP(process.states, 2, 64, 1))
    return BridgeKernel(network, process, process.token)


def scores(kernel):
    return lambda process: kernel(DiagonalNetwork(FlatMLP(process.states, 2, 64, 1)), process)


def ancestral(kernel):
    return KernelSampler.steps(kernel, STEPS)


def euler(*terms, distortion=None):
    def sampler(kernel):
        grid = distorted_grid(STEPS, distortion) if distortion else kernel.grid(STEPS)
        return KernelSampler(EulerKernel(kernel, *terms), grid)

    return sampler


def of_steps(kernel, x1, g):
    return transition_bound(kernel, x1, g, STEPS, 16)


def of_rates(kernel, x1, g):
    return rate_bound(kernel, x1, g, 16)


SYSTEMS = {
    "d3pm": System(Masking, bridge, lambda: TransitionKL(STEPS, 0.01), GridTimes(STEPS),
                   ancestral, of_steps),
    "d3pm-uniform": System(UniformDiffusion, bridge, lambda: TransitionKL(STEPS, 0.01),
                           GridTimes(STEPS), ancestral, of_steps),
    "sedd": System(Masking, scores(MaskScoreKernel), RateKL, OneTime(), euler(), of_rates),
    "sedd-uniform": System(UniformDiffusion, scores(UniformScoreKernel), RateKL,
                           OneTime(UniformScoreKernel.earliest), ancestral, of_rates),
    "mdlm": System(Masking, timeless, RateKL, OneTime(),
                   lambda kernel: CachedSampler.steps(kernel, STEPS), of_rates),
    "dfm": System(Masking, bridge, RateKL, OneTime(), euler(), of_rates),
    "dfm-uniform": System(Uniform, bridge, RateKL, OneTime(), euler(), of_rates, 0.7),
    "campbell": System(Masking, bridge, KernelCE, OneTime(), euler(DetailedBalance(1.0)),
                       of_rates),
    "defog": System(Uniform, bridge, PosteriorRegression, OneTime(),
                    euler(Redraw(1.0), TargetGuidance(0.02), distortion=polydec), None),
}  # fmt: skip


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_learns_the_law_and_its_conditionals(name):
    system = SYSTEMS[name]
    process = system.process(3)
    paths = DataPaths(process, LAW, system.times, conditioning=0.3)
    problem = Problem(paths, lambda: system.kernel(process), system.objective())
    kernel = train_kernel(problem, Recipe(250, 256, learning_rate=3e-3, ema_decay=0.98))
    g, n = seeded(), 4000
    sampler = system.sampler(kernel)
    y = sampler.sample(process.source((n, 2), g), g)
    law = LAW.log_prob(joint_states(3)).exp()
    assert total_variation(frequencies(y[:, 0] * 3 + y[:, 1], 9), law) < 0.1
    x1 = LAW.sample((n,), g)
    independent = LAW.marginals()[0, :, None] * LAW.marginals()[1]
    assert total_variation(independent.flatten(), law) > 0.25  # what the bounds below exclude
    first = torch.tensor([True, False]).expand(n, 2)
    y = sampler.sample(process.source((n, 2), g), g, x1, first)
    assert torch.equal(y[:, 0], x1[:, 0])
    assert total_variation(frequencies(y[:, 0] * 3 + y[:, 1], 9), law) < 0.1
    if system.bound:
        nats = system.bound(kernel, x1[:2000], g)
        error = 5.5 * nats.std().item() / len(nats) ** 0.5
        assert ENTROPY - error < nats.mean().item() < ENTROPY + system.slack + 0.1 + error
