"""Scores of conditional samples: laws, and examples small enough to count by hand."""

import itertools

import pytest
import torch
from hypothesis import given, strategies as st

from discrete_meanflow.errors import InputError
from discrete_meanflow.metric import conditional
from discrete_meanflow.metric.conditional import (
    MIN_PAIR_RECORDS,
    adjacent_pair_tv,
    completion_auc,
    pairs_looked_up,
    position_pair_tv,
    unseen_pairs,
)
from discrete_meanflow.metric.two_samples import position_pairs
from problems import seeded

V = 4
SIZES = st.tuples(st.integers(1, 6), st.integers(2, 5), st.integers(0, 2**20))


def dependent(n, length=5, seed=0):
    """Records whose positions all have the same symbol, except for one in ten."""
    g = seeded(seed)
    noise = torch.randint(V, (n, length), generator=g)
    noisy = torch.rand(n, length, generator=g) < 0.1
    return torch.where(noisy, noise, torch.randint(V, (n, 1), generator=g))


def half_masks(n, length=5):
    return torch.rand(n, length, generator=seeded(9)).argsort(1) < length // 2


@given(SIZES)
def test_unseen_pairs_are_those_of_a_loop(sizes):
    n, length, seed = sizes
    g = seeded(seed)
    x, train = (torch.randint(3, (k, length), generator=g) for k in (n, 4))
    observed = torch.rand(n, length, generator=g) < 0.5
    pairs = [
        (i, j, tuple(row[[i, j]].tolist()))
        for row, mask in zip(x, observed, strict=True)
        for i, j in itertools.combinations(range(length), 2)
        if mask[i] != mask[j]
    ]
    seen = [any(tuple(z[[i, j]].tolist()) == pair for z in train) for i, j, pair in pairs]
    expected = seen.count(False) / max(1, len(seen))
    assert unseen_pairs(x, observed, train, 3).item() == pytest.approx(expected)
    with pytest.MonkeyPatch.context() as patch:  # an alphabet too large for a table
        patch.setattr(conditional, "MAX_TABLE", 0)
        patch.setattr(conditional, "CHUNK_ROWS", 3)
        assert unseen_pairs(x, observed, train, 3).item() == pytest.approx(expected)


@given(SIZES)
def test_training_records_have_no_unseen_pairs(sizes):
    n, length, seed = sizes
    g = seeded(seed)
    train = torch.randint(3, (n + 2, length), generator=g)
    observed = torch.rand(2, n, length, generator=g) < 0.5
    assert unseen_pairs(train[:n].expand(2, -1, -1), observed, train, 3).tolist() == [0, 0]


def test_unseen_pairs_are_counted_per_set():
    x = dependent(60)
    sets, observed = torch.stack([x, x.flip(1), (x + 1) % V]), half_masks(60)
    together = unseen_pairs(sets, observed, x[:20], V)
    assert together.tolist() == [unseen_pairs(z, observed, x[:20], V).item() for z in sets]


def test_pairs_looked_up_are_bounded(monkeypatch):
    assert pairs_looked_up(4, 1000) == 6
    assert pairs_looked_up(784, 10_000) == conditional.MAX_PAIRS
    assert pairs_looked_up(784, conditional.MAX_LOOKUPS // 50) == 50
    assert pairs_looked_up(784, 10 * conditional.MAX_LOOKUPS) == 1
    monkeypatch.setattr(conditional, "MAX_LOOKUPS", 20)
    x = torch.tensor([[0, 1, 2]])
    train = x.repeat(20, 1)
    assert unseen_pairs(x + 1, torch.tensor([[True, False, True]]), train, V, seed=1) in (0, 1)


@given(st.integers(2, 40), st.integers(1, 30), st.integers(0, 99))
def test_position_pairs_are_distinct_pairs_in_order(length, most, seed):
    every = list(itertools.combinations(range(length), 2))
    pairs = position_pairs(length, seed, most)
    if len(every) <= most:
        assert pairs == every
    else:
        assert (len(pairs), len(set(pairs))) == (most, most)
        assert set(pairs) <= set(every)


def test_position_pairs_of_long_records_need_little_memory():
    pairs = position_pairs(1_000_000, 0)
    assert len(pairs) == 1000
    assert all(0 <= i < j < 1_000_000 for i, j in pairs)
    assert max(j for _, j in pairs) > 900_000


def test_adjacent_pair_tv_counts_pairs_with_one_observed():
    x, y = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[0, 1, 3, 3]])
    first, ends = (torch.tensor([m]).bool() for m in ([1, 0, 0, 0], [1, 0, 0, 1]))
    assert adjacent_pair_tv(x, y, first, V) == 0  # only 01 counts
    assert adjacent_pair_tv(x, y, ends, V) == 0.5  # 01 in both, then 23 against 33
    both = torch.tensor([[0, 1], [0, 1]]), torch.tensor([[0, 1], [2, 3]])
    sides = torch.tensor([[1, 0], [0, 1]]).bool()
    assert adjacent_pair_tv(*both, sides, V) == 0.5
    # Whether the first or the second symbol is observed is part of the pair.
    assert adjacent_pair_tv(both[1], both[1].flip(0), sides, V) == 1


def test_adjacent_pairs_after_the_end_do_not_count():
    short, long = torch.tensor([[0, 3, 3]]), torch.tensor([[0, 3, 1]])
    observed = torch.tensor([[False, True, False]])
    assert adjacent_pair_tv(short, long, observed, V, pad=3) == 0  # only 03 counts
    assert adjacent_pair_tv(short, long, observed, V) == 0.5
    assert adjacent_pair_tv(short[:, 1:], short[:, 1:], observed[:, 1:], V, pad=3) is None


def test_position_pair_tv_needs_enough_records():
    n = MIN_PAIR_RECORDS
    x = torch.zeros(n, 3, dtype=torch.long)
    y = x.clone()
    y[:, 1] = 1
    observed = torch.tensor([True, False, False]).repeat(n, 1)
    assert position_pair_tv(x, y, observed, V) == 0.5  # (0, 1) differs, (0, 2) does not
    assert position_pair_tv(x[1:], y[1:], observed[1:], V) is None
    observed[0] = torch.tensor([True, True, False])  # leaves n - 1 records of (0, 1)
    assert position_pair_tv(x, y, observed, V) == 0


@pytest.mark.parametrize("distance", [adjacent_pair_tv, position_pair_tv])
def test_completions_that_ignore_the_condition_have_other_pairs(distance):
    x, y = dependent(800), dependent(800, seed=1)
    observed = half_masks(800)
    ignorant = torch.where(observed, y, y.roll(1, 0))
    floor, worse = (distance(x, z, observed, V) for z in (y, ignorant))
    assert worse > 0.3 > 2 * floor


def test_completions_that_ignore_the_condition_are_unseen_pairs():
    y, observed = dependent(200, seed=1), half_masks(200)
    train = torch.arange(V)[:, None].repeat(1, 5)
    floor, worse = (
        unseen_pairs(z, observed, train, V).item()
        for z in (y, torch.where(observed, y, y.roll(1, 0)))
    )
    assert worse > 0.6 > 2 * floor


def test_completion_auc_finds_completions_that_ignore_the_condition():
    x, y = dependent(300), dependent(300, seed=1)
    observed = half_masks(300)
    assert abs(completion_auc(x, y, observed) - 0.5) < 0.1
    assert completion_auc(x, torch.where(observed, y, y.roll(1, 0)), observed) > 0.8


def test_completion_auc_sees_the_mask():
    """Pairs that are equal or different, depending on which position is observed."""
    x, y = torch.randint(2, (2, 400, 2), generator=seeded())
    observed = half_masks(400, 2)
    generated = torch.where(observed[:, 0], y[:, 0], 1 - y[:, 1])
    y = torch.where(observed, y, generated[:, None])
    blind = torch.zeros_like(observed)
    assert abs(completion_auc(x, y, blind) - 0.5) < 0.1
    assert completion_auc(x, y, observed) > 0.65


def test_completion_auc_cannot_learn_the_masks():
    """Only masks differ between rows: twins in different halves would give away the answer."""
    x = torch.zeros(60, 12, dtype=torch.long)
    observed = torch.rand(60, 12, generator=seeded()) < 0.5
    assert completion_auc(x, x, observed) == pytest.approx(0.5)
    with pytest.raises(InputError, match="60 real records, 59 completions"):
        completion_auc(x, x[1:], observed)
    with pytest.raises(InputError, match="at least 4 records"):
        completion_auc(x[:3], x[:3], observed[:3])
