"""Laws of the samplers that repeat a one-step generation: refining and restarts."""

import itertools

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, FlowMapKernel
from discrete_meanflow.network import MLP, DiT
from discrete_meanflow.sampler import (
    KernelSampler,
    RefiningSampler,
    temperature,
)
from discrete_meanflow.schedule import Linear
from laws.exact_flow import EXACT, PROCESS, pair_law
from problems import seeded
from statistics_of_draws import passes_chi_square

BOTH = pytest.mark.parametrize(
    "kind", [RefiningSampler, KernelSampler.restarts], ids=["refining", "restarts"]
)
N, D = 300, 5
CONDITION = torch.ones(N, D, dtype=torch.long), (torch.arange(D) < 2).expand(N, D)


@pytest.fixture(scope="module")
def untrained():
    """Its laws are far from uniform and from certain."""
    network = DiT(3, D, 32, 1, 2)
    for i, p in enumerate(network.parameters()):
        torch.nn.init.normal_(p, std=0.3, generator=seeded(i))
    return FlowMapKernel(network, 3)


@BOTH
@pytest.mark.parametrize("processors", [[], [temperature(2.0)]], ids=["", "temperature"])
@pytest.mark.parametrize("condition", [(), CONDITION], ids=["", "observed"])
def test_one_evaluation_is_one_step(kind, processors, condition, untrained):
    noise = PROCESS.source((N, D), seeded())
    ours, one = (
        made(untrained, logit_processors=processors, **k).sample(noise, seeded(1), *condition)
        for made, k in ((kind, {"k": 1}), (KernelSampler, {}))
    )
    assert torch.equal(ours, one)


def test_one_guided_evaluation_is_one_guided_step(untrained):
    noise = PROCESS.source((N, D), seeded())
    one = KernelSampler(untrained, guidance=3.0).sample(noise, seeded(), *CONDITION)
    ours = RefiningSampler(untrained, 1, guidance=3.0).sample(noise, seeded(), *CONDITION)
    assert torch.equal(ours, one)
    three = [
        RefiningSampler(untrained, 3, guidance=w).sample(noise, seeded(), *CONDITION)
        for w in (1.0, 3.0)
    ]
    assert not torch.equal(*three)
    with pytest.raises(InputError, match="guidance needs observed positions"):
        RefiningSampler(untrained, 3, guidance=3.0).sample(noise, seeded())


@pytest.mark.parametrize("processors", [[], [temperature(2.0)]], ids=["", "temperature"])
@pytest.mark.parametrize(
    ("condition", "counts"), [((), [2, 4]), (CONDITION, [3, 4])], ids=["", "observed"]
)
def test_kept_positions_stay(condition, counts, processors, untrained):
    """A third of the free positions, then half of the rest, rounded up."""
    sampler = RefiningSampler(untrained, 3, processors)
    noise = PROCESS.source((N, D), seeded())
    states = list(sampler.trajectory(noise, seeded(), *condition))
    kept = [(state == 1).any(-1) for state in states]
    assert [mask.sum(-1).unique().tolist() for mask in kept[:-1]] == [[n] for n in counts]
    for (before, after), mask in zip(itertools.pairwise(states), kept, strict=False):
        assert torch.equal(before[mask], after[mask])
    symbols = states[-2][kept[-2]].argmax(-1)
    assert torch.equal(sampler.sample(noise, seeded(), *condition)[kept[-2]], symbols)


def test_the_most_confident_positions_are_kept(untrained):
    noise = PROCESS.source((N, D), seeded())
    q = next(KernelSampler(untrained).trajectory(noise, seeded()))
    first = next(RefiningSampler(untrained, D, certain=1).trajectory(noise, seeded()))
    assert torch.equal((first == 1).any(-1).long().argmax(-1), q.amax(-1).argmax(-1))
    alike = next(RefiningSampler(untrained, D, certain=0).trajectory(noise, seeded()))
    positions = (alike == 1).any(-1).long().argmax(-1)
    assert passes_chi_square(positions, torch.ones(D) / D)


@BOTH
@pytest.mark.parametrize("observed", [False, True])
def test_samples_of_an_exact_flow_map_are_exact(kind, observed):
    """Also given the first position, where the noise of the others is new each time."""
    n = 4000
    tokens = torch.full((n, 2), 1)
    given = (tokens, (torch.arange(2) < 1).expand(n, 2)) if observed else ()
    y = kind(EXACT, 2).sample(PROCESS.source((n, 2), seeded()), seeded(1), *given)
    assert passes_chi_square(3 * y[:, 0] + y[:, 1], pair_law(observed))


@BOTH
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((BoundaryKernel(MLP(3), 3, Linear()), 2), "needs a FlowMapKernel; BoundaryKernel"),
        ((EXACT, 0), "at least one step"),
    ],
)
def test_bad_input_is_rejected(kind, arguments, message):
    with pytest.raises(InputError, match=message):
        kind(*arguments)


def test_certainty_is_a_probability():
    with pytest.raises(InputError, match="must lie in"):
        RefiningSampler(EXACT, 2, certain=1.5)
