"""Laws of matched noise: the same noise, dealt out to data that are near, with the same end."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.metric import frequencies, total_variation
from discrete_meanflow.metric.sequences import sequence_index
from discrete_meanflow.network import DiagonalNetwork, FlatMLP
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.process import ExactPosterior, OneHotFlow
from discrete_meanflow.process.minibatch_ot import greedy_assignment
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import ClockUniform, TimePair
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe, train
from problems import seeded

LAW = BigramChain.dirichlet(3, 4, 0.3)


@given(st.integers(1, 9), st.integers(0, 2**31), st.integers(1, 30))
def test_pairs_are_a_permutation_and_the_nearest_is_among_them(m, seed, values):
    """Also where many are equally near."""
    nearness = torch.randint(values, (3, m, m), generator=torch.Generator().manual_seed(seed))
    column = greedy_assignment(nearness.float())
    assert torch.equal(column.sort(-1).values, torch.arange(m).expand(3, m))
    chosen = nearness.gather(-1, column[..., None])[..., 0]
    assert torch.equal(chosen.amax(-1), nearness.amax((-1, -2)))


def starts(minibatch_ot, shape=(5, 30), conditioning=0.0):
    """Paths at r = 0, where the state is the noise itself."""
    process, zero = OneHotFlow(LAW, conditioning, minibatch_ot), torch.zeros(shape)
    return process.path(TimePair(zero, zero + 0.5), seeded(), 0)


@pytest.mark.parametrize("group", [1, 7, 64, 1000])
def test_the_noise_is_the_same_and_the_data_too(group):
    ours, plain = starts(group), starts(0)
    assert torch.equal(ours.x1, plain.x1)
    noises = [set(map(tuple, path.x.flatten(0, 1).flatten(1).tolist())) for path in (ours, plain)]
    assert noises[0] == noises[1]


def nearness(path):
    return (path.x * delta(path.x1, 3, path.x.dtype)).sum((-1, -2)).mean().item()


def test_matched_noise_is_near_its_data_and_nearer_in_larger_groups():
    near = [nearness(starts(group)) for group in (0, 5, 150)]
    assert near[0] < 0.5 < near[1] < near[2]
    assert nearness(starts(1)) == near[0]


def test_where_something_is_known_the_noise_is_independent():
    """Else it would not be normal given what is known, as it is when one samples."""
    ours, plain = (starts(group, conditioning=0.5) for group in (150, 0))
    known = (plain.r == 1).any(-1)
    assert 0 < known.sum() < known.numel()
    assert torch.equal(ours.x[known], plain.x[known])
    assert not torch.equal(ours.x[~known], plain.x[~known])


def joint_tv(kernel, steps):
    y = KernelSampler.steps(kernel, steps).sample(
        OneHotFlow(LAW).source((20_000, 4), seeded()), seeded()
    )
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    return total_variation(frequencies(sequence_index(y, 3), 81), LAW.log_prob(every).exp()).item()


def test_matched_noise_is_carried_to_the_law_of_the_data():
    """By a diagonal that already tells one noise from another at time 0."""

    def diagonal(minibatch_ot):
        problem = Problem(
            OneHotFlow(LAW, minibatch_ot=minibatch_ot),
            ClockUniform(3),
            lambda: FlowMapKernel(FlatMLP(3, 4, 48, 1), 3),
            PosteriorRegression(),
        )
        kernel = train(problem, Recipe(300, batch=128, learning_rate=5e-3, ema_decay=0.97), seed=0)
        return FlowMapKernel(DiagonalNetwork(kernel.network), 3)

    plain, ours = diagonal(0), diagonal(128)
    z = OneHotFlow(LAW).source((500, 4), seeded())
    zero = torch.zeros(1, 1)
    spread = [k(z, zero, zero).softmax(-1).std(0).max().item() for k in (plain, ours)]
    assert spread[0] < 0.1 < spread[1]
    assert joint_tv(ours, 16) < 0.1
    assert 1.5 * joint_tv(ours, 2) < joint_tv(plain, 2)


def test_couples_keep_to_it():
    process = OneHotFlow(LAW, minibatch_ot=9)
    kernel = FlowMapKernel(FlatMLP(3, 4, 8, 1), 3)
    assert FlowMapDistillation(20, 2, Recipe(1)).couples(process, kernel, 0).minibatch_ot == 9
    assert "minibatch_ot=9" in repr(process)
    assert "minibatch_ot" not in repr(OneHotFlow(LAW))


def test_what_cannot_be():
    with pytest.raises(InputError, match="groups of at least 1"):
        OneHotFlow(LAW, minibatch_ot=-1)
    half = torch.full((1, 1), 0.5)
    with pytest.raises(InputError, match="no closed form"):
        ExactPosterior(OneHotFlow(LAW, minibatch_ot=2))(torch.zeros(1, 4, 3), half, half)
