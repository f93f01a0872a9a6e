"""Laws of observed positions, and one-step samples given them against exact conditionals."""

import copy
import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from discrete_meanflow.data import TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, kernel_for
from discrete_meanflow.metric.divergence import frequencies, total_variation
from discrete_meanflow.network import DiT, FlatMLP, LogitMask, Transformer
from discrete_meanflow.objective import KernelCE, PosteriorRegression
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import (
    FewPositions,
    FixedPositions,
    Masking,
    MixedPositions,
    OneHotFlow,
    PrefixPositions,
    RandomPositions,
    UnionPositions,
)
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.times import ClockUniform, UniformGap
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe, Trainer

LAWS = {
    "random": RandomPositions(0.5),
    "few": FewPositions(0.5),
    "prefix": PrefixPositions(0.5),
    "fixed": FixedPositions([1], 0.5),
    "mixed": MixedPositions(0.5, FewPositions(1.0), PrefixPositions(1.0), RandomPositions(1.0)),
    "union": UnionPositions(FixedPositions([1], 0.3), PrefixPositions(0.3)),
}
XOR = torch.tensor([[a, b, a ^ b] for a, b in itertools.product(range(2), repeat=2)])
MASKS = MixedPositions(0.5, RandomPositions(1.0), FewPositions(1.0), PrefixPositions(1.0))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@given(length=st.integers(2, 9), seed=st.integers(0, 99))
def test_masks_have_the_shape_and_are_a_function_of_the_seed(law, length, seed):
    mask = law.sample((3, 5), length, seeded(seed))
    assert mask.shape == (3, 5, length)
    assert mask.dtype == torch.bool
    assert torch.equal(mask, law.sample((3, 5), length, seeded(seed)))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_fraction_of_conditioned_sequences(law):
    conditioned = law.sample((20_000,), 6, seeded()).any(-1).double().mean()
    expected = {"random": 0.5 * 6 / 7, "union": 1 - 0.7**2}.get(
        next(name for name, other in LAWS.items() if other is law), 0.5
    )
    if law is LAWS["mixed"]:
        expected = 0.5 * (2 + 6 / 7) / 3
    assert abs(conditioned - expected) < 0.02  # 5 standard errors


@given(length=st.integers(2, 9), most=st.integers(1, 12), seed=st.integers(0, 99))
def test_few_positions_are_one_to_most_and_leave_one(length, most, seed):
    counts = FewPositions(1.0, most).sample((200,), length, seeded(seed)).sum(-1)
    assert counts.min() >= 1
    assert counts.max() <= min(most, length - 1)


@given(length=st.integers(2, 9), seed=st.integers(0, 99))
def test_prefixes_have_no_gap_and_leave_one(length, seed):
    mask = PrefixPositions(1.0).sample((500,), length, seeded(seed))
    assert not bool((mask[:, 1:] & ~mask[:, :-1]).any())
    assert set(mask.sum(-1).tolist()) == set(range(1, length))


def test_mixtures_need_laws_and_few_a_position():
    with pytest.raises(InputError, match="at least one law"):
        MixedPositions(0.5)
    with pytest.raises(InputError, match="at least one position"):
        FewPositions(0.5, 0)
    assert repr(MASKS) == (
        "MixedPositions(0.5, RandomPositions(1), FewPositions(1, 3), PrefixPositions(1))"
    )


def trained(problem, recipe, kernels=None):
    trainer = Trainer(problem, recipe, [0], "cpu", kernels)
    for _ in trainer.blocks():
        pass
    return trainer.kernels()[0]


def conditional_tv(kernel, process, condition, observed):
    """TV of the free positions of one-step samples given a condition, from XOR's conditional."""
    draws, g = 4000, seeded(1)
    tokens, mask = torch.tensor(condition), torch.tensor(observed)
    start = process.source((draws, 3), g)
    samples = KernelSampler(kernel).sample(start, g, tokens.expand(draws, 3), mask.expand(draws, 3))
    assert bool((samples[:, mask] == tokens[mask]).all())
    match = XOR[(XOR[:, mask] == tokens[mask]).all(-1)]
    powers = torch.tensor([9, 3, 1])  # of two symbols and a mask
    laws = [frequencies((x * powers).sum(-1), 27) for x in (samples, match)]
    return total_variation(*laws).item()


CONDITIONS = {
    "single": ([1, 0, 0], [True, False, False]),
    "prefix": ([0, 1, 0], [True, True, False]),
    "subset": ([1, 0, 1], [True, False, True]),
    "all but one": ([0, 1, 1], [False, True, True]),
}


@pytest.fixture(
    scope="module",
    params=[(lambda: FlatMLP(2, 3, 64, 2), 0.0), (lambda: DiT(2, 3, 32, 2, 2), 4.0)],
    ids=["MLP", "Transformer"],
)
def flow_map(request):
    """A flow map of XOR, trained for seconds with the two stages of ``dmf train``."""
    network, muon_ratio = request.param
    process, data = OneHotFlow(2), TokenArray(XOR, 2)
    paths = DataPaths(process, data, ClockUniform(2), MASKS)
    first = Problem(paths, lambda: FlowMapKernel(network(), 2), PosteriorRegression())
    recipe = Recipe(400, 128, 3e-3, ema_decay=0.99, muon_ratio=muon_ratio, compiled=False)
    teacher = trained(first, recipe)
    stage = FlowMapDistillation(20_000, 16, replace(recipe, batch=256))
    return trained(stage.problem(first, teacher, 0), stage.recipe, [copy.deepcopy(teacher)])


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_one_step_samples_follow_the_exact_conditional(flow_map, condition):
    assert conditional_tv(flow_map, OneHotFlow(2), *condition) < 0.1


@pytest.mark.parametrize("condition", list(CONDITIONS.values())[1:], ids=list(CONDITIONS)[1:])
def test_discrete_states_follow_the_exact_conditional(condition):
    """One step of the paper's kernel, where a single position is free."""
    process, data = Masking(2), TokenArray(XOR, 2)
    paths = DataPaths(process, data, UniformGap(0.02), MASKS)
    problem = Problem(
        paths, lambda: kernel_for(process, Transformer(3, 3, 32, 1, 2, 32, 16)), KernelCE()
    )
    kernel = trained(problem, Recipe(400, 128, 3e-3, ema_decay=0.99, compiled=False))
    assert conditional_tv(kernel, process, *condition) < 0.05


def test_entries_of_symbols_that_a_position_cannot_have_are_not_seen():
    allowed = torch.tensor([[True, True, False], [True, True, True]])
    network = LogitMask(FlatMLP(3, 2, 16, 1), allowed)
    torch.nn.init.normal_(network.network.last.weight)
    x, time = torch.randn(4, 2, 3, generator=seeded()), torch.full((4, 1), 0.3)
    other = x.clone()
    other[:, 0, 2] += 5
    assert torch.equal(network(x, time, time), network(other, time, time))
    other[:, 1, 2] += 5
    assert not torch.allclose(network(x, time, time), network(other, time, time))
