"""Laws of every source of training paths."""

import pytest
import torch

from discrete_meanflow.ctmc import ring
from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.path import ChainPaths, DataPaths, MatchingPaths, MixedPaths, TeacherPairs
from discrete_meanflow.process import ChainProcess, OneHotFlow
from discrete_meanflow.times import ClockUniform, OnDiagonal, UniformGap
from problems import seeded, sequence_processes

LAW = BigramChain.dirichlet(3, 4, 1.0)
FLOW = OneHotFlow(3)
DATA = DataPaths(FLOW, LAW, ClockUniform(3))


def teacher_pairs(observed=None):
    g = seeded()
    times = torch.tensor([[0.0, 1.0], [0.2, 0.7]]).repeat(10, 1)
    ends = LAW.sample((20,), g)
    return TeacherPairs(FLOW, FLOW.source((20, 4), g), ends, times, observed)


PATHS = {
    "chain": ChainPaths(ChainProcess(ring()), UniformGap()),
    **{
        f"data, {name}": DataPaths(process, LAW, UniformGap(0.02))
        for name, process in sequence_processes().items()
    },
    "data, conditioned": DataPaths(FLOW, LAW, ClockUniform(3), 0.5),
    "teacher pairs": teacher_pairs(),
    "teacher pairs, conditioned": teacher_pairs(torch.rand(20, 4, generator=seeded()) < 0.5),
    "mixed": MixedPaths(DataPaths(FLOW, LAW, OnDiagonal(ClockUniform(3))), teacher_pairs()),
    "some teacher pairs": teacher_pairs().subset(torch.arange(20) < 7),
    "matching": MatchingPaths(DATA),
    "matching, conditioned": MatchingPaths(DataPaths(FLOW, LAW, ClockUniform(3), 0.5)),
    "matching and pairs": MixedPaths(MatchingPaths(DATA), teacher_pairs()),
}
every_source = pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)


@every_source
def test_a_batch_has_the_shape_asked_for(paths):
    path = paths.sample((2, 6), seeded(), draws=3)
    space = paths.process.space
    positions = (2, 6) if isinstance(paths, ChainPaths) else (2, 6, paths.length)
    space.check(path.x)
    space.check(path.y)
    assert space.positions(path.x) == positions
    assert space.positions(path.y) == (*positions, 3)
    for time in (path.r, path.t, path.s):
        assert torch.broadcast_shapes(time.shape, positions) == positions
        assert time.dtype == torch.float32
    if not any(isinstance(part, MatchingPaths) for part in paths.modules()):
        assert bool((path.r <= path.s).all())  # the noise level of matching is of another state
    assert bool(((path.r <= path.t) & (path.s <= path.t)).all())
    assert path.has_endpoint == (path.x1.shape == positions)


@every_source
def test_the_seed_decides(paths):
    first, again, other = (paths.sample((3, 4), seeded(seed)) for seed in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.x, other.x)


@every_source
def test_observed_positions_are_at_time_one(paths):
    path = paths.sample((200,), seeded())
    observed = path.r == 1
    assert bool(observed.any()) == paths.conditioned
    assert bool((path.t[observed] == 1).all())


@pytest.mark.parametrize("name", [name for name in PATHS if name.startswith("data")])
def test_rates_have_a_column_for_every_draw(name):
    paths = PATHS[name]
    path = paths.sample((5,), seeded(), draws=2)
    rates = paths.process.rates_at(path)
    assert rates.shape == (5, paths.length, 2, paths.process.states)


def test_mixed_parts_must_agree():
    free, conditioned = (DataPaths(FLOW, LAW, ClockUniform(3), f) for f in (0.0, 0.5))
    for parts in ((free, conditioned), (free, PATHS["chain"]), ()):
        with pytest.raises(InputError, match="mixed paths"):
            MixedPaths(*parts)
