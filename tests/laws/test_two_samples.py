"""Metrics between two sets of samples, on examples small enough to count by hand."""

import itertools

import pytest
import torch

from discrete_meanflow.metric import pair_covariance
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
from dmf_reproduction.molecules import count_tv, count_tv_deviation, read_smiles
from problems import seeded


def test_ngram_tv_counts_ngrams_up_to_the_pad():
    x, y = torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1, 1]])
    assert ngram_tv(x, y, 3) == 0.5  # 01 in both, then 12 against 11
    assert ngram_tv(x, y, 3, order=3) == 1.0
    assert ngram_tv(x, x, 3) == 0.0
    short, long = torch.tensor([[0, 2, 2, 2]]), torch.tensor([[0, 1, 2, 2]])
    assert ngram_tv(short, long, 3, pad=2) == 1.0  # 02 against 01 and 12
    assert ngram_tv(short, long, 3) < 1.0  # pads after the end are in both
    assert ngram_tv(torch.zeros(2, 1), torch.zeros(2, 1), 2) == 0.0


def test_column_pair_tv_detects_dependence_that_columns_miss():
    x = torch.tensor([[0, 0], [1, 1]])
    y = torch.tensor([[0, 1], [1, 0]])
    assert column_pair_tv(x, y, 2) == 1.0
    assert column_pair_tv(x, x.flip(0), 2) == 0.0
    assert column_pair_tv(x[:, :1], y[:, :1], 2) == 0.0


def test_pairs_seen_counts_records_without_new_pairs():
    train = torch.tensor([[0, 0, 0], [1, 1, 0], [0, 1, 1]])
    x = torch.tensor([[0, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
    assert pairs_seen(x, train, 2) == 0.5  # 01_, 0_0 and _10 occur; 10_ does not, nor 1_1


def test_copies_and_nearest_are_counted():
    train = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]])
    x = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [2, 2, 2, 2]])
    assert copies(x, train) == 0.25
    assert nearest(x, train) == pytest.approx((0 + 1 + 2 + 4) / 16)


def test_c2st_auc_separates_only_what_differs():
    x, y = torch.randint(3, (2, 400, 5), generator=seeded())
    assert abs(c2st_auc(x, y) - 0.5) < 0.1
    y[:, 0] = 0
    assert c2st_auc(x, y) > 0.75


def test_molecule_statistics_are_counted():
    molecules = read_smiles(["CCO", "", "C((", "c1ccccc1"])
    assert [(m.canonical, m.rings, m.atoms) for m in molecules] == [
        ("CCO", 0, (2, 0, 1, 0)),
        ("c1ccccc1", 1, (6, 0, 0, 0)),
    ]
    assert count_tv([1, 1, 2, 3], [1, 2, 2, 3]) == 0.25
    assert count_tv([], [1]) == 1.0
    assert count_tv_deviation([], [1]) == 0.0
    # The fraction of heads of n fair coins has standard deviation 1 / (2 sqrt n).
    deviation = count_tv_deviation([0, 1] * 200, [0] * 10)
    assert deviation == pytest.approx(0.5 / 20, rel=0.1)


def test_sudoku_constraints_are_counted():
    grid = torch.tensor([[(3 * (i % 3) + i // 3 + j) % 9 for j in range(9)] for i in range(9)])
    wrong = grid.clone()
    wrong[0, 0], wrong[0, 1] = (
        grid[0, 1],
        grid[0, 0],
    )  # its row and box stay valid, two columns do not
    kept = constraints_satisfied(torch.stack([grid, wrong]).flatten(1))
    assert kept.tolist() == [27, 25]


def test_pair_covariance_correlation_equals_its_definition(monkeypatch):
    """Compares with a loop over all covariances, for chunks of any size."""
    V, (x, y) = 3, torch.randint(3, (2, 60, 4), generator=seeded())
    x = x[:40]
    y[:, 3], x[:30, 3] = y[:, 0], x[:30, 0]
    covariances = []
    for z in (x, y):
        for i, j in itertools.combinations(range(4), 2):
            for a, b in itertools.product(range(V), repeat=2):
                one, other = (z[:, i] == a).double(), (z[:, j] == b).double()
                covariances.append((one * other).mean() - one.mean() * other.mean())
    exact = torch.corrcoef(torch.stack(covariances).reshape(2, -1))[0, 1].item()
    assert exact > 0.5
    assert pair_covariance_correlation(x, y, V) == pytest.approx(exact, abs=1e-5)
    for entries in (1, 30):
        monkeypatch.setattr(pair_covariance, "CHUNK_ENTRIES", entries)
        assert pair_covariance_correlation(x, y, V) == pytest.approx(exact, abs=1e-5)
    assert pair_covariance_correlation(x, x, V) == pytest.approx(1)
    monkeypatch.setattr(pair_covariance, "MAX_SITES", 2)
    assert pair_covariance_correlation(x, y, V, seed=1) != pytest.approx(exact, abs=1e-3)


def test_pair_covariance_correlation_is_zero_without_covariance():
    independent = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    same = torch.arange(5).repeat(2, 1).T
    assert pair_covariance_correlation(independent, same, 5) == 0.0
    assert pair_covariance_correlation(same[:, :1], same[:, :1], 5) == 0.0  # a single site
    weakly = torch.cat([independent.repeat(400, 1), same])  # covariances of about 1e-4
    assert pair_covariance_correlation(weakly, same, 5) == pytest.approx(1, abs=1e-3)


def test_logit_mask_excludes_symbols_that_are_not_allowed():
    allowed = torch.tensor([[True, False, False], [True, True, True]])
    network = LogitMask(FlatMLP(3, 2, 16, 1), allowed)
    time = torch.full((4, 1), 0.3)
    q = network(torch.randn(4, 2, 3, generator=seeded()), time, time).softmax(-1)
    assert bool((q[:, ~allowed] == 0).all())
    assert bool((q[:, allowed] > 0).all())


def test_known_words_skips_words_at_the_edges_of_a_window():
    known = {"the", "cat", "sat", "on", "a", "mat"}
    assert known_words(["he cat sat\non m", "xx on yy zz a"], known) == 4 / 6
    assert known_words([" the cat\n"], {"the", "cat"}) == known_words(["the cat sat"], {"cat"}) == 1
    assert known_words(["abc", ""], {"abc"}) == 0


def test_letter_entropy_averages_over_records():
    x = torch.tensor([[0, 0, 0, 0], [0, 1, 2, 3]])
    assert letter_entropy(x, 4) == pytest.approx(1.0)


def test_reference_lm_learns_a_cycle_and_is_causal():
    """In the cycle 0 1 2 the first symbol costs log2 3 bits, the others none."""
    start = torch.arange(201)[:, None]
    x = (start + torch.arange(6)) % 3
    model = ReferenceLM.fit(x, 3, "cpu", 150, batch=32, width=32, layers=1)
    bits = model(x[:9])
    assert (bits[:, 0] - torch.tensor(3.0).log2()).abs().max() < 0.3
    assert bits[:, 1:].max() < 0.3
    other = x[:9].clone()
    other[:, 4:] = 0
    assert torch.allclose(model(other)[:, :4], bits[:, :4])
    assert model.bits(x) == pytest.approx(model(x).mean().item(), rel=1e-4)
