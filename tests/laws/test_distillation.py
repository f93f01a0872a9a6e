"""Laws of flow-map distillation: teacher pairs, and the student that learns from them."""

import itertools

import pytest
import torch
from torch.utils._pytree import tree_map

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import ExactPosterior, FlowMapKernel
from discrete_meanflow.network import DiagonalNetwork, FlatMLP
from discrete_meanflow.objective import KernelCE, PairCrossEntropy, PosteriorRegression
from discrete_meanflow.path import DataPaths, MixedPaths, TeacherPairs
from discrete_meanflow.process import Masking, OneHotFlow
from discrete_meanflow.sampler import KernelSampler, ODESampler
from discrete_meanflow.simplex import delta
from discrete_meanflow.times import ClockUniform, OnDiagonal
from discrete_meanflow.training import (
    FlowMapDistillation,
    Recipe,
    distillation,
    sequence_problem,
    trace as trace_module,
    train_kernel,
)
from laws.exact_flow import LAW, PROCESS, TWINS, TWINS_PROCESS, ExactFlow, twins_problem
from problems import seeded


def twins_paths(conditioning=0.0):
    return DataPaths(TWINS_PROCESS, TWINS, ClockUniform(2, 0.2), conditioning)


@pytest.fixture(scope="module")
def twins():
    """A teacher: the diagonal of a law with equal positions."""
    problem = twins_problem(PosteriorRegression(), conditioning=0.5)
    return train_kernel(problem, Recipe(500, learning_rate=3e-3, ema_decay=0.98), seed=0)


@pytest.mark.parametrize("data_fraction", [0, 1])
def test_pairs_inside_a_trajectory_follow_the_flow_map(data_fraction):
    """Two states of the exact flow, and symbols drawn from the law that joins them."""
    kernel = FlowMapKernel(ExactPosterior(LAW, PROCESS), PROCESS.states)
    paths = DataPaths(PROCESS, LAW, ClockUniform(3))
    stage = FlowMapDistillation(4000, 64, Recipe(1), 0.25, data_fraction)
    pairs = stage.teacher_pairs(paths, kernel, seed=0)
    r, t = pairs.times.double()[:, None].unbind(-1)
    full = (r == 0) & (t == 1)
    assert bool((r < t).all())
    assert 0.2 < full.double().mean() < 0.3
    inside = (t < 0.99).flatten()
    assert inside.double().mean() > 0.5
    x, ends = pairs.starts[inside].double(), pairs.ends[inside].long()
    q = ExactFlow()(x, r[inside], t[inside]).exp()
    drawn = delta(ends, PROCESS.states, q.dtype)
    # Right on average, and certain where q is certain.
    z = (drawn - q).sum(0) / (q * (1 - q)).sum(0).sqrt()
    assert z.abs().max() < 4.5
    nll = -q.log().gather(-1, ends[..., None]).mean()
    assert (nll - (-q * q.log()).sum(-1).mean()).abs() < 0.05
    assert -torch.log(drawn.mean((0, 1))[ends]).mean() > 0.2 + nll


def test_pairs_lead_to_the_end_of_their_trajectory(twins):
    """Euler steps from each intermediate state reach the pair's end; observed tokens stay."""
    stage = FlowMapDistillation(600, 4, Recipe(1), full_interval_fraction=0.2, data_fraction=0)
    pairs = stage.teacher_pairs(twins_paths(0.5), twins, seed=0)
    diagonal = FlowMapKernel(DiagonalNetwork(twins.network), 2)
    grid = ODESampler(diagonal, 4).grid
    to_end = pairs.times[:, 1] == 1
    assert {round(t, 4) for t in pairs.times[to_end, 0].tolist()} == {
        round(t, 4) for t in grid[:-1]
    }
    for i, r in enumerate(grid[:-1]):
        here = to_end & torch.isclose(pairs.times[:, 0], torch.tensor(r))
        ends = KernelSampler(diagonal, grid[i:]).sample(
            pairs.starts[here].float(), seeded(), pairs.ends[here].long(), pairs.observed[here]
        )
        assert (ends == pairs.ends[here]).double().mean() > 0.97  # starts are in half precision
    observed = pairs.observed
    assert torch.equal(pairs.starts.argmax(-1)[observed], pairs.ends[observed])


@pytest.mark.skipif(
    not trace_module.can_compile(torch.device("cpu")), reason="no C++ compiler or Python headers"
)
@pytest.mark.parametrize("bf16", [False, True])
def test_compiled_pairs_are_the_pairs(bf16, twins, monkeypatch):
    stage = FlowMapDistillation(50, 2, Recipe(1, bf16=bf16), full_interval_fraction=0.5)
    compile_graph, graphs = trace_module.compiled, []
    monkeypatch.setattr(trace_module, "compiled", lambda g: graphs.append(g) or compile_graph(g))
    monkeypatch.setattr(distillation, "chunk_size", lambda *_: 16)  # four chunks of 13
    plain = stage.teacher_pairs(twins_paths(0.5), twins, seed=0)
    monkeypatch.setattr(distillation, "MANY_EVALUATIONS", 8)
    assert not graphs
    fast = stage.teacher_pairs(twins_paths(0.5), twins, seed=0)
    assert len(graphs) == 1
    assert len(plain.ends) == len(fast.ends) == 50
    assert (plain.starts - fast.starts).abs().max() < 1e-2  # in half precision
    assert torch.equal(plain.times, fast.times)
    assert (plain.ends == fast.ends).double().mean() > 0.98


@pytest.mark.parametrize(
    ("asked", "device", "chunks", "worth_it"),
    [
        (None, "cpu", 1, False), (None, "cpu", 100, True), (None, "cuda", 1, False),
        (True, "cpu", 1, False), (True, "cuda", 1, True), (False, "cuda", 100, False),
    ],
)  # fmt: skip
def test_pairs_are_compiled_where_it_pays(asked, device, chunks, worth_it, monkeypatch):
    monkeypatch.setattr(distillation, "can_compile", lambda device: True)
    stage = FlowMapDistillation(10, 16, Recipe(1, compiled=asked))
    assert stage.worth_compiling(chunks, torch.device(device)) == worth_it


def test_full_interval_pairs_are_noise_and_the_end(twins):
    stage = FlowMapDistillation(50, 2, Recipe(1), full_interval_fraction=1, data_fraction=0)
    pairs = stage.teacher_pairs(twins_paths(), twins, seed=3)
    g = torch.Generator().manual_seed(distillation.chunk_seed(3, 0))
    twins_paths().conditioning.sample((50,), 3, g)
    TWINS.sample((50,), g)
    noise = TWINS_PROCESS.source((50, 3), g)
    assert torch.equal(pairs.starts, noise.half())
    assert pairs.times.unique(dim=0).tolist() == [[0.0, 1.0]]
    diagonal = FlowMapKernel(DiagonalNetwork(twins.network), 2)
    assert torch.equal(ODESampler(diagonal, 2).sample(noise, g), pairs.ends.long())


def test_no_two_chunks_have_the_same_seed():
    seeds = {distillation.chunk_seed(seed, i) for seed in (0, 1, 2**63 - 1) for i in range(1000)}
    assert len(seeds) == 3000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_chunks_are_stored_in_order(twins, monkeypatch):
    stage, done = FlowMapDistillation(50, 2, Recipe(1)), []
    monkeypatch.setattr(distillation, "chunk_size", lambda *sizes: 20)
    pairs = stage.teacher_pairs(twins_paths(0.5), twins, 3, lambda f: bool(done.append(f)))
    assert done == [pytest.approx(i / 3) for i in (1, 2, 3)]
    chunks = itertools.islice(stage.chunks(twins_paths(0.5), twins, 3, 17, False), 3)
    stores = (pairs.starts, pairs.ends, pairs.times, pairs.observed, pairs.from_data)
    for parts, store in zip(zip(*chunks, strict=True), stores, strict=True):
        assert torch.equal(torch.cat(parts)[:50].to(store.dtype), store)


def test_a_student_learns_the_map_at_once(twins):
    """Half of a batch is data on the diagonal, half teacher pairs."""
    first = twins_problem(PosteriorRegression(), conditioning=0.5)
    recipe = Recipe(150, learning_rate=3e-3, ema_decay=0.9)
    stage = FlowMapDistillation(3000, 8, recipe, full_interval_fraction=1)
    problem = stage.problem(first, twins, seed=0)
    path = problem.sample((5, 64), seeded())
    diagonal, pairs = (rows_of(path, rows) for rows in (slice(32), slice(32, None)))
    assert torch.equal(diagonal.r, diagonal.t)
    assert bool(((diagonal.r > 0) & (diagonal.r < 1)).any())
    assert bool(((pairs.r == 0) | (pairs.r == 1)).all())
    assert bool((pairs.t == 1).all())
    batch = tree_map(lambda a: a[0], path)
    before = problem.objective(first.build(0), batch)
    kernel = train_kernel(problem, recipe, seed=0, start=twins)
    assert problem.objective(kernel, batch) < 0.7 * before
    y = KernelSampler(kernel).sample(TWINS_PROCESS.source((4000, 3), seeded()), seeded())
    assert ((y[:, 0] == y[:, 1]) & (y[:, 1] == y[:, 2])).double().mean() > 0.95


def rows_of(path, rows):
    """Some rows of every batch."""
    return tree_map(lambda a: a[:, rows], path)


def test_the_students_loss_is_the_mean_of_two_means(twins):
    kernel = FlowMapKernel(FlatMLP(2, 3, 16, 1), 2)
    for p in kernel.parameters():  # new ones have flat logits
        torch.nn.init.normal_(p, std=0.3)
    first = twins_problem(PosteriorRegression())
    problem = FlowMapDistillation(20, 2, Recipe(1)).problem(first, twins, 0)
    path = problem.sample((8,), seeded())
    data, pairs = (tree_map(lambda a, rows=rows: a[rows], path) for rows in (slice(4), slice(4, 8)))
    expected = (PosteriorRegression()(kernel, data) + KernelCE()(kernel, pairs)) / 2
    assert torch.allclose(problem.objective(kernel, path), expected)


@pytest.mark.parametrize("minibatch_ot", [0, 4])
@pytest.mark.parametrize("batch", [2, 5])
def test_any_batch_size_can_be_mixed(batch, minibatch_ot, twins):
    first = twins_problem(PosteriorRegression(), process=OneHotFlow(2, minibatch_ot))
    problem = FlowMapDistillation(8, 1, Recipe(1)).problem(first, twins, 0)
    assert len(problem.sample((batch,), seeded()).x) == batch
    kernel = train_kernel(problem, Recipe(1, batch=batch))
    assert all(p.isfinite().all() for p in kernel.parameters())


def test_mixed_paths_take_equal_numbers_from_each_part():
    paths = twins_paths()
    diagonal = DataPaths(TWINS_PROCESS, TWINS, OnDiagonal(paths.times))
    path = MixedPaths(diagonal, paths).sample((3, 10), seeded())
    assert bool((path.r[:, :5] == path.t[:, :5]).all())
    assert bool((path.r[:, 5:] < path.t[:, 5:]).all())
    with pytest.raises(InputError, match="same process"):
        MixedPaths(paths, DataPaths(OneHotFlow(2), TWINS, ClockUniform(2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FlowMapDistillation(0, 1, Recipe(1)), "pairs >= 1"),
        (lambda: FlowMapDistillation(1, 1, Recipe(1), 2), r"fraction of pairs \(0, 1\)"),
        (lambda: FlowMapDistillation(1, 1, Recipe(1), 1, -1), "fraction of pairs from data"),
        (
            lambda: FlowMapDistillation(1, 1, Recipe(1)).problem(
                sequence_problem(LAW, process=Masking(3)), None, 0
            ),
            "OneHotFlow",
        ),
        (
            lambda: TeacherPairs(
                TWINS_PROCESS, torch.zeros(4, 3, 3), torch.zeros(4, 3), torch.tensor([[0.0, 1.0]])
            ),
            "do not fit",
        ),
        (
            lambda: TeacherPairs(
                TWINS_PROCESS, torch.zeros(4, 3, 2), torch.zeros(4, 3), torch.ones(4, 2)
            ),
            "r < t",
        ),
        (lambda: twins_problem(PairCrossEntropy()), "needs TeacherPairs"),
    ],
)
def test_bad_input_is_rejected(call, message):
    with pytest.raises(InputError, match=message):
        call()
