"""Laws of a flow map whose one step (0, 1) has a network of its own."""

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, MatchedFlowMap
from discrete_meanflow.network import FlatMLP
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import KernelSampler, ODESampler, RefiningSampler, RestartSampler
from problems import seeded

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
    for sampler in (KernelSampler, lambda k: RefiningSampler(k, 1), lambda k: RestartSampler(k, 1)):
        assert torch.equal(sample(sampler(BOTH), observed), sample(sampler(ONE), observed))


def test_refined_samples_are_one_step_samples():
    assert torch.equal(sample(RefiningSampler(BOTH, 3)), sample(RefiningSampler(ONE, 3)))


def test_other_steps_use_the_flow_map():
    for grid in ((0.0, 0.3, 0.8), (0.0, 0.5, 1.0), (0.4, 1.0)):
        assert torch.equal(sample(KernelSampler(BOTH, grid)), sample(KernelSampler(FIRST, grid)))
    assert torch.equal(sample(ODESampler(BOTH, 4)), sample(ODESampler(FIRST, 4)))


@pytest.mark.parametrize("guidance", [1.0, 2.0])
@pytest.mark.parametrize("steps", [1, 3])
def test_guidance_uses_one_network_in_each_step(steps, guidance, evaluated):
    sampler = KernelSampler.steps(BOTH, steps, guidance=guidance)
    sample(sampler, observed=True)
    network = "one step" if steps == 1 else "flow map"
    assert evaluated == [network] * (steps if guidance == 1 else 2 * steps)


def test_restarts_use_the_flow_map_after_the_first_step(evaluated):
    sample(RestartSampler(BOTH, 3))
    assert evaluated == ["one step", "flow map", "flow map"]


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize(("r", "t"), [(0.0, 1.0), (0.0, 0.5), (0.3, 1.0)])
def test_direct_calls_choose_the_network_by_their_times(r, t, observed):
    x, fixed = FLOW.source((8, D), seeded(5)), torch.zeros(8, D, dtype=torch.bool)
    fixed[:, 0] = observed
    times = [torch.full((8, D), s).masked_fill(fixed, 1) for s in (r, t)]
    assert torch.equal(BOTH(x, *times), BOTH.for_step(r, t)(x, *times))
    expected = ONE if (r, t) == (0, 1) else FIRST
    assert torch.equal(BOTH(x, *times), expected(x, *times))


def test_states_must_agree():
    with pytest.raises(InputError, match="the one step Continuous"):
        MatchedFlowMap(FIRST, FlowMapKernel(FlatMLP(V + 1, D, 8, 1), V + 1))
