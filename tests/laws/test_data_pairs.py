"""Laws of teacher pairs from data: normal noise that leads forward to a record."""

import dataclasses
import json

import pytest
import torch

from discrete_meanflow.data import BigramChain, TokenArray
from discrete_meanflow.errors import Interrupted
from discrete_meanflow.kernel import ExactPosterior, FlowMapKernel
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.path import DataPaths, TeacherPairs
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.sampler import ODESampler, TwoWayODE
from discrete_meanflow.sampler.two_way_ode import LATE, backward_grid
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import (
    FlowMapDistillation,
    NoiseMoments,
    Recipe,
    describe_pairs,
    distillation,
)
from laws.exact_flow import LAW, PROCESS, ExactFlow, twins_problem
from problems import seeded

EXACT = FlowMapKernel(ExactPosterior(LAW, PROCESS), PROCESS.states)


def exact_pairs(pairs, conditioning=0.0, data=LAW, **settings):
    stage = FlowMapDistillation(pairs, 16, Recipe(1), **settings)
    paths = DataPaths(PROCESS, data, ClockUniform(3), conditioning)
    return stage.teacher_pairs(paths, EXACT, seed=0)


def test_exact_pairs_from_data_have_normal_noise():
    pairs = exact_pairs(20_000, full_interval_fraction=1, data_fraction=1)
    z = pairs.starts.double()
    n = z.numel()
    assert z.mean().abs() < 4 / n**0.5
    assert (z.var() - 1).abs() < 0.01 + 4 * (2 / n) ** 0.5  # 0.01: of sixteen steps
    assert ((z - z.mean()).pow(4).mean() / z.var().square() - 3).abs() < 4 * (24 / n) ** 0.5
    covariance = z.flatten(1).T.cov() - torch.eye(z[0].numel())
    assert covariance.abs().max() < 0.01 + 5 * (2 / len(z)) ** 0.5


@pytest.mark.parametrize(("states", "length"), [(4, 8), (8, 16), (60, 4)])
def test_exact_pairs_from_data_lead_forward_to_their_record(states, length):
    law, process = BigramChain.dirichlet(states, length), OneHotFlow(states)
    kernel = FlowMapKernel(ExactPosterior(law, process), states)
    paths = DataPaths(process, law, ClockUniform(states))
    stage = FlowMapDistillation(200, 16, Recipe(1), full_interval_fraction=1, data_fraction=1)
    pairs = stage.teacher_pairs(paths, kernel, seed=0)
    y = ODESampler(kernel, 16).sample(pairs.starts.double(), seeded())
    assert (y == pairs.ends).all(-1).double().mean() > 0.95
    assert (pairs.starts.double().var() - 1).abs() < 0.03


def test_the_backward_solver_is_of_second_order():
    zero = torch.zeros(300, 1, dtype=torch.float64)
    z = PROCESS.source((300, 2), seeded()).double()
    late = ExactFlow().integrate(z, zero, zero + LATE)

    def error(k):
        *_, end = TwoWayODE(EXACT, k, torch.ones(300, dtype=torch.bool)).trajectory(late, seeded())
        return (end - z).abs().mean().item()

    assert error(64) < error(8) / 4**2.4  # three doublings


def test_forward_sequences_do_not_depend_on_backward_ones():
    x = PROCESS.source((6, 2), seeded()).double()
    backward = torch.arange(6) % 2 == 1
    both = list(TwoWayODE(EXACT, 4, backward).trajectory(x, seeded()))
    for i, state in enumerate(ODESampler(EXACT, 4).trajectory(x, seeded())):
        assert torch.allclose(both[i][~backward], state[~backward])


@pytest.mark.parametrize("states", [2, 27, 400, 10_000])
@pytest.mark.parametrize("k", [1, 2, 16, 500])
def test_the_backward_grid_increases_to_late_times(states, k):
    grid = torch.tensor(backward_grid(states, k), dtype=torch.float64)
    assert len(grid) == k + 1
    assert grid[0] == 0
    assert grid[-1] == LATE
    assert bool((grid.diff() > 0).all())


def test_observed_positions_keep_their_symbols_at_all_times():
    pairs = exact_pairs(500, conditioning=0.9, full_interval_fraction=0.5, data_fraction=1)
    assert bool(pairs.from_data.all())
    observed = pairs.observed
    assert 0.1 < observed.double().mean() < 0.9
    one_hot = torch.eye(3).half()[pairs.ends[observed].long()]
    assert torch.equal(pairs.starts[observed], one_hot)


@pytest.mark.parametrize("minibatch_ot", [0, 8])
@pytest.mark.parametrize("fraction", [0, 0.3, 0.5, 1])
def test_the_fraction_from_data_is_as_asked(fraction, minibatch_ot, monkeypatch):
    """In every chunk; pairs from data end in records, others need not."""
    monkeypatch.setattr(distillation, "chunk_size", lambda *sizes: 40)
    records = TokenArray(torch.tensor([[0, 1], [2, 0]]), 3)
    paths = DataPaths(OneHotFlow(3, minibatch_ot), records, ClockUniform(3), 0.5)
    stage = FlowMapDistillation(100, 4, Recipe(1), full_interval_fraction=1, data_fraction=fraction)
    pairs = stage.teacher_pairs(paths, EXACT, seed=0)
    counts = [int(part.sum()) for part in pairs.from_data.split(34)]
    assert all(
        abs(count - fraction * size) < 1 for count, size in zip(counts, (34, 34, 32), strict=True)
    )
    is_record = (pairs.ends[:, None].long() == records.tokens).all(-1).any(-1)
    assert bool(is_record[pairs.from_data].all())
    assert fraction == 1 or not bool(is_record.all())


def test_interrupted_pairs_are_made_again(monkeypatch):
    monkeypatch.setattr(distillation, "chunk_size", lambda *sizes: 20)
    paths = DataPaths(PROCESS, LAW, ClockUniform(3), 0.5)
    stage = FlowMapDistillation(50, 4, Recipe(1))
    with pytest.raises(Interrupted):
        stage.teacher_pairs(paths, EXACT, 0, stopped=lambda done: done > 0.5)
    first, again = (stage.teacher_pairs(paths, EXACT, seed=0) for _ in range(2))
    for name in ("starts", "ends", "times", "observed", "from_data"):
        assert torch.equal(getattr(first, name), getattr(again, name))


def test_the_report_of_exact_pairs():
    pairs = exact_pairs(4000, conditioning=0.5)
    report = describe_pairs(pairs, TokenArray(torch.tensor([[0, 1]]), 3), ODESampler(EXACT, 16))
    assert report.returned > 0.95
    assert abs(report.noise.mean) < 0.05
    assert abs(report.noise.variance - 1) < 0.05
    assert abs(report.noise.kurtosis - 3) < 0.2
    assert report.noise.correlation < 0.05
    assert report.copies == pytest.approx(LAW.log_prob(torch.tensor([0, 1])).exp().item(), abs=0.05)
    assert json.dumps(dataclasses.asdict(report))


def test_the_report_lacks_what_does_not_exist():
    ode = ODESampler(EXACT, 4)
    report = describe_pairs(exact_pairs(50, data_fraction=0), LAW, ode)
    assert (report.copies, report.returned, report.noise) == (None, None, None)
    report = describe_pairs(exact_pairs(50, full_interval_fraction=0), LAW, ode)
    assert (report.copies, report.returned, report.noise) == (None, None, None)


def test_moments_see_correlated_coordinates():
    g, free = seeded(), torch.rand(2000, 4, generator=seeded(1)) < 0.7
    z = torch.randn(2000, 4, 3, generator=g)
    assert NoiseMoments.of(z, free).correlation < 0.02
    shared = (z + torch.randn(2000, 1, 1, generator=g)) / 2**0.5
    assert NoiseMoments.of(shared, free).correlation == pytest.approx(0.5, abs=0.05)


def test_the_student_s_problem_has_a_report():
    problem = twins_problem(PosteriorRegression(), conditioning=0.5)
    teacher, stage = problem.build(0), FlowMapDistillation(100, 2, Recipe(1))
    student = stage.problem(problem, teacher, seed=0)
    assert isinstance(student.paths.parts[1], TeacherPairs)
    report = stage.report(student, teacher)
    assert 0 <= report.copies <= 1
    assert 0 <= report.returned <= 1
    assert stage.describe()["data_fraction"] == stage.data_fraction
