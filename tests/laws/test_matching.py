"""Laws of distribution matching: its gradient, its fixed point, and its training stage."""

import pytest
import torch
from torch import nn

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.data import BigramChain, IndependentCategorical, TokenArray
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import (
    BoundaryKernel,
    FlowMapKernel,
    StudentAndFake,
)
from discrete_meanflow.network import MLP, FlatMLP
from discrete_meanflow.objective import (
    DistributionMatching,
    PairCrossEntropy,
    PosteriorRegression,
)
from discrete_meanflow.objective.distribution_matching import SMALLEST_DISTANCE
from discrete_meanflow.path import DataPaths, MatchingPaths, MixedPaths, TeacherPairs
from discrete_meanflow.process import Masking, OneHotFlow, PathSample
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import ClockUniform, OnDiagonal
from discrete_meanflow.training import (
    Distributed,
    FlowMapDistillation,
    MatchingDistillation,
    Problem,
    Recipe,
    Trainer,
    chain_problem,
    sequence_problem,
    train_kernel,
)
from problems import GENERATORS, seeded

V, D = 3, 4
FLOW = OneHotFlow(V)
LAW = BigramChain.dirichlet(V, D, 1.0)
DATA = DataPaths(FLOW, LAW, OnDiagonal(ClockUniform(V)), 0.5)
FREE_DATA = DataPaths(FLOW, LAW, OnDiagonal(ClockUniform(V)))
FIRST = Problem(DATA, lambda: flow_map(0), PairCrossEntropy())
RECIPE = Recipe(4, 16, block=2)


def flow_map(seed, std=0.4):
    """A random flow map; new networks would have flat logits."""
    kernel = FlowMapKernel(FlatMLP(V, D, 16, 2), V)
    for i, p in enumerate(kernel.parameters()):
        nn.init.normal_(p, std=std, generator=seeded(100 * seed + i))
    return kernel


class Given(nn.Module):
    """Logits as parameters, whatever the state; it remembers its input."""

    def __init__(self, shape, seed=0):
        super().__init__()
        self.logits = nn.Parameter(torch.randn(shape, generator=seeded(seed)))

    def forward(self, x, r, t):
        self.seen = (x, r, t)
        return self.logits


def pairs(paths=DATA):
    """Pairs of noise and data: as many observed positions as the paths have."""
    x1 = LAW.sample((50,), seeded())
    observed = torch.rand(50, D, generator=seeded()) < 0.3 if paths.conditioned else None
    times = torch.tensor([[0.0, 1.0], [0.3, 0.8]]).repeat(25, 1)
    return TeacherPairs(FLOW, FLOW.source((50, D), seeded()), x1, times, observed)


def batch(paths=DATA, size=16):
    return MixedPaths(MatchingPaths(paths), pairs(paths)).sample((size,), seeded(1))


def gradients(loss, module):
    values = torch.autograd.grad(loss, list(module.parameters()), allow_unused=True)
    return dict(zip((name for name, _ in module.named_parameters()), values, strict=True))


def halves(path):
    rows = len(path.x) // 2
    return (PathSample(*(part[i : i + rows] for part in path)) for i in (0, rows))


@pytest.mark.parametrize("reverse", [0.0, -0.2, 1.0])
def test_the_student_is_stationary_where_fake_and_teacher_agree(reverse):
    """Only the likelihood of the fake network is left."""
    student, teacher = flow_map(1), flow_map(2)
    both = StudentAndFake(student, flow_map(2))
    path = batch()
    loss = DistributionMatching(teacher, 0.0, reverse)(both, path)
    found = gradients(loss, both)
    first, _ = halves(path)
    y = torch.where(first.r < 1, student(first.x, first.r, first.t).argmax(-1), first.x1)
    s = torch.where(first.r < 1, first.s, 1.0)
    noised = (1 - s[..., None]) * first.y[..., 0, :] + s[..., None] * delta(y, V, s.dtype)
    fake = flow_map(2)
    log = fake(noised, s, s).log_softmax(-1).gather(-1, y[..., None])[..., 0]
    expected = gradients(torch.where(first.r < 1, -log, 0.0).mean(), fake)
    for name, gradient in found.items():
        if name.startswith("fake."):
            assert torch.allclose(gradient, expected[name.removeprefix("fake.")], atol=1e-6), name
        else:
            assert gradient is None or gradient.abs().max() < 1e-8, name


@pytest.mark.parametrize("paths", [DATA, FREE_DATA], ids=["conditioned", "free"])
@pytest.mark.parametrize("reverse", [0.0, -0.2])
def test_the_gradient_is_the_scaled_difference_of_predictions(paths, reverse):
    """Zero in observed positions, whose symbols are not noised."""
    path = batch(paths, 64)
    first, second = halves(path)
    rows, free = len(first.x), (first.r < 1).expand(len(first.x), D)
    assert bool(free.all()) != paths.conditioned
    student = Given((len(path.x), D, V))
    fake, teacher = (Given((rows, D, V), seed) for seed in (1, 2))
    both = StudentAndFake(FlowMapKernel(student, V), FlowMapKernel(fake, V))
    objective = DistributionMatching(FlowMapKernel(teacher, V), 0.3, reverse)
    found = gradients(objective(both, path), both)
    mu_f, mu_t = (net.logits.detach().softmax(-1) for net in (fake, teacher))
    y = torch.where(free, student.logits[:rows].argmax(-1), first.x1)
    direction = mu_f - mu_t
    if reverse:
        log = (mu_f / mu_t).log()
        other = mu_f * (log - (mu_f * log).sum(-1, keepdim=True))
        direction = (1 - reverse) * direction + reverse * other
    distance = (delta(y, V, mu_t.dtype) - mu_t).abs().sum(-1) * free
    scale = (distance.sum(-1) / free.sum(-1).clamp(min=1)).clamp(min=SMALLEST_DISTANCE)
    expected = torch.where(free[..., None], direction / scale[:, None, None], 0.0) / (rows * D)
    # The formula is stated for the logits: the difference sums to zero over symbols.
    assert direction.sum(-1).abs().max() < 1e-6
    assert torch.allclose(found["network.logits"][:rows], expected, atol=1e-7)
    likelihood = student.logits[rows:].detach().softmax(-1) - delta(second.x1, V, mu_t.dtype)
    assert torch.allclose(found["network.logits"][rows:], 0.3 * likelihood / (rows * D), atol=1e-7)
    expected = torch.where(free[..., None], mu_f - delta(y, V, mu_t.dtype), 0.0) / (rows * D)
    assert torch.allclose(found["fake.network.logits"], expected, atol=1e-7)
    noised, s, t = fake.seen
    assert torch.equal(t, s)
    assert torch.equal(noised[~free], delta(first.x1, V, noised.dtype)[~free])
    assert bool((s.expand(rows, D)[~free] == 1).all())
    assert bool((s.expand(rows, D)[free] < 1).all())


@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_pairs_count_by_their_weight(weight):
    both, teacher, path = StudentAndFake(flow_map(1), flow_map(2)), flow_map(3), batch()
    other = path._replace(x1=path.x1.clone(), x=path.x.clone())
    rows = len(path.x) // 2
    other.x1[rows:] = (path.x1[rows:] + 1) % V
    other.x[rows:] += 1
    objective = DistributionMatching(teacher, weight)
    losses = [objective(both, part) for part in (path, other)]
    found = [gradients(loss, both) for loss in losses]
    same = [torch.allclose(found[0][name], found[1][name], atol=1e-8) for name in found[0]]
    assert all(same) == (weight == 0)
    assert torch.equal(*losses) == (weight == 0)


def test_starts_are_noise():
    """Noise levels and fresh noise are independent of the starts."""
    path = MatchingPaths(FREE_DATA).sample((20_000,), seeded())
    for x in (path.x, path.y[:, :, 0]):  # D * V normal entries in each row
        assert x.mean() == pytest.approx(0, abs=0.01)
        assert x.std() == pytest.approx(1, abs=0.01)
    assert (path.x * path.y[:, :, 0]).mean() == pytest.approx(0, abs=0.01)
    levels = DecodingClock(V)(path.s[:, 0])
    deciles = torch.histc(levels, 10, 0.01, 0.99) / len(levels)
    assert (deciles - 0.1).abs().max() < 0.01
    assert bool((path.r == 0).all())
    assert bool((path.t == 1).all())


def test_observed_starts_keep_their_symbols():
    path = MatchingPaths(DATA).sample((500,), seeded())
    observed = path.r == 1
    assert 0.1 < observed.double().mean() < 0.5
    assert torch.equal(path.s == 1, observed)
    assert torch.equal(path.x[observed], delta(path.x1, V, path.x.dtype)[observed])


def test_only_pairs_of_the_full_interval_are_learned():
    problem, _, _ = stages()
    path = problem.paths.parts[1].sample((200,), seeded())
    assert bool(((path.r == 0) | (path.r == 1)).all())
    assert bool((path.t == 1).all())


def stages(recipe=RECIPE, process=FLOW, **options):
    """The third problem and the kernels that it starts from."""
    data = DataPaths(process, LAW, OnDiagonal(ClockUniform(V)), 0.5)
    first, teacher = Problem(data, FIRST.kernel, PairCrossEntropy()), flow_map(5)
    second = FlowMapDistillation(40, 2, recipe).problem(first, teacher, 0)
    stage = MatchingDistillation(recipe, **options)
    return stage.problem(first, second, teacher), stage.pair(flow_map(6), teacher), teacher


def test_the_teacher_is_frozen():
    problem, start, teacher = stages()
    before = {name: p.clone() for name, p in teacher.named_parameters()}
    trained = train_kernel(problem, RECIPE, 0, start=start)
    frozen = dict(problem.objective.frozen.named_parameters())
    for name, p in before.items():
        assert not frozen[name].requires_grad
        assert frozen[name].grad is None
        assert torch.equal(frozen[name], p), name
        assert torch.equal(dict(teacher.named_parameters())[name], p), name
        assert not torch.equal(dict(trained.fake.named_parameters())[name], p), name
    assert {name.split(".")[0] for name, _ in trained.named_parameters()} == {"network", "fake"}
    with torch.no_grad():
        next(teacher.parameters()).add_(1)  # the objective has its own copy
    assert torch.equal(next(problem.objective.frozen.parameters()), next(iter(before.values())))


def test_the_student_alone_is_a_copy():
    both = StudentAndFake(flow_map(1), flow_map(2))
    alone, path = both.student(), batch()
    assert type(alone) is FlowMapKernel
    assert torch.equal(alone(path.x, path.r, path.t), both(path.x, path.r, path.t))
    with torch.no_grad():
        next(both.parameters()).add_(1)
    assert not torch.equal(next(alone.parameters()), next(both.parameters()))


@pytest.mark.parametrize("muon_ratio", [0.0, 2.0], ids=["AdamW", "Muon"])
def test_the_fake_network_moves_by_its_own_rate(muon_ratio):
    """In the first step all parameters move in proportion to their learning rate."""
    recipe, moved = Recipe(1, 16, muon_ratio=muon_ratio, weight_decay=0.01), {}
    for rate in (1.0, 4.0):
        problem, start, _ = stages(recipe, fake_rate=rate)
        trained = dict(train_kernel(problem, recipe, 0, start=start).named_parameters())
        moved[rate] = {n: trained[n] - p for n, p in start.named_parameters()}
    for name, step in moved[1.0].items():
        scale = 4.0 if name.startswith("fake.") else 1.0
        assert (moved[4.0][name] - scale * step).abs().max() < 1e-6, name
        assert step.abs().max() > 3e-5, name


@pytest.mark.parametrize("muon_ratio", [0.0, 2.0], ids=["AdamW", "Muon"])
def test_groups_with_one_rate_train_as_one_group(muon_ratio, monkeypatch):
    recipe = Recipe(6, 16, block=3, muon_ratio=muon_ratio)
    problem, start, _ = stages(recipe, fake_rate=1.0)
    one = Trainer(problem, recipe, [0], start=[start])
    assert len(one.optimiser.param_groups) == 1
    groups = Trainer._groups

    def split(trainer):
        (group,) = groups(trainer)
        params = group["params"]
        return [
            {"params": part, "lr": group["lr"].clone(), "scale": 1.0}
            for part in (params[::2], params[1::2])
        ]

    monkeypatch.setattr(Trainer, "_groups", split)
    two = Trainer(problem, recipe, [0], start=[start])
    assert len(two.optimiser.param_groups) == 2
    losses = [[record.loss for record in trainer.blocks()] for trainer in (one, two)]
    assert losses[0] == losses[1]
    assert all(torch.equal(p, two.parameters[name]) for name, p in one.parameters.items())


def test_bfloat16_trains_on_a_cpu():
    """All parameters move as in full precision."""
    recipe = Recipe(4, 16, block=2, bf16=True)
    problem, start, _ = stages(recipe)
    first = dict(start.named_parameters())
    half, whole = (
        {name: p - first[name] for name, p in trained.named_parameters()}
        for trained in (train_kernel(problem, r, 0, start=start) for r in (recipe, RECIPE))
    )
    for name, step in half.items():
        assert step.dtype == torch.float32
        assert torch.cosine_similarity(step.flatten(), whole[name].flatten(), 0) > 0.9, name


XOR = TokenArray(torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]), 2)
XOR_FLOW = OneHotFlow(2)


def joint_tv(kernel):
    """Total variation of one-step samples from the uniform law on the four records."""
    g, place = seeded(), torch.tensor([4, 2, 1])
    y = KernelSampler(kernel).sample(XOR_FLOW.source((8000, 3), g), g)
    law = torch.bincount(XOR.tokens @ place, minlength=8) / 4
    return (torch.bincount(y @ place, minlength=8) / len(y) - law).abs().sum().item() / 2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_matching_teaches_dependence_that_the_student_lacks(seed):
    """The third bit is to be the XOR of the others. The student has hardly seen any pairs, and sees
    none here. Its samples become those of the teacher."""
    paths = DataPaths(XOR_FLOW, XOR, OnDiagonal(ClockUniform(2)))
    first = Problem(paths, lambda: FlowMapKernel(FlatMLP(2, 3, 64, 1), 2), PairCrossEntropy())
    rate = {"batch": 128, "learning_rate": 3e-3, "ema_decay": 0.98}
    teacher = train_kernel(first, Recipe(300, **rate), seed)
    stage = FlowMapDistillation(1000, 8, Recipe(15, **rate))
    second = stage.problem(first, teacher, seed)
    student = train_kernel(second, stage.recipe, seed)  # not from the teacher
    recipe = Recipe(200, **rate | {"batch": 256, "learning_rate": 1e-3})
    third = MatchingDistillation(recipe, pair_weight=0.0)
    start = third.pair(student, teacher)
    trained = train_kernel(third.problem(first, second, teacher), recipe, seed, start=start)
    before, after = joint_tv(student), joint_tv(trained.student())
    assert before > 0.3
    assert after < 0.6 * before, (before, after)


COIN = OneHotFlow(2)
HEADS = torch.tensor([[0.2, 0.8]], dtype=torch.float64)


def coin_map():
    return FlowMapKernel(FlatMLP(2, 1, 32, 1), 2)


def test_one_step_samples_have_the_law_of_the_teacher():
    """Whatever the pairs are, which have no weight here."""
    data = DataPaths(COIN, IndependentCategorical(HEADS), OnDiagonal(ClockUniform(2)))
    recipe = Recipe(200, 256, learning_rate=3e-3, ema_decay=0.98)
    teacher = train_kernel(Problem(data, coin_map, PairCrossEntropy()), recipe, 0)
    fair = COIN.source((4000, 1), seeded(3))
    maps = TeacherPairs(COIN, fair, fair.argmax(-1), torch.tensor([[0.0, 1.0]]).repeat(4000, 1))
    student = train_kernel(Problem(maps, coin_map, PairCrossEntropy()), recipe, 0)
    recipe = Recipe(400, 256, learning_rate=3e-4, ema_decay=0.98)
    problem = Problem(
        MixedPaths(MatchingPaths(data), maps),
        lambda: StudentAndFake(coin_map(), coin_map(), 10.0),
        DistributionMatching(teacher, pair_weight=0.0),
    )
    start = StudentAndFake(student, teacher, 10.0)
    trained = train_kernel(problem, recipe, 0, start=start)
    heads = []
    for kernel in (student, trained.student()):
        g = seeded(1)
        samples = KernelSampler(kernel).sample(COIN.source((20_000, 1), g), g)
        heads.append(samples.double().mean().item())
    assert heads[0] == pytest.approx(0.5, abs=0.02)
    assert heads[1] == pytest.approx(0.8, abs=0.04)


def third(paths):
    return Problem(paths, FIRST.kernel, DistributionMatching(flow_map(0)))


def third_trainer(recipe, ranks=1):
    problem = stages()[0]
    return Trainer(problem, recipe, [0], distributed=Distributed(ranks))


DISCRETE = BoundaryKernel(MLP(V, 8, 1), V, Linear())
STAGE = MatchingDistillation(RECIPE)
SECOND = Problem(MixedPaths(DATA, pairs()), FIRST.kernel, PairCrossEntropy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DistributionMatching(DISCRETE), "BoundaryKernel has discrete states"),
        (lambda: DistributionMatching(flow_map(0), -1), "pair_weight must be >= 0, got -1"),
        (lambda: DistributionMatching(flow_map(0))(flow_map(1), batch()), "a StudentAndFake, not"),
        (lambda: DistributionMatching(flow_map(0), reverse=float("nan")), "reverse must be finite"),
        (lambda: StudentAndFake(flow_map(0), flow_map(0), 0), "must be finite and > 0, got 0"),
        (
            lambda: StudentAndFake(flow_map(0), FlowMapKernel(FlatMLP(5, D, 16, 1), 5)),
            "the student has .* the fake network",
        ),
        (
            lambda: MatchingPaths(DataPaths(Masking(V), LAW, ClockUniform(V))),
            "needs the process OneHotFlow",
        ),
        (
            lambda: MatchingPaths(DataPaths(OneHotFlow(V, 8), LAW, ClockUniform(V))),
            "independent of the data, so minibatch_ot=0",
        ),
        (lambda: STAGE.pair(DISCRETE, DISCRETE), "needs FlowMapKernels: states are discrete"),
        (
            lambda: STAGE.problem(FIRST, sequence_problem(LAW, process=OneHotFlow), flow_map(0)),
            "needs the student's problem, with teacher pairs",
        ),
        (
            lambda: STAGE.problem(
                sequence_problem(LAW, process=Masking(V)), SECOND, flow_map(0)
            ),
            "needs the process OneHotFlow",
        ),
        (
            lambda: STAGE.problem(chain_problem(GENERATORS["long ring"]), FIRST, flow_map(0)),
            "needs a problem on data, with DataPaths",
        ),
        (lambda: third_trainer(Recipe(1, 5)), "a batch that 2 divides .*, got 5"),
        (lambda: third_trainer(Recipe(1, 6, accumulate=2)), "that 4 divides .*, got 6"),
        (lambda: third_trainer(Recipe(1, 6), 2), r"that 4 divides .*, 2 ranks\), got 6"),
        (lambda: third(DATA), r"needs MixedPaths\(MatchingPaths, TeacherPairs\), in this order"),
        (lambda: third(MixedPaths(pairs(), MatchingPaths(DATA))), "in this order"),
        (lambda: Problem(MatchingPaths(DATA), FIRST.kernel, PosteriorRegression()), "end in data"),
    ],
)  # fmt: skip
def test_bad_input_is_rejected_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
