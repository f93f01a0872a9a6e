"""Laws of the Eulerian objectives: MeanFlow and Eulerian self-distillation.

Expectations over x1 given x_r are sums over all sequences, so the exact flow map is stationary to
rounding, not to sampling noise.
"""

import pytest
import torch
from torch import nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.metric import pair_tv
from discrete_meanflow.network import DiT, FlatMLP, Transformer
from discrete_meanflow.objective import EulerianLoss, MeanFlow, PosteriorRegression, Weighted
from discrete_meanflow.objective.eulerian import eulerian_goal
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import PathSample
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import ClockUniform, OnDiagonal, TimePair
from discrete_meanflow.training import Problem, Recipe, train_kernel
from laws.exact_flow import LAW, PROCESS, Tilted, every_end, expected_gradient
from problems import seeded

TIMES = {"inside": (0.3, 0.8), "from noise": (0.0, 0.9), "diagonal": (0.4, 0.4)}
every_time = pytest.mark.parametrize(("r", "t"), TIMES.values(), ids=TIMES)


@every_time
@pytest.mark.parametrize("objective", [MeanFlow(), EulerianLoss()], ids=["MeanFlow", "ESD"])
def test_the_exact_flow_map_is_stationary(objective, r, t):
    """It is for t = r, too, where MeanFlow is flow matching and ESD says nothing."""
    path, weight = every_end(r, t)
    assert expected_gradient(objective, path, weight, 0.0).abs().max() < 1e-6
    silent = isinstance(objective, EulerianLoss) and r == t
    assert (expected_gradient(objective, path, weight, 0.1).abs().max() > 1e-4) != silent


def test_the_goal_is_the_paper_s_target():
    """``(goal - x)/(1 - r) = v + (t - r) du/dr`` of the mean velocity u, by finite differences."""
    network = FlatMLP(3, 2, 16, 1).double()
    for p in network.parameters():
        nn.init.normal_(p, std=0.3, generator=seeded())
    kernel, (path, _) = FlowMapKernel(network, 3), every_end(0.3, 0.8)
    x, r, t = path.x, path.r, path.t
    v = PROCESS.rate(x, r, path.x1)

    def mean_velocity(h):
        there = x + h * v
        return (kernel.probs(there, r + h, t) - there) / (t - r - h)[..., None]

    slope = (mean_velocity(1e-5) - mean_velocity(-1e-5)) / 2e-5
    log_q, goal = eulerian_goal(kernel, path, delta(path.x1, 3, torch.float64))
    assert torch.allclose((log_q.exp() - x) / 0.7, mean_velocity(0.0))
    assert ((goal - x) / 0.7 - (v + 0.5 * slope)).abs().max() < 1e-6
    assert not goal.requires_grad


def test_the_adaptive_weight_is_a_power_of_the_loss():
    """The gradient of one sequence is that of the square, divided by ``square + 0.01``."""
    path, _ = every_end(0.3, 0.8, starts=1)
    one = PathSample(*(part[:1] for part in path))
    gradients = []
    for power in (0.0, 1.0):
        kernel = FlowMapKernel(Tilted(1, 0.3), 3)
        loss = MeanFlow(power)(kernel, one)
        gradients.append(torch.autograd.grad(loss, kernel.network.theta)[0])
    square = MeanFlow()(kernel, one).detach()
    assert torch.allclose(gradients[1], gradients[0] / (square + 0.01))


@pytest.mark.parametrize(
    "network",
    [FlatMLP(3, 2, 16, 1), DiT(3, 2, 16, 1, 2), Transformer(3, 2, 16, 1, 2, 16, 8)],
    ids=lambda network: type(network).__name__,
)
def test_observed_positions_add_nothing_and_stay(network):
    """They have r = t = 1, where 1/(1 - r) diverges."""
    g = seeded()
    for p in network.double().parameters():
        nn.init.normal_(p, std=0.3, generator=g)
    kernel, x1 = FlowMapKernel(network, 3), LAW.sample((64,), g)
    r, t = (torch.full((64,), s, dtype=torch.float64) for s in (0.3, 0.8))
    observed = torch.tensor([[True, False]]).expand(64, 2)
    path = PROCESS.path(x1, TimePair(r, t), g, 0, observed)
    path = PathSample(*(part.double() if part.is_floating_point() else part for part in path))
    log_q, goal = eulerian_goal(kernel, path, delta(x1, 3, torch.float64))
    h, v = 1e-6, PROCESS.rate(path.x, path.r, x1)
    step = h * (~observed).double()
    ends = [
        kernel(path.x + (s * step)[..., None] * v, path.r + s * step, path.t).log_softmax(-1)
        for s in (1, -1)
    ]
    q, slope = log_q.exp(), (ends[0] - ends[1]) / (2 * h)
    free = delta(x1, 3, torch.float64) * (0.2 / 0.7) + q * (0.5 / 0.7) + 0.5 * q * slope
    assert (goal - free)[:, 1].abs().max() < 1e-6
    everything = torch.ones(64, 2, dtype=torch.bool)
    certain = PROCESS.path(x1, TimePair(r, t), g, 0, everything)
    for objective in (MeanFlow(), MeanFlow(1.0), EulerianLoss()):
        assert objective(kernel, path).isfinite()
        loss = objective(kernel.float(), certain)
        assert loss == 0
        gradients = torch.autograd.grad(loss, list(kernel.parameters()), allow_unused=True)
        assert all(p is None or p.abs().max() == 0 for p in gradients)
        kernel.double()


OBJECTIVES = {
    "MeanFlow": MeanFlow(),
    "ESD": Weighted((1.0, PosteriorRegression()), (1.0, EulerianLoss())),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_one_step_learns_dependent_positions(name):
    """Their joint law, far closer than the product of the right marginals."""
    paths = DataPaths(PROCESS, LAW, OnDiagonal(ClockUniform(3, 0.2), 0.5))
    problem = Problem(paths, lambda: FlowMapKernel(FlatMLP(3, 2, 64, 2), 3), OBJECTIVES[name])
    kernel = train_kernel(problem, Recipe(300, learning_rate=5e-3, ema_decay=0.98))
    y = KernelSampler(kernel).sample(PROCESS.source((10_000, 2), seeded()), seeded())
    independent = torch.stack([y[:, 0], y[torch.randperm(10_000, generator=seeded()), 1]], -1)
    assert pair_tv(y, LAW, 3) < 0.5 * pair_tv(independent, LAW, 3)


def test_bad_input_is_rejected():
    for power in (-1.0, float("inf")):
        with pytest.raises(InputError, match="power must be finite"):
            MeanFlow(power)
    with pytest.raises(InputError, match="on the diagonal must lie"):
        OnDiagonal(ClockUniform(3), 1.5)
