"""Laws of unmasking in groups: a partition, and draws that follow the joint law."""

import itertools

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import BoundaryKernel, ExactPosterior
from discrete_meanflow.network import MLP, Transformer
from discrete_meanflow.process import Masking
from discrete_meanflow.sampler import (
    ConfidenceSampler,
    UnmaskingSampler,
    bisection,
    forbid,
    temperature,
)
from discrete_meanflow.schedule import Linear
from problems import seeded
from statistics_of_draws import passes_chi_square

V, D, N = 3, 5, 20_000


CHAIN = BigramChain.dirichlet(V, D, 0.3, seed=1)
EXACT = BoundaryKernel(ExactPosterior(CHAIN, Masking(V)), V + 1, Linear(), V)


def joint_law():
    """The probability of each of the V^D sequences, in the order of their numbers."""
    return CHAIN.log_prob(torch.tensor(list(itertools.product(range(V), repeat=D)))).exp()


def numbers(y):
    return (y * V ** torch.arange(D - 1, -1, -1)).sum(-1)


def test_confidence_order_draws_from_the_joint_law_one_position_at_a_time():
    sampler = ConfidenceSampler(EXACT, D)
    states = list(sampler.trajectory(torch.full((N, D), V), seeded()))
    assert [int((x == V).sum(-1).unique()) for x in states] == [4, 3, 2, 1, 0]
    assert passes_chi_square(numbers(states[-1]), joint_law())


def test_confidence_order_unmasks_the_surest_positions_and_keeps_known_ones():
    x = torch.full((1, D), V).index_fill(-1, torch.tensor([2]), 1)
    logits = torch.zeros(1, D, V + 1).index_put(
        (torch.tensor(0), torch.tensor([1, 2, 4]), torch.tensor(0)), torch.tensor([5.0, 9.0, 3.0])
    )

    class Fixed(nn.Module):
        def forward(self, x, r, t):
            return logits

    kernel = BoundaryKernel(Fixed(), V + 1, Linear(), V)
    first, second = ConfidenceSampler(kernel, 2, [temperature(0.01)]).trajectory(x, seeded())
    assert first[0].tolist() == [V, 0, 1, V, 0]
    assert int(second.max()) < V
    assert second[0, 2] == 1


@given(st.integers(1, 200), st.integers(1, 12))
def test_groups_partition_the_positions_in_at_most_k(length, k):
    groups = bisection(length, k)
    assert len(groups) <= k
    assert all(groups)
    assert sorted(itertools.chain(*groups)) == list(range(length))


@given(st.integers(2, 200))
def test_with_enough_steps_two_of_a_group_have_a_known_position_between(length):
    groups = bisection(length, 64)
    assert groups[0] == [0]
    assert len(groups) == (length - 1).bit_length() + 1
    known = set()
    for group in groups:
        for a, b in itertools.pairwise(group):
            assert any(a < i < b for i in known)
        known |= set(group)


@pytest.mark.parametrize("steps", [4, 8])
def test_bisection_draws_from_the_joint_law_of_a_chain(steps):
    sampler = UnmaskingSampler.bisecting(EXACT, D, steps)
    assert passes_chi_square(numbers(sampler.sample(torch.full((N, D), V), seeded())), joint_law())


@pytest.mark.parametrize("steps", [1, 2])
def test_in_too_few_steps_it_does_not(steps):
    sampler = UnmaskingSampler.bisecting(EXACT, D, steps)
    y = sampler.sample(torch.full((N, D), V), seeded())
    assert not passes_chi_square(numbers(y), joint_law())


def test_known_positions_stay_and_the_others_follow_them():
    x = torch.full((N, D), V)
    x[:, 2] = 1
    y = UnmaskingSampler(EXACT, [[2], [0, 4], [1, 3]]).sample(x, seeded())
    assert (y[:, 2] == 1).all()
    given = joint_law().reshape([V] * D).clone()
    given[:, :, [0, 2]] = 0
    assert passes_chi_square(numbers(y), given.flatten() / given.sum())


class Recording(nn.Module):
    """A network that records its inputs."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def forward(self, x, r, t):
        self.asked.append((x.argmax(-1), r.clone(), t.clone()))
        return torch.zeros_like(x)


def test_the_network_is_evaluated_at_the_known_fraction():
    network = Recording()
    x = torch.full((2, D), V)
    x[1, 3] = 0  # known from the start
    UnmaskingSampler(BoundaryKernel(network, V + 1, Linear(), V), [[0, 4], [1, 2, 3]]).sample(
        x, seeded()
    )
    for (states, r, t), known in zip(network.asked, ([0, 1], [2, 3]), strict=True):
        assert states.ne(V).sum(-1).tolist() == known
        assert torch.allclose(r, (torch.tensor(known) / D)[:, None].expand(2, D).double())
        assert bool((t == 1).all())


def test_no_mask_remains_and_processors_act_on_every_step():
    flat = BoundaryKernel(Recording(), V + 1, Linear(), V)
    y = UnmaskingSampler.bisecting(flat, D, 3).sample(torch.full((500, D), V), seeded())
    assert set(y.unique().tolist()) == {0, 1, 2}
    y = UnmaskingSampler.bisecting(flat, D, 3, [forbid(0)]).sample(
        torch.full((500, D), V), seeded()
    )
    assert set(y.unique().tolist()) == {1, 2}


@pytest.mark.parametrize(
    "groups", [[[0, 1], [1, 2, 3, 4]], [[1, 2, 3, 4, 5]], [], [[], [0, 1, 2, 3, 4]]]
)
def test_groups_that_do_not_partition_are_rejected(groups):
    with pytest.raises(InputError, match="must lie in one group"):
        UnmaskingSampler(EXACT, groups)


def test_a_kernel_without_masks_is_rejected():
    with pytest.raises(InputError, match="kernel with a mask symbol"):
        UnmaskingSampler(BoundaryKernel(MLP(4), 4, Linear()), [[0]])


@pytest.mark.parametrize(
    ("x", "what"),
    [
        (torch.full((3, 4), V), "length 5"),
        (torch.tensor(V), "length 5"),
        (torch.full((3, D), -1), "must lie in 0 .. 3, got -1"),
        (torch.full((3, D), V + 5), "must lie in 0 .. 3, got 8"),
    ],
)
def test_starts_that_do_not_fit_are_rejected(x, what):
    network = Transformer(V + 1, D, 16, 1, 2, 16, 8)
    with pytest.raises(InputError, match=what):
        UnmaskingSampler.bisecting(BoundaryKernel(network, V + 1, Linear(), V), D, 2).sample(
            x, seeded()
        )


def test_no_steps_are_rejected():
    with pytest.raises(InputError, match="needs positions and steps"):
        bisection(5, 0)
