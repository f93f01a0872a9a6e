"""Laws of a flow map whose steps to time 1 have a network of their own."""

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


FIRST, LAST = flow_map(1), flow_map(2)
BOTH = MatchedFlowMap(FIRST, LAST)


def sample(sampler, observed=False):
    noise = FLOW.source((32, D), seeded(3))
    mask = torch.arange(D).expand(32, D) < 1
    condition = (torch.ones(32, D, dtype=torch.long), mask) if observed else ()
    return sampler.sample(noise, seeded(4), *condition)


@pytest.mark.parametrize("observed", [False, True])
def test_one_step_is_that_of_the_last_network(observed):
    for sampler in (KernelSampler, lambda k: RefiningSampler(k, 1), lambda k: RestartSampler(k, 1)):
        assert torch.equal(sample(sampler(BOTH), observed), sample(sampler(LAST), observed))


@pytest.mark.parametrize("make", [RefiningSampler, RestartSampler])
def test_samplers_that_jump_to_the_end_use_the_last_network_only(make):
    assert torch.equal(sample(make(BOTH, 3)), sample(make(LAST, 3)))


def test_steps_that_end_before_1_use_the_flow_map():
    early = KernelSampler(BOTH, (0.0, 0.3, 0.8))
    assert torch.equal(sample(early), sample(KernelSampler(FIRST, early.grid)))
    assert torch.equal(sample(ODESampler(BOTH, 4)), sample(ODESampler(FIRST, 4)))


@pytest.mark.parametrize("guidance", [1.0, 2.0])
def test_only_the_last_of_several_steps_uses_the_last_network(guidance):
    grid = (0.0, 0.5, 1.0)
    noise, mask = FLOW.source((32, D), seeded(3)), torch.arange(D).expand(32, D) < 1
    tokens = torch.ones(32, D, dtype=torch.long)
    seen = []
    hooks = [
        kernel.network.register_forward_hook(lambda m, x, y, name=name: seen.append(name))
        for name, kernel in (("flow map", FIRST), ("last", LAST))
    ]
    KernelSampler(BOTH, grid, guidance=guidance).sample(noise, seeded(), tokens, mask)
    for hook in hooks:
        hook.remove()
    evaluations = 1 if guidance == 1 else 2
    assert seen == ["flow map"] * evaluations + ["last"] * evaluations


def test_states_must_agree():
    with pytest.raises(InputError, match="the last step"):
        MatchedFlowMap(FIRST, FlowMapKernel(FlatMLP(V + 1, D, 8, 1), V + 1))
