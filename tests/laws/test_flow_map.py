"""Laws of flow maps on continuous states, against the exact flow of an enumerable law."""

import itertools

import pytest
import torch
from torch import nn

from discrete_meanflow.data import BigramChain, TokenArray, label_tokens, labelled
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import (
    BoundaryKernel,
    ExactPosterior,
    FlowMapKernel,
    from_denoiser,
    kernel_for,
)
from discrete_meanflow.metric import marginal_tv, pair_tv
from discrete_meanflow.network import MLP, DiagonalNetwork, FlatMLP
from discrete_meanflow.objective import (
    DenoiserDistillation,
    EulerianLoss,
    KernelCE,
    KernelResidual,
    LagrangianLoss,
    PairCrossEntropy,
    Phases,
    PosteriorRegression,
    SampledRate,
    SemigroupLoss,
)
from discrete_meanflow.objective.time_derivative import value_and_slope
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import FixedPositions, Masking, OneHotFlow, PathSample, Uniform
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import ClockUniform, TimePair
from discrete_meanflow.training import (
    FlowMapDistillation,
    Problem,
    Recipe,
    sequence_problem,
    train_kernel,
)
from discrete_meanflow.training.sequence_problem import flow_map_objective
from laws.exact_flow import LAW, PROCESS, ExactFlow, twins_problem
from problems import seeded
from statistics_of_draws import passes_chi_square


def path_of(times, seed=0):
    g = seeded(seed)
    return PROCESS.path(LAW.sample(tuple(times.r.shape), g), times, g, 0)


def exact_path(batch=200):
    times = torch.rand(3, batch, generator=seeded(), dtype=torch.float64).sort(0).values * 0.85
    path = path_of(TimePair(times[0], times[2], times[1]))
    return PathSample(*(part.double() if part.is_floating_point() else part for part in path))


FLOW_MAP = FlowMapKernel(FlatMLP(3, 2, 16, 1), 3)
BOUNDARY = BoundaryKernel(MLP(3, 8, 2), 3, Linear())
PATH = path_of(ClockUniform(3).sample((8,), seeded()))


def test_the_diagonal_posterior_is_bayes_rule():
    r = torch.full((50, 1), 0.4, dtype=torch.float64)
    x = PROCESS.corrupt(LAW.sample((50,), seeded()), r, seeded(1)).double()
    clean = torch.tensor(list(itertools.product(range(3), repeat=2)))
    points = delta(clean, 3, torch.float64)
    density = torch.distributions.Normal(0.4 * points, 0.6).log_prob(x[:, None]).sum((-1, -2))
    joint = (density + LAW.log_prob(clean)).softmax(-1)
    by_hand = torch.einsum("bs,sdv->bdv", joint, points)
    assert (ExactPosterior(LAW, PROCESS)(x, r, r).exp() - by_hand).abs().max() < 1e-6


def test_the_exact_flow_is_a_semigroup_and_solves_the_forward_equation():
    kernel, path = FlowMapKernel(ExactFlow(), 3), exact_path()
    q = kernel(path.x, path.r, path.t).exp()
    assert (q.sum(-1) - 1).abs().max() < 1e-6
    assert q.min() > -1e-6
    wrong = FlowMapKernel(DiagonalNetwork(ExactFlow()), 3)  # q(x, r, r) instead of q(x, r, t)
    for objective, small in (
        (SemigroupLoss(), 1e-9),
        (LagrangianLoss(floor=1e-9), 1e-7),
        (EulerianLoss(), 1e-7),
    ):
        assert abs(objective(kernel, path).item()) < small
        assert objective(wrong, path).item() > 1e-3


def test_the_exact_flow_has_the_joint_law_and_factorised_kernels_do_not():
    g = seeded()
    x = PROCESS.source((20_000, 2), g).double()
    kernel = FlowMapKernel(ExactFlow(), 3)
    tokens = kernel.decode(KernelSampler(kernel, [0.0, 0.97, 0.999]).sample(x, g))
    joint = LAW.log_prob(torch.tensor(list(itertools.product(range(3), repeat=2)))).exp()
    assert passes_chi_square(tokens[:, 0] * 3 + tokens[:, 1], joint)
    masking = Masking(3)
    factorised = BoundaryKernel(ExactPosterior(LAW, masking), 4, Linear(), masking.token)
    tokens = KernelSampler(factorised).sample(masking.source((20_000, 2), g), g)
    assert not passes_chi_square(tokens[:, 0] * 3 + tokens[:, 1], joint)


def test_no_gradient_flows_through_the_teacher():
    kernel, teacher = (FlowMapKernel(FlatMLP(3, 2, 16, 1), 3) for _ in range(2))
    for module in (kernel, teacher):
        for p in module.parameters():
            nn.init.normal_(p, std=0.3)
    path = path_of(ClockUniform(3).sample((32,), seeded()))
    for objective in (
        SemigroupLoss(),
        LagrangianLoss(),
        LagrangianLoss(frozen=teacher),
        EulerianLoss(),
    ):
        objective(kernel, path, teacher).backward()
        assert all(p.grad is None for p in teacher.parameters())
        assert all(p.grad is not None for p in kernel.parameters())
        assert all(p.grad is None for p in objective.parameters())
        kernel.zero_grad()


@pytest.mark.parametrize(
    "objective",
    [PosteriorRegression(), SemigroupLoss(), LagrangianLoss(), EulerianLoss()],
)
def test_half_precision_is_for_the_network_alone(objective):
    """The loss stays in float32, close to that without autocast; derivatives do not change."""
    kernel = FlowMapKernel(FlatMLP(3, 2, 16, 1), 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for p in kernel.parameters():
            nn.init.normal_(p, std=0.3)
    path = path_of(ClockUniform(3).sample((64,), seeded()))
    full = objective(kernel, path)
    with torch.autocast("cpu", torch.bfloat16):
        half = objective(kernel, path)
        f = lambda t: kernel(path.x, path.r, t)  # noqa: E731
        slope, logits = value_and_slope(f, path.t)[1], f(path.t)
    assert half.dtype == logits.dtype == torch.float32
    assert half != full
    assert abs(half - full) < 0.02 * full + 1e-3
    assert torch.equal(slope, value_and_slope(f, path.t)[1])
    assert not torch.equal(logits, f(path.t))


def test_a_class_is_a_set_of_observed_positions():
    """Class 0 is 00, class 1 is 11, class 2 (01 in base 2) is 01; trained with its label."""
    records = torch.tensor([[0, 0], [1, 1], [0, 1]])
    data = TokenArray(labelled(records, torch.arange(3), 3, 2), 2)
    assert data.tokens.tolist() == [[0, 0, 0, 0], [1, 1, 0, 1], [0, 1, 1, 0]]
    process = OneHotFlow(2)
    paths = DataPaths(process, data, ClockUniform(2, 0.2), FixedPositions([2, 3], 0.7))
    problem = Problem(paths, lambda: FlowMapKernel(FlatMLP(2, 4, 64, 1), 2), flow_map_objective())
    observed = paths.sample((4000,), seeded()).r == 1
    assert bool((observed[:, 2] == observed[:, 3]).all())
    assert not bool(observed[:, :2].any())
    assert abs(observed[:, 2].double().mean() - 0.7) < 0.05
    kernel = train_kernel(problem, Recipe(500, learning_rate=3e-3, ema_decay=0.98), seed=0)
    g, classes = seeded(), torch.arange(3).repeat(500)
    tokens = torch.cat([torch.zeros(1500, 2, dtype=torch.long), label_tokens(classes, 3, 2)], -1)
    labels = torch.tensor([False, False, True, True]).expand(1500, 4)
    y = KernelSampler(kernel).sample(process.source((1500, 4), g), g, tokens, labels)
    assert bool((y[:, 2:] == tokens[:, 2:]).all())
    assert (y[:, :2] == records[classes]).all(-1).double().mean() > 0.95


DISTILLED = {"masking": Masking(3), "uniform": Uniform(3), "one-hot flow": OneHotFlow(3)}


@pytest.mark.parametrize("name", DISTILLED)
def test_a_denoiser_is_distilled_into_a_kernel(name):
    """A denoiser, wrapped as a plain function, replaces the data for a new kernel.

    Discrete kernels get its marginals in one step; the flow map, through teacher pairs, the pairs
    for which the teacher needs many steps.
    """
    law, process = BigramChain.dirichlet(3, 4, 0.3, seed=2), DISTILLED[name]
    parts = {
        "process": process,
        "kernel": lambda: kernel_for(process, FlatMLP(process.states, 4, 64, 2)),
    }
    recipe = Recipe(250, learning_rate=5e-3, ema_decay=0.98)
    trained = train_kernel(sequence_problem(law, objective=PosteriorRegression(), **parts), recipe)
    teacher = from_denoiser(lambda x, time: trained(x, time, time), process)
    problem = sequence_problem(law, objective=DenoiserDistillation(teacher), **parts)
    student = train_kernel(problem, recipe, seed=1)
    untrained, start = problem.build(1), process.source((4000, 4), seeded())
    flow_map = isinstance(process, OneHotFlow)
    if flow_map:
        stage = FlowMapDistillation(4000, 16, recipe)
        second = stage.problem(problem, student, 0)
        student = train_kernel(second, stage.recipe, 0, start=student)
    measure = pair_tv if flow_map else marginal_tv

    def tv(kernel, steps):
        y = KernelSampler.steps(kernel, steps).sample(start, seeded())
        return measure(y, law, process.states)

    assert tv(student, 1) < 0.5 * tv(untrained, 1)
    assert tv(student, 1) < tv(teacher, 16 if flow_map else 1) + 0.05


def test_a_plain_denoiser_has_the_device_and_precision_of_like():
    masking = Masking(3)
    exact = BoundaryKernel(ExactPosterior(LAW, masking), 4, Linear(), masking.token)

    def denoiser(x, time):
        return exact(x, time.double(), time.double())

    assert from_denoiser(denoiser, masking).dtype == torch.float32
    teacher = from_denoiser(denoiser, masking, torch.empty(0, dtype=torch.float64))
    assert teacher.dtype == torch.float64
    problem = sequence_problem(LAW, objective=DenoiserDistillation(teacher))
    path = problem.sample((64,), seeded())
    start, perfect = (problem.objective(k, path).item() for k in (problem.build(0), teacher))
    assert abs(perfect) < 1e-6 < start


def test_processes_are_one_argument_apart():
    for process in (Masking, OneHotFlow):
        problem = sequence_problem(LAW, process=process)
        loss = problem.objective(problem.build(0), problem.sample((8,), seeded()))
        assert loss.isfinite()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sequence_problem(LAW, process=OneHotFlow, objective=KernelCE()), "mean endpoint"),
        (lambda: twins_problem(KernelResidual(SampledRate(OneHotFlow(2)))), "another process"),
        (lambda: sequence_problem(LAW, process=OneHotFlow, diagonal_network=True), "two times"),
        (lambda: sequence_problem(torch.zeros(4, 2)), "TokenArray"),
        (lambda: SemigroupLoss()(BOUNDARY, PATH), "BoundaryKernel has discrete states"),
        (lambda: LagrangianLoss(floor=2.0), "floor must lie in"),
        (lambda: DataPaths(PROCESS, LAW, ClockUniform(3), 1.5), "fraction of sequences must lie"),
        (
            lambda: DataPaths(PROCESS, LAW, ClockUniform(3), FixedPositions([2])).sample(
                (2,), seeded()
            ),
            "position 2 lies outside 0 .. 1",
        ),
        (lambda: FixedPositions([-1]), "count from 0"),
        (lambda: twins_problem(PairCrossEntropy()), "needs TeacherPairs"),
        (lambda: labelled(torch.zeros(2, 2).long(), torch.tensor([0, 3]), 3, 2), "0 to 2"),
        (lambda: labelled(torch.zeros(2, 2).long(), torch.tensor([0]), 3, 2), "2 records"),
        (lambda: label_tokens(torch.tensor([0]), 1, 2), "at least 2 classes"),
        (lambda: ClockUniform(3, 2.0), "fraction of pairs"),
        (
            lambda: train_kernel(twins_problem(PosteriorRegression()), Recipe(1), start=FLOW_MAP),
            "start from has Continuous",
        ),
        (
            lambda: train_kernel(
                twins_problem(PosteriorRegression()),
                Recipe(1),
                start=FlowMapKernel(FlatMLP(2, 3, 16, 1), 2),
            ),
            "start from has another",
        ),
        (lambda: Recipe(1, ema_decay=1.0), "ema_decay must lie in"),
        (lambda: Phases((0.5, SemigroupLoss())), "fractions > 0 that sum to 1"),
    ],
)
def test_bad_input_is_rejected(call, message):
    with pytest.raises(InputError, match=message):
        call()
