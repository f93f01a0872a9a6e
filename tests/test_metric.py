"""Total variation, its sampling floor, and errors of kernels."""

import math

import pytest
import torch
from hypothesis import given, strategies as st

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric import (
    frequencies,
    marginal_tv,
    pair_tv,
    sampling_floor,
    total_variation,
)
from discrete_meanflow.simplex import multinomial
from dmf_reproduction.metrics import (
    composition_defect,
    kernel_error,
    marginal_cross_entropy,
    product_pair_tv,
    state_fraction,
    time_grid,
    token_accuracy,
)
from problems import LAWS, seeded

laws = st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4).map(
    lambda w: torch.tensor(w, dtype=torch.float64) / sum(w)
)


@given(laws, laws, laws)
def test_total_variation_is_a_distance(p, q, s):
    assert total_variation(p, p).item() == 0
    assert 0 <= total_variation(p, q).item() <= 1
    assert abs(total_variation(p, q).item() - total_variation(q, p).item()) < 1e-15
    assert total_variation(p, s) <= total_variation(p, q) + total_variation(q, s) + 1e-12


def test_frequencies_are_normalised_counts():
    y = torch.tensor([[0, 0, 1, 2], [2, 2, 2, 2]])
    assert frequencies(y, 3).tolist() == [[0.5, 0.25, 0.25], [0, 0, 1]]


def test_sampling_floor_equals_its_formula_for_large_counts():
    p = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    formula = sum(math.sqrt(2 * q * (1 - q) / (math.pi * 5000)) for q in p.tolist()) / 2
    floor = sampling_floor(p, 5000, seeded(), repeats=2000).item()
    assert abs(floor / formula - 1) < 0.05


def test_time_grid_is_that_of_the_paper():
    r, t = time_grid()
    assert len(r) == 210
    assert (r <= t).all()
    assert (r == t).sum() == 20


def test_kernel_error_detects_one_wrong_entry():
    K = torch.eye(3, dtype=torch.float64).expand(2, 3, 3).clone()
    learned = K.clone()
    learned[1, 0, 2] += 0.3
    learned[1, 2, 2] -= 0.3
    error = kernel_error(learned, K)
    assert abs(error.max - 0.3) < 1e-12
    assert abs(error.mean - 0.6 / 18) < 1e-12
    assert abs(error.column_tv - 0.3 / 6) < 1e-12
    assert error.grid.tolist() == pytest.approx([0, 0.3])


def test_multinomial_counts_have_the_right_moments():
    p = torch.tensor([0.5, 0.0, 0.2, 0.3], dtype=torch.float64)
    counts = multinomial(p.expand(4000, 4), 50, seeded())
    assert (counts.sum(-1) == 50).all()
    assert (counts[:, 1] == 0).all()
    assert (counts.mean(0) / 50 - p).abs().max() < 0.005
    covariance = 50 * (torch.diag(p) - p[:, None] * p)
    assert (torch.cov(counts.T) - covariance).abs().max() < 0.8


class TestSequences:
    law = LAWS["bigram"]
    states = law.vocabulary + 1

    def test_samples_of_the_law_reach_the_floor(self):
        y = self.law.sample((5000,), seeded())
        floor = sampling_floor(self.law.marginals(), 5000, seeded()).mean().item()
        assert marginal_tv(y, self.law, self.states) < 2 * floor
        pairs = self.law.pair_marginals().flatten(1)
        floor = sampling_floor(pairs, 5000, seeded()).mean().item()
        assert pair_tv(y, self.law, self.states) < 2 * floor

    def test_pair_tv_detects_dependence_that_marginals_miss(self):
        """Shuffling each position over the sequences keeps the marginals, not the joint law."""
        y = self.law.sample((20_000,), seeded())
        g = seeded(1)
        shuffled = torch.stack(
            [y[torch.randperm(len(y), generator=g), d] for d in range(self.law.length)], 1
        )
        assert marginal_tv(shuffled, self.law, self.states) == pytest.approx(
            marginal_tv(y, self.law, self.states)
        )
        gap = product_pair_tv(self.law)
        assert gap > 0.05
        assert abs(pair_tv(shuffled, self.law, self.states) - gap) < 0.02

    def test_masked_samples_score_worst(self):
        y = torch.full((100, self.law.length), self.law.vocabulary)
        assert marginal_tv(y, self.law, self.states) == pytest.approx(1)
        assert state_fraction(y, self.law.vocabulary) == 1
        assert marginal_cross_entropy(y, self.law, self.states) > 20

    def test_accuracy_and_cross_entropy_of_true_samples(self):
        g = seeded()
        y, fresh = self.law.sample((50_000,), g), self.law.sample((50_000,), g)
        p = self.law.marginals()
        assert abs(token_accuracy(y, fresh) - p.square().sum(-1).mean().item()) < 0.01
        entropy = -(p * p.log()).sum(-1).mean().item()
        assert abs(marginal_cross_entropy(y, self.law, self.states) - entropy) < 0.01

    def test_pair_tv_is_zero_for_one_position(self):
        law = LAWS["one position"]
        assert pair_tv(law.sample((10,), seeded()), law, 4) == 0
        assert product_pair_tv(law) == 0


def test_sampling_floor_rejects_zero_draws():
    with pytest.raises(InputError, match="draws >= 1"):
        sampling_floor(torch.tensor([1.0]), 0, seeded())


def test_composition_defect_vanishes_only_for_exact_kernels():
    u = chains.ring(4)
    assert composition_defect(lambda r, t: transition(u, r, t)) < 1e-14
    K = transition(u, 0.0, 1.0)
    eye = torch.eye(4, dtype=torch.float64)
    assert composition_defect(lambda r, t: (1 - t + r) * eye + (t - r) * K) > 0.01
