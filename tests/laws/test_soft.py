"""Laws of soft states: against the exact flow of a law that can be enumerated."""

import itertools
import json
import shutil

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

from discrete_meanflow.data import BigramChain, TokenArray, label_tokens, labelled
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.kernel import BoundaryKernel, FlowMapKernel, Kernel, kernel_on
from discrete_meanflow.metric import marginal_tv, pair_tv
from discrete_meanflow.network import MLP, DiagonalNetwork, DiT, FlatMLP
from discrete_meanflow.objective import (
    DenoiserDistillation,
    KernelCE,
    KernelResidual,
    LagrangianLoss,
    OnCouples,
    Phases,
    PosteriorRegression,
    SampledRate,
    SemigroupLoss,
    Weighted,
)
from discrete_meanflow.objective.time_derivative import value_and_slope
from discrete_meanflow.process import (
    Coupled,
    ExactPosterior,
    FixedPositions,
    Masking,
    OneHotFlow,
    PathSample,
    RandomPositions,
    Uniform,
)
from discrete_meanflow.sampler import KernelSampler, ODESampler, forbid, temperature, top_p
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import ClockUniform, TimePair
from discrete_meanflow.training import FlowMapDistillation, Problem, Recipe, sequence_problem, train
from discrete_meanflow.training import coupling as coupling_module
from discrete_meanflow.training import trace as trace_module
from discrete_meanflow.training.sequence_problem import flow_map_objective
from discrete_meanflow.training.trace import can_compile
from dmf_reproduction.engine.experiment import Cell, Scale
from dmf_reproduction.engine.spec import RunSpec
from dmf_reproduction.engine.train_cell import train_cell
from problems import seeded, sequence_processes
from statistics_of_draws import passes_chi_square

LAW = BigramChain.dirichlet(3, 2, 1.0)
PROCESS = OneHotFlow(LAW)


class ExactFlow(nn.Module):
    """``log q_{r,t}`` of the exact flow map: the exact diagonal posterior, integrated (RK4).

    In ``w = -log(1 - time)`` the forward equation is ``dX/dw = q(X, w) - X``.
    """

    steps = 40

    def __init__(self, process):
        super().__init__()
        self.diagonal = ExactPosterior(process)

    def velocity(self, x, w):
        time = 1 - torch.exp(-w)
        return self.diagonal(x, time, time).exp() - x

    def carry(self, x, r, t):
        w, end = (-torch.log(1 - s) for s in (r, t))
        h = (end - w) / self.steps
        for _ in range(self.steps):
            k1 = self.velocity(x, w)
            k2 = self.velocity(x + h[..., None] / 2 * k1, w + h / 2)
            k3 = self.velocity(x + h[..., None] / 2 * k2, w + h / 2)
            k4 = self.velocity(x + h[..., None] * k3, w + h)
            x, w = x + h[..., None] / 6 * (k1 + 2 * k2 + 2 * k3 + k4), w + h
        return x

    def forward(self, x, r, t):
        alpha = Linear()(r, t)[..., None]
        apart = alpha > 0
        q = (self.carry(x, r, t) - (1 - alpha) * x) / torch.where(apart, alpha, 1.0)
        return torch.where(apart, q.clamp(min=1e-30).log(), self.diagonal(x, r, r))


def exact_path(batch=200):
    g = seeded()
    times = torch.rand(3, batch, generator=g, dtype=torch.float64).sort(0).values * 0.85
    path = PROCESS.path(TimePair(times[0], times[2], times[1]), g, 0)
    doubled = [part.double() if part.is_floating_point() else part for part in path]
    return PathSample(*doubled)


def test_the_diagonal_posterior_is_bayes_rule():
    r = torch.full((50, 1), 0.4, dtype=torch.float64)
    x = PROCESS.corrupt(LAW.sample((50,), seeded()), r, seeded(1)).double()
    clean = torch.tensor(list(itertools.product(range(3), repeat=2)))
    points = delta(clean, 3, torch.float64)
    density = torch.distributions.Normal(0.4 * points, 0.6).log_prob(x[:, None]).sum((-1, -2))
    joint = (density + LAW.log_prob(clean)).softmax(-1)
    by_hand = torch.einsum("bs,sdv->bdv", joint, points)
    assert (ExactPosterior(PROCESS)(x, r, r).exp() - by_hand).abs().max() < 1e-6


def test_states_go_from_noise_to_tokens():
    x1 = LAW.sample((5000,), seeded())
    noise = PROCESS.corrupt(x1, torch.zeros(5000, 1), seeded())
    assert abs(noise.mean().item()) < 0.03
    assert abs(noise.std().item() - 1) < 0.03
    one = torch.ones(5000, 1)
    assert torch.equal(PROCESS.corrupt(x1, one, seeded()), delta(x1, 3, torch.float32))
    half = PROCESS.corrupt(x1, one / 2, seeded())
    ahead = PROCESS.advance(half, x1, one / 2, one, seeded(), 1)[..., 0]
    assert (ahead - delta(x1, 3, torch.float32)).abs().max() < 1e-6


def test_the_velocity_is_the_slope_of_the_bridge():
    path = exact_path()
    q = delta(path.x1, 3, torch.float64)
    h = 1e-6
    slope = PROCESS.bridge(path.x, q, path.r, path.t + h) - PROCESS.bridge(
        path.x, q, path.r, path.t
    )
    there = PROCESS.bridge(path.x, q, path.r, path.t)
    assert (slope / h - PROCESS.rate(there, path.t, path.x1)).abs().max() < 1e-4


def test_the_boundary_holds_and_clamped_positions_stay():
    kernel = FlowMapKernel(FlatMLP(3, 2, 16, 1), 3).double()
    x = torch.randn(7, 2, 3, generator=seeded(), dtype=torch.float64)
    for time in (0.0, 0.5, 1.0):
        r = torch.full((7, 1), time, dtype=torch.float64)
        assert torch.equal(kernel.probs(x, r, r), x)


def test_the_exact_flow_composes_and_solves_the_forward_equation():
    kernel, path = FlowMapKernel(ExactFlow(PROCESS), 3), exact_path()
    q = kernel(path.x, path.r, path.t).exp()
    assert (q.sum(-1) - 1).abs().max() < 1e-6
    assert q.min() > -1e-6
    wrong = FlowMapKernel(
        DiagonalNetwork(ExactFlow(PROCESS)), 3
    )  # q(x, r, r) in the place of q(x, r, t)
    for objective, small in ((SemigroupLoss(), 1e-9), (LagrangianLoss(floor=1e-9), 1e-7)):
        assert abs(objective(kernel, path).item()) < small
        assert objective(wrong, path).item() > 1e-3


def test_the_exact_flow_gives_the_joint_law_and_factorised_kernels_do_not():
    g = seeded()
    x = PROCESS.source((20_000, 2), g).double()
    kernel = FlowMapKernel(ExactFlow(PROCESS), 3)
    y = KernelSampler(kernel, [0.0, 0.97, 0.999]).sample(x, g)
    tokens = kernel.decode(y)
    joint = LAW.log_prob(torch.tensor(list(itertools.product(range(3), repeat=2)))).exp()
    assert passes_chi_square(tokens[:, 0] * 3 + tokens[:, 1], joint)
    masking = Masking(LAW)
    hard = BoundaryKernel(ExactPosterior(masking), Linear(), masking.token)
    tokens = KernelSampler(hard).sample(masking.source((20_000, 2), g), g)
    assert not passes_chi_square(tokens[:, 0] * 3 + tokens[:, 1], joint)


def test_no_gradient_flows_through_the_teacher():
    kernel, teacher = (FlowMapKernel(FlatMLP(3, 2, 16, 1), 3) for _ in range(2))
    for module in (kernel, teacher):
        for p in module.parameters():
            nn.init.normal_(p, std=0.3)
    path = PROCESS.path(ClockUniform(3).sample((32,), seeded()), seeded(), 0)
    for objective in (SemigroupLoss(), LagrangianLoss(), LagrangianLoss(frozen=teacher)):
        objective(kernel, path, teacher).backward()
        assert all(p.grad is None for p in teacher.parameters())
        assert all(p.grad is not None for p in kernel.parameters())
        assert all(p.grad is None for p in objective.parameters())
        kernel.zero_grad()


TWINS = TokenArray(torch.tensor([[0, 0, 0], [1, 1, 1]]), 2)


def twins_problem(objective, conditioning=0.0):
    noise = OneHotFlow(TWINS, conditioning)
    return Problem(
        noise, ClockUniform(2, 0.2), lambda: FlowMapKernel(FlatMLP(2, 3, 64, 1), 2), objective
    )


@pytest.fixture(scope="module")
def twins():
    """A kernel that has learned that all positions are equal."""
    flow_map = Weighted((1.0, PosteriorRegression()), (1.0, SemigroupLoss()))
    problem = twins_problem(Phases((0.4, PosteriorRegression()), (0.6, flow_map)), conditioning=0.5)
    return train(problem, Recipe(700, learning_rate=3e-3, ema_decay=0.98), seed=0)


def test_one_step_draws_positions_that_belong_together(twins):
    """All positions are equal in the data; drawn independently, they are in a quarter."""
    g = seeded()
    y = KernelSampler(twins).sample(OneHotFlow(TWINS).source((4000, 3), g), g)
    assert ((y[:, 0] == y[:, 1]) & (y[:, 1] == y[:, 2])).double().mean() > 0.9
    assert 0.4 < y.double().mean() < 0.6


def clamped_to_one(positions=(1,), n=4000):
    process, g = OneHotFlow(TWINS), seeded()
    held = torch.zeros(n, 3, dtype=torch.bool)
    held[:, list(positions)] = True
    free = process.source((n, 3), g)
    return process.hold(free, torch.ones(n, 3, dtype=torch.long), held), held, free


@pytest.mark.parametrize("steps", [1, 4])
def test_what_is_clamped_stays_and_the_rest_follows(twins, steps):
    x, held, _ = clamped_to_one()
    y = KernelSampler.steps(twins, steps).sample(x, seeded(), clamped=held)
    assert bool((y[:, 1] == 1).all())
    assert y.double().mean() > 0.85


def test_guidance_is_truer_to_what_is_clamped(twins):
    x, held, free = clamped_to_one()
    share = [
        KernelSampler.steps(twins, 2, guidance=w)
        .sample(x, seeded(), held, free)[:, 0].double().mean().item()
        for w in (0.0, 1.0, 2.0)
    ]  # fmt: skip
    assert 0.4 < share[0] < 0.6  # weight 0 knows of no clamp
    assert share[0] + 0.2 < share[1] <= share[2]


def test_guidance_goes_on_beyond_what_is_known():
    """``loose + w (known - loose)``, with a network that has learned nothing of clamps."""
    network = DiT(3, 4, 32, 1, 2)
    for i, p in enumerate(network.parameters()):
        torch.nn.init.normal_(p, std=0.5, generator=torch.Generator().manual_seed(i))
    kernel, process = FlowMapKernel(network, 3), OneHotFlow(BigramChain.dirichlet(3, 4))
    free = process.source((200, 4), seeded())
    held = (torch.arange(4) < 2).expand(200, 4)
    x = process.hold(free, torch.ones(200, 4, dtype=torch.long), held)
    zero, one = torch.zeros(200, 4), torch.ones(200, 4)
    with torch.no_grad():
        known, loose = kernel(x, torch.where(held, one, zero), one), kernel(free, zero, one)
    found = {
        w: KernelSampler(kernel, guidance=w).sample(x, seeded(), held, free)[:, 2:]
        for w in (0.0, 1.0, 3.0)
    }
    for w, y in found.items():
        assert torch.equal(y, (loose + w * (known - loose)).argmax(-1)[:, 2:])
    assert not torch.equal(found[1.0], found[3.0])


def test_the_flow_is_followed_to_second_order():
    """Of twice the steps, a quarter of the error or so, at the time of the grid next to 0.7."""
    kernel = FlowMapKernel(ExactPosterior(PROCESS), PROCESS.states)
    start = PROCESS.source((500, 2), seeded()).double()
    zero = torch.zeros(500, 1, dtype=torch.float64)

    def error(k):
        flow = ODESampler(kernel, k)
        i = min(range(1, k), key=lambda i: abs(flow.grid[i] - 0.7))
        exact = ExactFlow(PROCESS).carry(start, zero, zero + flow.grid[i])
        return (list(flow.trajectory(start))[i - 1] - exact).abs().mean().item()

    assert error(64) < error(8) / 4**2.4  # three times doubled


def test_sixteen_steps_of_the_flow_are_better_than_sixty_four_of_euler():
    process = OneHotFlow(BigramChain.dirichlet(8, 16, 0.1, seed=0))
    kernel = FlowMapKernel(ExactPosterior(process), 8)
    start = process.source((1500, 16), seeded()).double()

    def end(states):
        *_, last = states
        return kernel.decode(last)

    truth = end(ODESampler(kernel, 100).trajectory(start))
    ours = end(ODESampler(kernel, 16).trajectory(start))
    eulers = KernelSampler.steps(kernel, 64).sample(start, seeded())
    unlike = [(y != truth).double().mean().item() for y in (ours, eulers)]
    assert unlike[0] < unlike[1]


@pytest.mark.parametrize("states", [2, 27, 362, 10_000])
def test_the_flow_begins_with_short_steps_over_any_alphabet(states):
    """A clock by the largest entry alone would go to 0.1 and more, and to 0.69 over 10,000."""
    grid = ODESampler(FlowMapKernel(torch.nn.Identity(), states), 16).grid
    assert grid[1] < 0.26
    assert all(r < t for r, t in itertools.pairwise(grid))


def test_the_flow_looks_at_the_diagonal_alone():
    seen = []

    class Recording(nn.Module):
        def forward(self, x, r, t):
            seen.append((r, t))
            return x

    list(ODESampler(FlowMapKernel(Recording(), 3), 4).trajectory(PROCESS.source((5, 2), seeded())))
    assert len(seen) == 4
    assert all(torch.equal(r, t) for r, t in seen)


def test_the_flow_ends_in_a_law_and_leaves_what_is_clamped():
    kernel = FlowMapKernel(ExactPosterior(PROCESS), PROCESS.states)
    held = torch.tensor([[True, False]]).expand(50, 2)
    tokens = torch.zeros(50, 2, dtype=torch.long)
    start = PROCESS.hold(PROCESS.source((50, 2), seeded()), tokens, held)
    states = list(ODESampler(kernel, 5).trajectory(start, held))
    assert len(states) == 5
    assert all(torch.equal(x[:, 0].float(), start[:, 0]) for x in states)
    assert torch.allclose(states[-1].sum(-1), torch.ones(50, 2, dtype=torch.float64))
    assert bool((states[-1] >= 0).all())
    [once] = ODESampler(kernel, 1).trajectory(start)
    zero = torch.zeros(50, 1, dtype=torch.float64)
    assert torch.allclose(once, kernel(start, zero, zero).exp().to(once))
    with pytest.raises(InputError, match="at least one step"):
        ODESampler(kernel, 0)


def test_couples_on_the_way_are_drawn_from_the_flow_map():
    """Two states of the exact flow, and between them the law q that leads from one to the other."""
    kernel = FlowMapKernel(ExactPosterior(PROCESS), PROCESS.states)
    couples = FlowMapDistillation(4000, 64, Recipe(1), whole=0.25).couples(PROCESS, kernel, seed=0)
    r, t = couples.pairs.double()[:, None].unbind(-1)
    whole = (r == 0) & (t == 1)
    assert bool((r < t).all())
    assert 0.2 < whole.double().mean() < 0.3
    inside = (t < 0.99).flatten()
    assert inside.double().mean() > 0.5
    x, ends = couples.starts[inside].double(), couples.ends[inside].long()
    q = ExactFlow(PROCESS)(x, r[inside], t[inside]).exp()
    seen = delta(ends, PROCESS.states, q.dtype)
    # Right on average, and where q is sure so are the draws: 0 at one-hot q, not at flat ones.
    off = (seen - q).sum(0) / (q * (1 - q)).sum(0).sqrt()
    assert off.abs().max() < 4.5
    nll = (-q.log().gather(-1, ends[..., None])).mean() - (-q * q.log()).sum(-1).mean()
    assert nll.abs() < 0.05
    flat = -torch.log(seen.mean((0, 1))[ends]).mean()
    assert flat > 0.2 + (-q.log().gather(-1, ends[..., None])).mean()


def test_couples_on_the_way_lead_to_where_the_way_ends(twins):
    """From each state on the way Euler's steps go to the couple's end, as good as, clamps held."""
    process = OneHotFlow(TWINS, conditioning=0.5)
    coupling = FlowMapDistillation(600, 4, Recipe(1), whole=0.2)
    couples = coupling.couples(process, twins, seed=0)
    grid = ODESampler(twins, 4).grid
    to_the_end = couples.pairs[:, 1] == 1
    assert {round(t, 4) for t in couples.pairs[to_the_end, 0].tolist()} == {
        round(t, 4) for t in grid[:-1]
    }
    diagonal = FlowMapKernel(DiagonalNetwork(twins.network), process.states)
    for i, r in enumerate(grid[:-1]):
        here = to_the_end & torch.isclose(couples.pairs[:, 0], torch.tensor(r))
        again = KernelSampler(diagonal, grid[i:]).sample(
            couples.starts[here].float(), seeded(), clamped=couples.held[here]
        )
        assert (again == couples.ends[here]).double().mean() > 0.97  # starts are in half precision
    held = couples.held
    assert torch.equal(couples.starts.argmax(-1)[held], couples.ends[held])


def twins_cell(recipe, *stages):
    """Measured by the sum of its weights."""
    return Cell(
        "twins", twins_problem(PosteriorRegression()), recipe, lambda kernels: {},
        lambda kernel, seed: {"sum": sum(p.sum().item() for p in kernel.parameters())}, stages,
    )  # fmt: skip


def test_stages_follow_each_other_and_go_on_where_they_stopped(tmp_path, monkeypatch):
    """The diagonal, ends of its flow, ends of the flow after that; stopped in the last.

    Couples of a stage that has ended are not made again.
    """
    made, make = [], FlowMapDistillation.couples
    monkeypatch.setattr(
        FlowMapDistillation,
        "couples",
        lambda self, *given: made.append(self.count) or make(self, *given),
    )
    recipe = Recipe(20, batch=8, block=10)
    stages = tuple(FlowMapDistillation(count, 2, recipe) for count in (20, 24))
    cell = twins_cell(recipe, *stages)
    assert (cell.iterations, len(cell.describe()["then"])) == (60, 2)

    def trained(folder, stop):
        order, heard = RunSpec("joint", (0,), "cpu", Scale.toy, folder), []
        (folder / "parts").mkdir(parents=True)
        if stop:
            with pytest.raises(Interrupted):
                train_cell(order, cell, heard.append, lambda: len(heard) == 5)
        train_cell(order, cell, heard.append, lambda: False)
        assert [news.iteration for news in heard] == [10, 20, 30, 40, 50, 60]
        part = json.loads(order.part("twins", ".json").read_text())
        return part["measurements"], part["curve"]["loss"]

    assert trained(tmp_path / "whole", False) == trained(tmp_path / "cut", True)
    assert made == [20, 24, *(20, 24, 24)]


def test_a_further_stage_goes_on_from_those_that_ended(tmp_path):
    """In a folder of its own, with their checkpoints; a stage before them must be the same."""
    recipe = Recipe(4, batch=8, block=2)
    first, second, other = (FlowMapDistillation(n, 2, recipe) for n in (20, 30, 40))

    def iterations(folder, *stages):
        order, heard = RunSpec("joint", (0,), "cpu", Scale.toy, folder), []
        (folder / "parts").mkdir(parents=True, exist_ok=True)
        train_cell(order, twins_cell(recipe, *stages), heard.append, lambda: False)
        measured = json.loads(order.part("twins", ".json").read_text())["measurements"]
        return [news.iteration for news in heard], measured

    whole = iterations(tmp_path / "whole", first, second)
    assert iterations(tmp_path / "a", first)[0] == [2, 4, 6, 8]
    for folder in ("b", "c"):
        (tmp_path / folder / "parts").mkdir(parents=True)
        for saved in (tmp_path / "a" / "parts").glob("*.safetensors"):
            shutil.copy(saved, tmp_path / folder / "parts")
    assert iterations(tmp_path / "b", first, second) == ([10, 12], whole[1])
    with pytest.raises(InputError, match="other settings"):
        iterations(tmp_path / "c", other, second)


@pytest.mark.skipif(not can_compile(torch.device("cpu")), reason="no C++ compiler here")
@pytest.mark.parametrize("bf16", [False, True])
def test_compiled_couples_are_the_couples(bf16, twins, monkeypatch):
    process = OneHotFlow(TWINS, conditioning=0.5)
    coupling = FlowMapDistillation(50, 2, Recipe(1, bf16=bf16), whole=0.5)
    code, made = trace_module.compiled, []
    monkeypatch.setattr(trace_module, "compiled", lambda g: made.append(g) or code(g))
    monkeypatch.setattr(coupling_module, "lot_size", lambda *_: 16)  # four of 13 make 50 and two
    plain = coupling.couples(process, twins, seed=0)
    monkeypatch.setattr(coupling_module, "MANY_LOOKS", 8)
    assert not made
    fast = coupling.couples(process, twins, seed=0)
    assert len(made) == 1
    assert len(plain.ends) == len(fast.ends) == 50
    assert (plain.starts - fast.starts).abs().max() < 1e-2  # in half precision
    assert torch.equal(plain.pairs, fast.pairs)
    assert (plain.ends == fast.ends).double().mean() > 0.98


@pytest.mark.parametrize(
    ("asked", "device", "lots", "worth_it"),
    [
        (None, "cpu", 1, False), (None, "cpu", 100, True), (None, "cuda", 1, False),
        (True, "cpu", 1, False), (True, "cuda", 1, True), (False, "cuda", 100, False),
    ],
)  # fmt: skip
def test_couples_are_compiled_where_it_pays(asked, device, lots, worth_it, monkeypatch):
    monkeypatch.setattr(coupling_module, "can_compile", lambda device: True)
    coupling = FlowMapDistillation(10, 16, Recipe(1, compiled=asked))
    assert coupling.worth_compiling(lots, torch.device(device)) == worth_it


def test_whole_couples_are_noise_and_its_end(twins):
    process, coupling = OneHotFlow(TWINS), FlowMapDistillation(50, 2, Recipe(1), whole=1)
    couples = coupling.couples(process, twins, seed=3)
    g = torch.Generator().manual_seed(coupling_module.chunk_seed(3, 0))
    process.conditioning.sample((50,), 3, g)
    process.data.sample((50,), g)
    assert torch.equal(couples.starts, process.source((50, 3), g).half())
    assert couples.pairs.unique(dim=0).tolist() == [[0.0, 1.0]]


def test_no_two_lots_have_the_same_seed():
    seeds = {coupling_module.chunk_seed(seed, i) for seed in (0, 1, 2**63 - 1) for i in range(1000)}
    assert len(seeds) == 3000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_lots_of_couples_are_put_side_by_side(twins, monkeypatch):
    process, coupling, done = OneHotFlow(TWINS), FlowMapDistillation(50, 2, Recipe(1)), []
    monkeypatch.setattr(coupling_module, "lot_size", lambda *sizes: 20)
    found = coupling.couples(process, twins, 3, lambda share: bool(done.append(share)))
    assert done == [pytest.approx(i / 3) for i in (1, 2, 3)]
    lots = itertools.islice(coupling.lots(process, twins, 3, 17, False), 3)
    for part, whole in zip(
        zip(*lots, strict=True), (found.starts, found.ends, found.pairs, found.held), strict=True
    ):
        assert torch.equal(torch.cat(part)[:50], whole)


def test_couples_are_noise_and_where_it_is_carried(twins):
    """The first half is data as ever; the second is what the kernel does in many steps."""
    first = twins_problem(PosteriorRegression(), conditioning=0.5)
    coupling = FlowMapDistillation(3000, 8, Recipe(150, learning_rate=3e-3, ema_decay=0.9), whole=1)
    problem = coupling.problem(first, twins, seed=0)
    process = problem.process
    diagonal = FlowMapKernel(DiagonalNetwork(twins.network), 2)
    *_, again = ODESampler(diagonal, 8).trajectory(process.starts.float(), process.held)
    # Starts are kept in half precision.
    assert (diagonal.decode(again) == process.ends).double().mean() > 0.99
    path = problem.paths((5, 64), seeded())
    free = path.r[:, 32:] == 0
    assert bool((free | (path.r[:, 32:] == 1)).all())
    assert bool((path.t[:, 32:] == 1).all())
    assert bool(((path.r[:, :32] > 0) & (path.r[:, :32] < 1)).any())
    # A kernel that knows only the diagonal learns from couples to go all the way at once.
    fresh = first.build(0)
    before = problem.objective(fresh, tree_map(lambda a: a[0], path))
    kernel = train(problem, coupling.recipe, seed=0, start=twins)
    after = problem.objective(kernel, tree_map(lambda a: a[0], path))
    assert after < 0.7 * before
    y = KernelSampler(kernel).sample(OneHotFlow(TWINS).source((4000, 3), seeded()), seeded())
    assert ((y[:, 0] == y[:, 1]) & (y[:, 1] == y[:, 2])).double().mean() > 0.95


def test_temperature_and_top_p(twins):
    g = seeded()
    x = OneHotFlow(TWINS).source((4000, 3), g)
    cold, hot = (
        KernelSampler(twins, logit_processors=[temperature(value)]) for value in (0.01, 100.0)
    )
    same = [(s.sample(x, seeded(1)) == s.sample(x, seeded(2))).double().mean() for s in (cold, hot)]
    assert same[0] > 0.99
    assert same[1] < 0.6
    likeliest, drawn = (KernelSampler(twins, drawn=drawn) for drawn in (None, True))
    same = [
        (s.sample(x, seeded(1)) == s.sample(x, seeded(2))).double().mean()
        for s in (likeliest, drawn)
    ]
    assert same[0] == 1  # all that is random is in the start
    assert 0.6 < same[1] < 1
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    kept = top_p(0.6)(logits)
    assert torch.equal(kept.softmax(-1) > 0, torch.tensor([[True, True, False, False]]))
    assert torch.equal(top_p(1.0)(logits), logits)
    assert forbid(2)(logits).softmax(-1)[0, 2] == 0
    with pytest.raises(InputError, match="symbol 4 is none"):
        forbid(4)(logits)


@pytest.mark.parametrize("objective", [PosteriorRegression(), SemigroupLoss(), LagrangianLoss()])
def test_half_precision_is_for_the_network_alone(objective):
    """The loss in float32 and near that of float32 throughout; a slope is not touched at all."""
    kernel = FlowMapKernel(FlatMLP(3, 2, 16, 1), 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for p in kernel.parameters():
            nn.init.normal_(p, std=0.3)
    path = PROCESS.path(ClockUniform(3).sample((64,), seeded()), seeded(), 0)
    whole = objective(kernel, path)
    with torch.autocast("cpu", torch.bfloat16):
        half = objective(kernel, path)
        f = lambda t: kernel(path.x, path.r, t)  # noqa: E731
        slope, again = value_and_slope(f, path.t)[1], f(path.t)
    assert half.dtype == again.dtype == torch.float32
    assert half != whole
    assert abs(half - whole) < 0.02 * whole + 1e-3
    assert torch.equal(slope, value_and_slope(f, path.t)[1])
    assert not torch.equal(again, f(path.t))


@pytest.mark.parametrize("name", [*sequence_processes(), "soft"])
def test_random_clamps_are_known_positions(name):
    process = OneHotFlow(TWINS) if name == "soft" else sequence_processes()[name]
    process.conditioning = RandomPositions(0.5)
    times = torch.full((4000,), 0.3, dtype=torch.float64)
    path = process.path(TimePair(times, times + 0.3), seeded(), 1)
    held = path.r == 1
    assert bool((path.t[held] == 1).all())
    assert bool((path.s[held] == 1).all())
    assert 0.2 < held.double().mean() < 0.3  # half of the sequences, half of their positions
    clean = process.hold(path.x, path.x1, torch.ones_like(held))
    assert torch.equal(path.x[held], clean[held])
    assert not torch.equal(path.x[~held], clean[~held])


def test_a_class_is_a_clamped_position():
    """Class 0 is 00, class 1 is 11, class 2 (01 in base 2) is 01; trained with its label."""
    records = torch.tensor([[0, 0], [1, 1], [0, 1]])
    data = TokenArray(labelled(records, torch.arange(3), 3, 2), 2)
    assert data.tokens.tolist() == [[0, 0, 0, 0], [1, 1, 0, 1], [0, 1, 1, 0]]
    process = OneHotFlow(data, FixedPositions([2, 3], 0.7))
    problem = Problem(
        process, ClockUniform(2, 0.2), lambda: FlowMapKernel(FlatMLP(2, 4, 64, 1), 2),
        flow_map_objective(),
    )  # fmt: skip
    held = process.path(ClockUniform(2).sample((4000,), seeded()), seeded(), 0).r == 1
    assert bool((held[:, 2] == held[:, 3]).all())
    assert not bool(held[:, :2].any())
    assert abs(held[:, 2].double().mean() - 0.7) < 0.05
    kernel = train(problem, Recipe(500, learning_rate=3e-3, ema_decay=0.98), seed=0)
    g, classes = seeded(), torch.arange(3).repeat(500)
    tokens = torch.cat([torch.zeros(1500, 2, dtype=torch.long), label_tokens(classes, 3, 2)], -1)
    known = torch.tensor([False, False, True, True]).expand(1500, 4)
    start = process.hold(process.source((1500, 4), g), tokens, known)
    y = KernelSampler(kernel).sample(start, g, clamped=known)
    assert bool((y[:, 2:] == tokens[:, 2:]).all())
    assert (y[:, :2] == records[classes]).all(-1).double().mean() > 0.95


DISTILLED = {"masked": Masking, "uniform": Uniform, "soft": OneHotFlow}


@pytest.mark.parametrize("kind", DISTILLED)
def test_a_denoiser_is_distilled_into_a_kernel(kind):
    """A model trained by posterior regression teaches a fresh kernel, in the place of data.

    The teacher comes as a plain function of state and time. Hard kernels get its marginals in one
    step; the soft one, by couples, the pairs that the teacher needs many steps for.
    """
    law = BigramChain.dirichlet(3, 4, 0.3, seed=2)
    process = DISTILLED[kind](law)
    given = {
        "process": lambda data: process,
        "kernel": lambda: kernel_on(process, FlatMLP(process.states, 4, 64, 2)),
    }
    recipe = Recipe(250, learning_rate=5e-3, ema_decay=0.98)
    trained = train(sequence_problem(law, objective=PosteriorRegression(), **given), recipe)
    teacher = Kernel.from_denoiser(lambda x, time: trained(x, time, time), process)
    problem = sequence_problem(law, objective=DenoiserDistillation(teacher), **given)
    student = train(problem, recipe, seed=1)
    fresh, start = problem.build(1), process.source((4000, 4), seeded())
    if kind == "soft":
        coupling = FlowMapDistillation(4000, 16, recipe)
        student = train(coupling.problem(problem, student, 0), coupling.recipe, 0, start=student)
        measure = pair_tv
    else:
        measure = marginal_tv

    def tv(kernel, steps):
        y = KernelSampler.steps(kernel, steps).sample(start, seeded())
        return measure(y, law, process.states)

    assert tv(student, 1) < 0.5 * tv(fresh, 1)
    assert tv(student, 1) < tv(teacher, 16 if kind == "soft" else 1) + 0.05


def test_a_plain_denoiser_computes_where_it_is_told():
    masking = Masking(LAW)
    exact = ExactPosterior(masking)
    assert Kernel.from_denoiser(lambda x, time: exact(x, time, time), masking).home.dtype == (
        torch.float32
    )
    home = torch.empty(0, dtype=torch.float64)
    teacher = Kernel.from_denoiser(lambda x, time: exact(x, time, time), masking, home)
    assert teacher.home.dtype == torch.float64
    problem = sequence_problem(LAW, objective=DenoiserDistillation(teacher))
    path = problem.paths((64,), seeded())
    start, perfect = (problem.objective(k, path).item() for k in (problem.build(0), teacher))
    assert abs(perfect) < 1e-6 < start


def test_couples_are_learned_beside_the_diagonal():
    kernel = FlowMapKernel(FlatMLP(3, 2, 16, 1), 3)
    for p in kernel.parameters():  # a fresh one's logits are flat
        torch.nn.init.normal_(p, std=0.3)
    first, second = (PathSample(*(a[i : i + 4] for a in PATH)) for i in (0, 4))
    apart = PosteriorRegression()(kernel, first) + KernelCE()(kernel, second)
    assert torch.allclose(OnCouples()(kernel, PATH), apart)
    assert not torch.allclose(KernelCE()(kernel, PATH), apart / 2)


def test_soft_and_hard_are_one_word_apart():
    problems = [sequence_problem(LAW, process=process) for process in (Masking, OneHotFlow)]
    for problem in problems:
        loss = problem.objective(problem.build(0), problem.paths((8,), seeded()))
        assert loss.isfinite()


def coupled_twins():
    first = twins_problem(PosteriorRegression())
    return FlowMapDistillation(8, 1, Recipe(1)).problem(first, first.build(0), 0)


def test_a_batch_may_be_odd():
    kernel = train(coupled_twins(), Recipe(1, batch=5))
    assert all(p.isfinite().all() for p in kernel.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sequence_problem(LAW, process=OneHotFlow, objective=KernelCE()), "the mean of where"),
        (lambda: twins_problem(KernelResidual(SampledRate(OneHotFlow(TWINS)))),
         "another process"),
        (lambda: sequence_problem(LAW, process=OneHotFlow, single_time=True), "network of two times"),
        (lambda: sequence_problem(torch.zeros(4, 2)), "TokenArray"),
        (lambda: PROCESS.hold(PATH.x, PATH.x1 + 3, torch.ones(8, 2, dtype=torch.bool)), "alphabet"),
        (lambda: PROCESS.hold(PATH.x, PATH.x1, torch.ones(8, 2)), "held is bool"),
        (lambda: KernelSampler(SOFT).sample(PATH.x * torch.nan, seeded()), "not finite"),
        (lambda: KernelSampler(SOFT).sample(PATH.x, seeded(), torch.ones(8, 1)), "must be bool"),
        (lambda: SemigroupLoss()(HARD, PATH), "for soft kernels; BoundaryKernel has hard states"),
        (lambda: LagrangianLoss(floor=2.0), "floor must lie in"),
        (lambda: OneHotFlow(LAW, conditioning=1.5), "share of sequences must lie in"),
        (lambda: OneHotFlow(LAW, FixedPositions([2])).path(TimePair(torch.zeros(2), torch.ones(2)), seeded()),
         "position 2 lies outside 0 .. 1"),
        (lambda: FixedPositions([-1]), "counted from 0"),
        (lambda: FlowMapDistillation(0, 1, Recipe(1)), "needs couples and steps"),
        (lambda: FlowMapDistillation(1, 1, Recipe(1), whole=2), "share of whole ways"),
        (lambda: twins_problem(OnCouples()), "couples need both"),
        (lambda: train(coupled_twins(), Recipe(1, batch=6, accumulate=2)), "3 have no half"),
        (lambda: train(coupled_twins(), Recipe(1, batch=1)), "1 have no half"),
        (lambda: Coupled(TWINS, torch.zeros(4, 3, 3), torch.zeros(4, 3).long()), "do not belong"),
        (lambda: labelled(torch.zeros(2, 2).long(), torch.tensor([0, 3]), 3, 2), "from 0 to 2"),
        (lambda: labelled(torch.zeros(2, 2).long(), torch.tensor([0]), 3, 2), "1 of them for 2"),
        (lambda: label_tokens(torch.tensor([0]), 1, 2), "at least 2 classes"),
        (lambda: ClockUniform(3, 2.0), "share of pairs"),
        (lambda: KernelSampler(SOFT).sample(torch.zeros(4, 2, dtype=torch.long), seeded()),
         "start from points"),
        (lambda: KernelSampler(SOFT).sample(torch.zeros(4, 5, 3), seeded()), "length 2"),
        (lambda: train(twins_problem(PosteriorRegression()), Recipe(1), start=SOFT),
         "has another"),
        (lambda: Recipe(1, average=1.0), "decay must lie in"),
        (lambda: Phases((0.5, SemigroupLoss())), "shares > 0 that sum to 1"),
        (lambda: temperature(0.0), "from 0.001 to 100"),
        (lambda: top_p(0.0), "must lie in"),
        (lambda: KernelSampler(SOFT, guidance=2.0).sample(torch.zeros(4, 2, 3), seeded()),
         "guidance needs clamps"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


SOFT = FlowMapKernel(FlatMLP(3, 2, 16, 1), 3)
HARD = BoundaryKernel(MLP(3, 8, 2), Linear())
PATH = PROCESS.path(ClockUniform(3).sample((8,), seeded()), seeded(), 0)
