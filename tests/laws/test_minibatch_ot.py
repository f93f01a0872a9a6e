"""Laws of minibatch OT: permuted noise, closer to its data, with the same law at time 1."""

import pytest
import torch
from hypothesis import given, strategies as st

from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import ExactPosterior, FlowMapKernel
from discrete_meanflow.metric import frequencies, total_variation
from discrete_meanflow.network import DiagonalNetwork, FlatMLP
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import OneHotFlow, RandomPositions
from discrete_meanflow.process.minibatch_ot import greedy_assignment
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import ClockUniform, TimePair
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe, train_kernel
from dmf_reproduction.metrics import sequence_index
from problems import seeded

LAW = BigramChain.dirichlet(3, 4, 0.3)


@given(st.integers(1, 9), st.integers(0, 2**31), st.integers(1, 30))
def test_the_assignment_is_a_permutation_with_the_best_pair(m, seed, values):
    """Also with ties."""
    nearness = torch.randint(values, (3, m, m), generator=torch.Generator().manual_seed(seed))
    column = greedy_assignment(nearness.float())
    assert torch.equal(column.sort(-1).values, torch.arange(m).expand(3, m))
    chosen = nearness.gather(-1, column[..., None])[..., 0]
    assert torch.equal(chosen.amax(-1), nearness.amax((-1, -2)))


def starts(minibatch_ot, shape=(5, 30), conditioning=0.0):
    """Paths at r = 0, where the state is the noise."""
    g = seeded()
    x1, zero = LAW.sample(shape, g), torch.zeros(shape)
    observed = RandomPositions(conditioning).sample(shape, 4, g) if conditioning else None
    return OneHotFlow(3, minibatch_ot).path(x1, TimePair(zero, zero + 0.5), g, 0, observed)


@pytest.mark.parametrize("group", [1, 7, 64, 1000])
def test_noise_and_data_are_only_permuted(group):
    ours, plain = starts(group), starts(0)
    assert torch.equal(ours.x1, plain.x1)
    noises = [set(map(tuple, path.x.flatten(0, 1).flatten(1).tolist())) for path in (ours, plain)]
    assert noises[0] == noises[1]


def nearness(path):
    return (path.x * delta(path.x1, 3, path.x.dtype)).sum((-1, -2)).mean().item()


def test_assigned_noise_is_closer_in_larger_groups():
    near = [nearness(starts(group)) for group in (0, 5, 150)]
    assert near[0] < 0.5 < near[1] < near[2]
    assert nearness(starts(1)) == near[0]


def test_conditioned_sequences_keep_independent_noise():
    """Otherwise it would not be normal given the observed tokens, as it is in sampling."""
    ours, plain = (starts(group, conditioning=0.5) for group in (150, 0))
    conditioned = (plain.r == 1).any(-1)
    assert 0 < conditioned.sum() < conditioned.numel()
    assert torch.equal(ours.x[conditioned], plain.x[conditioned])
    assert not torch.equal(ours.x[~conditioned], plain.x[~conditioned])


def joint_tv(kernel, steps):
    y = KernelSampler.steps(kernel, steps).sample(
        OneHotFlow(3).source((20_000, 4), seeded()), seeded()
    )
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    return total_variation(frequencies(sequence_index(y, 3), 81), LAW.log_prob(every).exp()).item()


def test_assigned_noise_flows_to_the_law_of_the_data():
    """Through a diagonal that distinguishes noise vectors already at time 0."""

    def diagonal(minibatch_ot):
        problem = Problem(
            DataPaths(OneHotFlow(3, minibatch_ot), LAW, ClockUniform(3)),
            lambda: FlowMapKernel(FlatMLP(3, 4, 48, 1), 3),
            PosteriorRegression(),
        )
        recipe = Recipe(300, batch=128, learning_rate=5e-3, ema_decay=0.97)
        kernel = train_kernel(problem, recipe, seed=0)
        return FlowMapKernel(DiagonalNetwork(kernel.network), 3)

    plain, ours = diagonal(0), diagonal(128)
    z = OneHotFlow(3).source((500, 4), seeded())
    zero = torch.zeros(1, 1)
    spread = [k(z, zero, zero).softmax(-1).std(0).max().item() for k in (plain, ours)]
    assert spread[0] < 0.1 < spread[1]
    assert joint_tv(ours, 16) < 0.1
    assert 1.5 * joint_tv(ours, 2) < joint_tv(plain, 2)


def test_the_students_problem_keeps_the_assignment():
    paths = DataPaths(OneHotFlow(3, minibatch_ot=9), LAW, ClockUniform(3))
    kernel = FlowMapKernel(FlatMLP(3, 4, 8, 1), 3)
    first = Problem(paths, lambda: kernel, PosteriorRegression())
    student = FlowMapDistillation(20, 2, Recipe(1)).problem(first, kernel, 0)
    assert student.process is paths.process
    assert "minibatch_ot=9" in repr(student.paths)


def test_bad_group_sizes_are_rejected():
    with pytest.raises(InputError, match="group size >= 0"):
        OneHotFlow(3, minibatch_ot=-1)
    half = torch.full((1, 1), 0.5)
    with pytest.raises(InputError, match="no closed form"):
        ExactPosterior(LAW, OneHotFlow(3, minibatch_ot=2))(torch.zeros(1, 4, 3), half, half)
