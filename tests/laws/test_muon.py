"""Laws of Muon: what it makes of a gradient, and that the training loop is the same with it."""

import pytest
import torch
from hypothesis import given, strategies as st

from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel
from discrete_meanflow.network import DiT, FlatMLP, Transformer
from discrete_meanflow.objective import PosteriorRegression
from discrete_meanflow.path import DataPaths
from discrete_meanflow.process import OneHotFlow
from discrete_meanflow.times import ClockUniform
from discrete_meanflow.training import Problem, Recipe, Trainer, checkpoint, sequence_problem
from discrete_meanflow.training.muon import Muon, cut, inner_matrices, orthogonal
from problems import seeded

LAW = BigramChain.dirichlet(3, 4)
PROBLEM = Problem(
    DataPaths(OneHotFlow(3), LAW, ClockUniform(3)),
    lambda: FlowMapKernel(DiT(3, 4, 8, 2, 2), 3),
    PosteriorRegression(),
)
RECIPE = Recipe(20, batch=16, block=5, ema_decay=0.9, muon_ratio=2.0)
INNER = inner_matrices(PROBLEM.build(0))


def finish(trainer):
    return [record.loss for record in trainer.blocks()]


@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6))
def test_what_is_cut_is_all_of_it_in_place(seeds, rows, columns):
    whole = torch.arange(seeds * rows * columns).reshape(seeds, rows, columns)
    pieces = cut(whole)
    if max(rows, columns) % min(rows, columns) == 0:
        assert pieces.shape[3:] == (min(rows, columns),) * 2
    assert torch.equal(pieces.flatten().sort().values, whole.flatten())
    pieces.zero_()
    assert not whole.any()


def test_squares_are_blocks_of_the_matrix():
    whole = torch.randn(2, 6, 3, generator=seeded())
    assert torch.equal(cut(whole)[0, 1, 0], whole[0, 3:])
    assert torch.equal(cut(whole.mT)[1, 0, 1], whole[1, 3:].mT)


@pytest.mark.parametrize(("dtype", "off"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
@pytest.mark.parametrize("shape", [(8, 8), (12, 5), (5, 12)])
def test_singular_values_go_to_one_and_vectors_stay(shape, dtype, off):
    g = seeded()
    u, _, v = torch.linalg.svd(torch.randn(4, *shape, generator=g), full_matrices=False)
    sizes = torch.rand(4, min(shape), generator=g) + 0.05  # the largest is twenty times the least
    made = orthogonal((u * sizes[:, None, :] @ v).to(dtype)).float()
    inside = u.mT @ made @ v.mT
    found = inside.diagonal(dim1=-2, dim2=-1)
    assert found.min() > 0.5
    assert found.max() < 1.4
    assert (inside - torch.diag_embed(found)).abs().max() < off


def test_nothing_comes_of_nothing():
    assert torch.equal(orthogonal(torch.zeros(2, 4, 4)), torch.zeros(2, 4, 4))


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (DiT(3, 4, 8, 2, 2), 8),  # four in each of two layers
        (FlatMLP(3, 4, 16, 1), 3),
        (Transformer(3, 4), 0),  # its layers are no nn.ModuleList
    ],
    ids=["adaptive", "flat", "paper"],
)
def test_inner_matrices_are_those_of_repeated_layers(network, count):
    names = inner_matrices(network)
    shapes = {name: p.shape for name, p in network.named_parameters()}
    assert len(names) == count
    assert all(len(shapes[name]) == 2 for name in names)


@pytest.mark.parametrize(("halved", "off"), [(False, 1e-6), (True, 2e-3)])
def test_two_steps_by_hand(halved, off):
    """Two matrices of one shape, others in between, some made up of two squares, and one that
    squares do not fill; in half precision, as on a GPU, nearly."""
    g = seeded()
    pieces = {(4, 4): 1, (4, 8): 2, (8, 4): 2, (4, 6): 1}
    matrices = [torch.randn(2, *shape, generator=g) for shape in [(4, 6), *pieces]]
    other = torch.randn(2, 3, generator=g)
    expected, momentum = [m.clone() for m in matrices], [torch.zeros_like(m) for m in matrices]
    muon = Muon([*matrices, other], matrices, 3.0, lr=torch.tensor(0.01), weight_decay=0.1)
    muon.halved = halved
    before = other.clone()
    for _ in range(2):
        for p in (*matrices, other):
            p.grad = torch.randn(p.shape, generator=g)
        for i, p in enumerate(matrices):
            momentum[i] = 0.95 * momentum[i] + 0.05 * p.grad
            ahead = 0.95 * momentum[i] + 0.05 * p.grad
            side = 1 if p.shape[1] > p.shape[2] else 2
            parts = ahead.chunk(pieces[tuple(p.shape[1:])], side)
            step = torch.cat([max(a.shape[1:]) ** 0.5 * orthogonal(a) for a in parts], side)
            expected[i] = expected[i] * (1 - 0.01 * 0.1) - 3 * 0.01 * 0.2 * step
        muon.step()
    for ours, theirs in zip(matrices, expected, strict=True):
        assert (ours - theirs).abs().max() < off
    assert 0.005 < (other - before).abs().max() < 0.03  # AdamW moves by its learning rate


def test_the_first_step_has_one_length_in_matrices():
    trainers = [
        Trainer(PROBLEM, Recipe(1, batch=16, muon_ratio=ratio), [1, 2]) for ratio in (0.0, 2.0)
    ]
    for trainer in trainers:
        g = seeded()
        for p in trainer.parameters.values():  # fresh, its gates are shut and gradients zero
            torch.nn.init.normal_(p, std=0.3, generator=g)
    before = {name: p.clone() for name, p in trainers[0].parameters.items()}
    for trainer in trainers:
        finish(trainer)
    adam, muon = (trainer.parameters for trainer in trainers)
    for name in before:
        if name in INNER:
            step = (muon[name] - before[name]).square().mean((1, 2)).sqrt()
            assert ((step > 0.6 * 2 * 0.2 * 3e-4) & (step < 1.3 * 2 * 0.2 * 3e-4)).all(), name
        else:
            assert torch.equal(muon[name], adam[name]), name


def test_stacked_seeds_are_seeds_alone():
    both, alone = Trainer(PROBLEM, RECIPE, [1, 2]), Trainer(PROBLEM, RECIPE, [2])
    finish(both), finish(alone)
    for name, p in both.parameters.items():
        assert (p[1] - alone.parameters[name][0]).abs().max() < 1e-4, name


def test_resume_is_bit_for_bit(tmp_path):
    whole, half, resumed = (Trainer(PROBLEM, RECIPE, [1, 2]) for _ in range(3))
    losses = finish(whole)
    next(half.blocks())
    checkpoint.save(tmp_path / "state.safetensors", half, {}, {})
    checkpoint.load(tmp_path / "state.safetensors", resumed, {})
    assert finish(resumed) == losses[1:]
    for name in whole.parameters:
        assert torch.equal(whole.parameters[name], resumed.parameters[name]), name


@pytest.mark.parametrize("ratio", [-1.0, float("inf"), float("nan")])
def test_a_bad_ratio_is_rejected(ratio):
    with pytest.raises(InputError, match="muon_ratio"):
        Recipe(10, muon_ratio=ratio)


def test_a_network_without_repeated_layers_is_rejected():
    with pytest.raises(InputError, match="ModuleList"):
        Trainer(sequence_problem(LAW), Recipe(10, muon_ratio=1.0), [1])
