"""Laws of consistency training, shortcut models and moment matching on the exact flow map."""

import json
from pathlib import Path

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, ExactPosterior, FlowMapKernel
from discrete_meanflow.metric import pair_tv
from discrete_meanflow.network import MLP, DiagonalNetwork, FlatMLP
from discrete_meanflow.objective import (
    ConsistencyLoss,
    MeanFlow,
    MomentMatching,
    OnFraction,
    PosteriorRegression,
    SemigroupLoss,
    shortcut,
)
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import OneHotFlow, PathSample
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import ClockUniform, DyadicTimes, Grouped, TimePair, ToEnd
from discrete_meanflow.training import Problem, Recipe, train_kernel
from laws.exact_flow import LAW, PROCESS, ExactFlow, Tilted, every_end, expected_gradient
from problems import seeded

TIMES = {
    "consistency": ToEnd(3),
    "shortcut": DyadicTimes(3),
    "moment matching": Grouped(ClockUniform(3, 0.2), 4),
}
OBJECTIVES = {
    "consistency": ConsistencyLoss(3, 16),
    "shortcut": shortcut(),
    "moment matching": MomentMatching(3),
}
BOUNDARY = BoundaryKernel(MLP(3, 8, 2), 3, Linear())
every_peer = pytest.mark.parametrize("name", OBJECTIVES)


def random_kernel():
    network = FlatMLP(3, 2, 16, 1)
    for i, p in enumerate(network.parameters()):
        torch.nn.init.normal_(p, std=0.3, generator=seeded(i))
    return FlowMapKernel(network, 3)


def path_of(name, observed=None, n=64):
    g = seeded()
    return PROCESS.path(LAW.sample((n,), g), TIMES[name].sample((n,), g), g, 0, observed)


def test_consistency_is_stationary_in_the_limit_of_short_steps():
    """Per unit of the clock, the exact map's gradient vanishes; that of the diagonal does not."""
    path, weight = every_end(0.3, 1.0)

    def gradient(network):
        objective = ConsistencyLoss(3, 1024)
        return 1024 * expected_gradient(objective, path, weight, 0.0, network).norm()

    assert gradient(ExactFlow()) < 1e-3
    assert gradient(DiagonalNetwork(ExactPosterior(LAW, PROCESS))) > 0.1


def test_the_last_targets_of_consistency_are_the_data():
    """With one interval it is cross-entropy, and observed positions add nothing."""
    kernel, path = random_kernel(), path_of("consistency")
    one = torch.ones_like(path.r)
    nll = -kernel(path.x, path.r, one).log_softmax(-1).gather(-1, path.x1[..., None]).mean()
    assert torch.allclose(ConsistencyLoss(3, 1)(kernel, path), nll)


def test_the_next_time_is_a_step_on_the_clock_and_on_the_line():
    path = path_of("moment matching")
    step = ConsistencyLoss(3, 8).next
    s, x = step(path, path.t)
    gap = step.clock(s.double()) - step.clock(path.r.double())
    assert bool((s <= path.t).all())
    assert bool(((gap - 1 / 8).abs() < 1e-5)[s < path.t].all())
    assert bool((gap < 1 / 8 + 1e-5).all())
    end = delta(path.x1, 3, torch.float32)
    noise, later = (
        (point - time[..., None] * end) / (1 - time)[..., None]
        for point, time in ((path.x, path.r), (x, s))
    )
    inside = (s < 0.9)[:, 0]
    assert inside.sum() > 20
    assert (noise - later)[inside].abs().max() < 1e-4


def test_shortcut_steps_are_powers_of_a_half():
    times = DyadicTimes(27, 3)
    r, t, s = (times.clock(time) for time in times.sample((20_000,), seeded()))
    level = -torch.log2(t - r)
    assert (level - level.round()).abs().max() < 1e-9
    assert (torch.bincount(level.round().long()) / 20_000 - 0.25).abs().max() < 0.02
    assert (s - (r + t) / 2).abs().max() < 1e-9
    start = (r / (1 - (t - r)))[level.round() > 0]
    assert abs(start.mean() - 0.5) < 0.02


def test_the_shortcut_goal_is_two_half_steps():
    """On the diagonal part it is flow matching; the rest compares one step with two."""
    kernel, path = random_kernel(), path_of("shortcut")
    part = PathSample(*(a[:16] for a in path))
    expected = PosteriorRegression()(kernel, path) + SemigroupLoss()(kernel, part)
    assert torch.allclose(shortcut(0.25)(kernel, path), expected)
    assert OnFraction(1.0, SemigroupLoss())(kernel, path) == SemigroupLoss()(kernel, path)
    exact = FlowMapKernel(ExactFlow(), 3)
    path = PathSample(*(a.double() if a.is_floating_point() else a for a in path))
    before_the_end = PathSample(*(a[path.t[:, 0] < 0.9] for a in path))
    assert abs(OnFraction(1.0, SemigroupLoss())(exact, before_the_end)) < 1e-6


def test_moment_matching_is_the_discrepancy_of_two_samples():
    """Pair by pair, for a group; with equal samples it is 0."""
    kernel, objective = random_kernel(), MomentMatching(3, 4, 8)
    path = PathSample(*(part[3::16] for part in path_of("moment matching")))
    s, x = objective.next(path, path.t)
    here, there = kernel.probs(path.x, path.r, path.t), kernel.probs(x, s, path.t)
    alpha = ((path.t - path.r) / (1 - path.r))[0, 0]

    def k(a, b):
        return torch.exp(-(a - b).square().sum() / (4 * alpha**2))

    pairs = [(i, j) for i in range(4) for j in range(4)]
    expected = sum(
        k(here[i], here[j]) + k(there[i], there[j]) - 2 * k(here[i], there[j]) for i, j in pairs
    )
    assert torch.allclose(objective(kernel, path), expected / 16)
    still = MomentMatching(3, 4, 10**9)  # s = r
    assert abs(still(kernel, path)) < 1e-5 < objective(kernel, path)


@pytest.mark.parametrize("theta", [0.0, 0.3])
def test_moment_matching_is_stationary_at_the_exact_flow_map(theta):
    """The mean gradient over groups, in standard errors."""
    g, n = seeded(), 8000
    times = TimePair(*(torch.full((n,), s, dtype=torch.float64) for s in (0.1, 0.5)))
    path = PROCESS.path(LAW.sample((n,), g), times, g, 0)
    path = PathSample(*(a.double() if a.is_floating_point() else a for a in path))
    kernel = FlowMapKernel(Tilted(n, theta), 3)
    loss = MomentMatching(3, 4, 64)(kernel, path)
    (gradient,) = torch.autograd.grad(loss, kernel.network.theta)
    groups = gradient.unflatten(0, (4, -1)).sum(0)
    z = groups.mean(0) / groups.std(0) * len(groups) ** 0.5
    assert (z.abs().max() < 5) == (theta == 0)


def test_groups_share_their_times():
    r, t, s = Grouped(ClockUniform(3), 4).sample((5, 10), seeded())
    assert r.shape == (5, 10)
    for time in (r, t, s):
        assert len(time.unique()) == 15
        assert torch.equal(time[:, :7], time[:, 3:])
    half = Grouped(ClockUniform(3), 4).sample((16,), seeded()).r[1::2]
    assert torch.equal(half, half[:2].repeat(4))


@every_peer
def test_observed_positions_are_finite_and_add_nothing(name):
    kernel, objective = random_kernel(), OBJECTIVES[name]
    if name == "shortcut":  # flow matching counts all positions
        objective = SemigroupLoss()
    for mask in ([True, True], [True, False]):
        path = path_of(name, torch.tensor([mask]).expand(64, 2))
        loss = objective(kernel, path)
        gradients = torch.autograd.grad(loss, list(kernel.parameters()), allow_unused=True)
        largest = max(p.abs().max() for p in gradients if p is not None)
        assert loss.isfinite()
        assert (largest == 0) == all(mask)


@every_peer
def test_one_step_learns_dependent_positions(name):
    """Their joint law, far closer than the product of the right marginals."""
    paths = DataPaths(PROCESS, LAW, TIMES[name])
    problem = Problem(paths, lambda: FlowMapKernel(FlatMLP(3, 2, 64, 2), 3), OBJECTIVES[name])
    kernel = train_kernel(problem, Recipe(300, learning_rate=5e-3, ema_decay=0.98))
    y = KernelSampler(kernel).sample(PROCESS.source((10_000, 2), seeded()), seeded())
    independent = torch.stack([y[:, 0], y[torch.randperm(10_000, generator=seeded()), 1]], -1)
    assert pair_tv(y, LAW, 3) < 0.5 * pair_tv(independent, LAW, 3)


def test_flow_matching_is_that_of_torchcfm(monkeypatch):
    """The same path, velocity and loss, from numbers that torchcfm computed."""
    fixture = json.loads((Path(__file__).parent / "torchcfm.json").read_text())
    noise, logits, point, velocity, t = (
        torch.tensor(fixture[name]) for name in ("noise", "logits", "point", "velocity", "t")
    )
    x1, process = torch.tensor(fixture["tokens"]), OneHotFlow(3)
    monkeypatch.setattr(process, "source", lambda shape, g: noise)
    path = process.path(x1, TimePair(t.double(), t.double()), seeded(), 0)
    assert torch.allclose(path.x, point, atol=1e-6)
    assert torch.allclose(process.rate(path.x, path.r, x1), velocity, atol=1e-5)

    class Given(torch.nn.Module):
        def forward(self, x, r, t):
            return logits

    loss = MeanFlow()(FlowMapKernel(Given(), 3), path)  # summed over a sequence
    assert loss.item() / noise[0].numel() == pytest.approx(fixture["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ConsistencyLoss(3, 0), "at least one interval"),
        (lambda: MomentMatching(3, 0), "at least one particle"),
        (lambda: MomentMatching(3, 5)(random_kernel(), path_of("consistency")), "no groups of 5"),
        (lambda: OnFraction(0.0, SemigroupLoss()), "fraction of a batch"),
        (lambda: DyadicTimes(3, -1), "levels must be"),
        (lambda: Grouped(ToEnd(3), 0), "at least one path"),
        (lambda: ConsistencyLoss(3)(BOUNDARY, path_of("consistency")), "discrete states"),
    ],
)
def test_bad_input_is_rejected(call, message):
    with pytest.raises(InputError, match=message):
        call()
