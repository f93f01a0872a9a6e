"""Laws of a flow map whose one step (0, 1) has a network of its own."""

import pytest
import torch

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, MatchedFlowMap
from discrete_meanflow.network import FlatMLP
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, ODESampler, RefiningSampler
from laws.exact_flow import EXACT, PROCESS, pair_law
from problems import seeded
from statistics_of_draws import passes_chi_square

V, D = 3, 4
FLOW = OneHotFlow(V)


def flow_map(seed):
    kernel = FlowMapKernel(FlatMLP(V, D, 8, 1), V)
    for i, p in enumerate(kernel.parameters()):
        torch.nn.init.normal_(p, std=0.4, generator=seeded(100 * seed + i))
    return kernel


FIRST, ONE = flow_map(1), flow_map(2)
BOTH = MatchedFlowMap(FIRST, ONE)
CALLS = {"flow map": FIRST, "one step": ONE}


def sample(sampler, observed=False):
    noise = FLOW.source((32, D), seeded(3))
    mask = torch.arange(D).expand(32, D) < 1
    condition = (torch.ones(32, D, dtype=torch.long), mask) if observed else ()
    return sampler.sample(noise, seeded(4), *condition)


@pytest.fixture
def evaluated():
    """The names of the networks in the order of their evaluations."""
    seen = []
    hooks = [
        kernel.network.register_forward_hook(lambda m, x, y, name=name: seen.append(name))
        for name, kernel in CALLS.items()
    ]
    yield seen
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("observed", [False, True])
def test_one_step_has_its_own_network(observed):
    for made in (KernelSampler.steps, KernelSampler.restarts, RefiningSampler):
        assert torch.equal(sample(made(BOTH, 1), observed), sample(made(ONE, 1), observed))


def test_refined_samples_are_one_step_samples():
    assert torch.equal(sample(RefiningSampler(BOTH, 3)), sample(RefiningSampler(ONE, 3)))


def test_other_steps_use_the_flow_map():
    for grid in ((0.0, 0.3, 0.8), (0.0, 0.5, 1.0), (0.4, 1.0)):
        assert torch.equal(sample(KernelSampler(BOTH, grid)), sample(KernelSampler(FIRST, grid)))
    assert torch.equal(sample(ODESampler(BOTH, 4)), sample(ODESampler(FIRST, 4)))


@pytest.mark.parametrize("guidance", [1.0, 2.0])
@pytest.mark.parametrize("make", [KernelSampler.steps, KernelSampler.restarts])
@pytest.mark.parametrize("k", [1, 3])
def test_samples_begin_with_the_one_step(k, make, guidance, evaluated):
    sample(make(BOTH, k, guidance=guidance), observed=True)
    networks = ["one step"] + ["flow map"] * (k - 1)
    assert evaluated == [name for name in networks for _ in range(1 if guidance == 1 else 2)]


def test_steps_restart_earlier_the_more_there_are():
    assert BOTH.grid(4)[:2] == BOTH.grid(1) == [0, 1]
    for k, expected in ((2, [5 / 6, 1]), (5, [1 / 3, 1 / 2, 2 / 3, 5 / 6, 1])):
        clock = DecodingClock(V)(torch.tensor(BOTH.grid(k)[2:]).double())
        assert clock.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("observed", [False, True])
def test_samples_of_two_exact_networks_are_exact(k, observed):
    kernel, n = MatchedFlowMap(EXACT, EXACT), 4000
    condition = (torch.ones(n, 2, dtype=torch.long), (torch.arange(2) < 1).expand(n, 2))
    start = PROCESS.source((n, 2), seeded())
    y = KernelSampler.steps(kernel, k).sample(start, seeded(1), *(condition if observed else ()))
    assert passes_chi_square(3 * y[:, 0] + y[:, 1], pair_law(observed))


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize(("r", "t"), [(0.0, 1.0), (0.0, 0.5), (0.3, 1.0)])
def test_direct_calls_choose_the_network_by_their_times(r, t, observed):
    x, fixed = FLOW.source((8, D), seeded(5)), torch.zeros(8, D, dtype=torch.bool)
    fixed[:, 0] = observed
    times = [torch.full((8, D), s).masked_fill(fixed, 1) for s in (r, t)]
    assert torch.equal(BOTH(x, *times), BOTH.for_step(r, t)(x, *times))
    expected = ONE if (r, t) == (0, 1) else FIRST
    assert torch.equal(BOTH(x, *times), expected(x, *times))


def test_direct_calls_choose_the_network_of_each_sequence():
    x = FLOW.source((2, D), seeded(5))
    r, t = torch.zeros(2, 1), torch.tensor([[1.0], [0.5]])
    expected = torch.stack([ONE(x, r, t)[0], FIRST(x, r, t)[1]])
    assert torch.equal(BOTH(x, r, t), expected)


def test_states_must_agree():
    with pytest.raises(InputError, match="the one step Continuous"):
        MatchedFlowMap(FIRST, FlowMapKernel(FlatMLP(V + 1, D, 8, 1), V + 1))
