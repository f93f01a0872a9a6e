"""Laws of consistency training, shortcut models and moment matching on the exact flow map."""

import numpy as np
import pytest
import torch

from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.metric import pair_tv
from discrete_meanflow.network import FlatMLP
from discrete_meanflow.objective import (
    ConsistencyLoss,
    MomentMatching,
    shortcut,
)
from discrete_meanflow.path import DataPaths
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import ClockUniform, DyadicTimes, Grouped
from discrete_meanflow.training import Problem, Recipe, train_kernel
from laws.exact_flow import LAW, PROCESS, every_end, expected_gradient
from problems import seeded

TIMES = {
    "consistency": ClockUniform(3, 0.2),
    "shortcut": DyadicTimes(3),
    "moment matching": Grouped(ClockUniform(3, 0.2), 4),
}
OBJECTIVES = {
    "consistency": ConsistencyLoss(3, 16),
    "shortcut": shortcut(),
    "moment matching": MomentMatching(3),
}
every_peer = pytest.mark.parametrize("name", OBJECTIVES)


def random_kernel():
    network = FlatMLP(3, 2, 16, 1)
    for i, p in enumerate(network.parameters()):
        torch.nn.init.normal_(p, std=0.3, generator=seeded(i))
    return FlowMapKernel(network, 3)


def path_of(name, observed=None, n=64):
    g = seeded()
    return PROCESS.path(LAW.sample((n,), g), TIMES[name].sample((n,), g), g, 0, observed)


def test_consistency_is_stationary_up_to_its_step():
    """The expected gradient falls with 1/N, that of a wrong map does not."""
    path, weight = every_end(0.3, 1.0)
    intervals = [16, 32, 64, 128]
    exact, tilted = (
        [expected_gradient(ConsistencyLoss(3, n), path, weight, theta).norm() for n in intervals]
        for theta in (0.0, 0.1)
    )
    print(exact, tilted)
    slope = np.polyfit(np.log(intervals), np.log(exact), 1)[0]
    print(slope)


@every_peer
def test_one_step_learns_dependent_positions(name):
    """Their joint law, far closer than the product of the right marginals."""
    paths = DataPaths(PROCESS, LAW, TIMES[name])
    problem = Problem(paths, lambda: FlowMapKernel(FlatMLP(3, 2, 64, 2), 3), OBJECTIVES[name])
    kernel = train_kernel(problem, Recipe(300, learning_rate=5e-3, ema_decay=0.98))
    y = KernelSampler(kernel).sample(PROCESS.source((10_000, 2), seeded()), seeded())
    independent = torch.stack([y[:, 0], y[torch.randperm(10_000, generator=seeded()), 1]], -1)
    print(name, pair_tv(y, LAW, 3), pair_tv(independent, LAW, 3))
    assert pair_tv(y, LAW, 3) < 0.5 * pair_tv(independent, LAW, 3)
