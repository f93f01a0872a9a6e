"""Metrics of samples against samples, on examples that can be counted by hand."""

import itertools

import pytest
import torch

from discrete_meanflow.metric import two_sites
from discrete_meanflow.metric.molecules import count_tv, count_tv_deviation, read_smiles
from discrete_meanflow.metric.pair_covariance import pair_covariance_correlation
from discrete_meanflow.metric.text import ReferenceLM, known_words, letter_entropy
from discrete_meanflow.metric.two_samples import (
    c2st_auc,
    column_pair_tv,
    copies,
    nearest,
    ngram_tv,
    pairs_seen,
)
from discrete_meanflow.network import FlatMLP, LogitMask
from dmf_reproduction.experiments.joint_sudoku import constraints_satisfied
from problems import seeded


def test_grams_are_counted_where_a_string_has_them():
    x, y = torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1, 1]])
    assert ngram_tv(x, y, 3) == 0.5  # 01 in both, then 12 against 11
    assert ngram_tv(x, y, 3, order=3) == 1.0
    assert ngram_tv(x, x, 3) == 0.0
    short, long = torch.tensor([[0, 2, 2, 2]]), torch.tensor([[0, 1, 2, 2]])
    assert ngram_tv(short, long, 3, pad=2) == 1.0  # 02 against 01 and 12
    assert ngram_tv(short, long, 3) < 1.0  # pads behind the end are in both
    assert ngram_tv(torch.zeros(2, 1), torch.zeros(2, 1), 2) == 0.0


def test_pairs_of_columns_see_what_columns_do_not():
    x = torch.tensor([[0, 0], [1, 1]])
    y = torch.tensor([[0, 1], [1, 0]])
    assert column_pair_tv(x, y, 2) == 1.0
    assert column_pair_tv(x, x.flip(0), 2) == 0.0
    assert column_pair_tv(x[:, :1], y[:, :1], 2) == 0.0


def test_a_pair_that_was_never_seen_is_strange():
    train = torch.tensor([[0, 0, 0], [1, 1, 0], [0, 1, 1]])
    x = torch.tensor([[0, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
    assert pairs_seen(x, train, 2) == 0.5  # 01_, 0_0 and _10 occur; 10_ does not, nor 1_1


def test_copies_and_neighbours():
    train = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]])
    x = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [2, 2, 2, 2]])
    assert copies(x, train) == 0.25
    assert nearest(x, train) == pytest.approx((0 + 1 + 2 + 4) / 16)


def test_a_classifier_tells_what_differs_and_not_what_does_not():
    x, y = torch.randint(3, (2, 400, 5), generator=seeded())
    assert abs(c2st_auc(x, y) - 0.5) < 0.1
    y[:, 0] = 0
    assert c2st_auc(x, y) > 0.75


def test_molecules_are_counted():
    found = read_smiles(["CCO", "", "C((", "c1ccccc1"])
    assert [(m.canonical, m.rings, m.atoms) for m in found] == [
        ("CCO", 0, (2, 0, 1, 0)),
        ("c1ccccc1", 1, (6, 0, 0, 0)),
    ]
    assert count_tv([1, 1, 2, 3], [1, 2, 2, 3]) == 0.25
    assert count_tv([], [1]) == 1.0
    assert count_tv_deviation([], [1]) == 0.0
    # Of one list of n fair coins against one that is certain: the share of heads has 1/(2 sqrt n).
    found = count_tv_deviation([0, 1] * 200, [0] * 10)
    assert found == pytest.approx(0.5 / 20, rel=0.1)


def test_a_grid_keeps_all_27_constraints_or_fewer():
    grid = torch.tensor([[(3 * (i % 3) + i // 3 + j) % 9 for j in range(9)] for i in range(9)])
    wrong = grid.clone()
    wrong[0, 0], wrong[0, 1] = grid[0, 1], grid[0, 0]  # its row and box stay, two columns do not
    kept = constraints_satisfied(torch.stack([grid, wrong]).flatten(1))
    assert kept.tolist() == [27, 25]


def test_sites_that_vary_together_are_told_by_their_covariances(monkeypatch):
    """All of them written out one by one, of sites apart; and in parts, however small."""
    V, (x, y) = 3, torch.randint(3, (2, 60, 4), generator=seeded())
    x = x[:40]
    y[:, 3], x[:30, 3] = y[:, 0], x[:30, 0]
    found = []
    for z in (x, y):
        for i, j in itertools.combinations(range(4), 2):
            for a, b in itertools.product(range(V), repeat=2):
                one, other = (z[:, i] == a).double(), (z[:, j] == b).double()
                found.append((one * other).mean() - one.mean() * other.mean())
    exact = torch.corrcoef(torch.stack(found).reshape(2, -1))[0, 1].item()
    assert exact > 0.5
    assert pair_covariance_correlation(x, y, V) == pytest.approx(exact, abs=1e-5)
    for few in (1, 30):
        monkeypatch.setattr(two_sites, "AT_ONCE", few)
        assert pair_covariance_correlation(x, y, V) == pytest.approx(exact, abs=1e-5)
    assert pair_covariance_correlation(x, x, V) == pytest.approx(1)
    monkeypatch.setattr(two_sites, "MOST_SITES", 2)
    assert pair_covariance_correlation(x, y, V, seed=1) != pytest.approx(exact, abs=1e-3)


def test_sites_that_do_not_vary_together_have_nothing_to_compare():
    independent = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    same = torch.arange(5).repeat(2, 1).T
    assert pair_covariance_correlation(independent, same, 5) == 0.0
    assert pair_covariance_correlation(same[:, :1], same[:, :1], 5) == 0.0  # one site alone
    weakly = torch.cat([independent.repeat(400, 1), same])  # covariances of some 1e-4
    assert pair_covariance_correlation(weakly, same, 5) == pytest.approx(1, abs=1e-3)


def test_restricted_positions_never_leave_their_alphabet():
    allowed = torch.tensor([[True, False, False], [True, True, True]])
    network = LogitMask(FlatMLP(3, 2, 16, 1), allowed)
    time = torch.full((4, 1), 0.3)
    q = network(torch.randn(4, 2, 3, generator=seeded()), time, time).softmax(-1)
    assert bool((q[:, ~allowed] == 0).all())
    assert bool((q[:, allowed] > 0).all())


def test_words_at_the_edges_of_a_window_do_not_count():
    known = {"the", "cat", "sat", "on", "a", "mat"}
    assert known_words(["he cat sat\non m", "xx on yy zz a"], known) == 4 / 6
    assert known_words([" the cat\n"], {"the", "cat"}) == known_words(["the cat sat"], {"cat"}) == 1
    assert known_words(["abc", ""], {"abc"}) == 0


def test_the_entropy_of_letters():
    x = torch.tensor([[0, 0, 0, 0], [0, 1, 2, 3]])
    assert letter_entropy(x, 4) == pytest.approx(1.0)


def test_a_reader_learns_what_follows_what_and_sees_no_future():
    """Symbols that go round 0 1 2: the first costs log2 3 bits, the others none."""
    start = torch.arange(201)[:, None]
    x = (start + torch.arange(6)) % 3
    reader = ReferenceLM.trained(x, 3, "cpu", 150, batch=32, width=32, layers=1)
    bits = reader(x[:9])
    assert (bits[:, 0] - torch.tensor(3.0).log2()).abs().max() < 0.3
    assert bits[:, 1:].max() < 0.3
    other = x[:9].clone()
    other[:, 4:] = 0
    assert torch.allclose(reader(other)[:, :4], bits[:, :4])
    assert reader.bits(x) == pytest.approx(reader(x).mean().item(), rel=1e-4)
