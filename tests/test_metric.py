"""Total variation and its floor."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discrete_meanflow.errors import InputError
from discrete_meanflow.metric import kernel_error, sampling_floor, time_grid, total_variation
from discrete_meanflow.metric.divergence import frequencies
from problems import seeded

laws = st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4).map(
    lambda w: torch.tensor(w, dtype=torch.float64) / sum(w)
)


@given(laws, laws, laws)
def test_total_variation_is_a_distance(p, q, s):
    assert total_variation(p, p).item() == 0
    assert 0 <= total_variation(p, q).item() <= 1
    assert abs(total_variation(p, q).item() - total_variation(q, p).item()) < 1e-15
    assert total_variation(p, s) <= total_variation(p, q) + total_variation(q, s) + 1e-12


def test_frequencies_count():
    y = torch.tensor([[0, 0, 1, 2], [2, 2, 2, 2]])
    assert frequencies(y, 3).tolist() == [[0.5, 0.25, 0.25], [0, 0, 1]]


def test_the_floor_is_the_formula_where_counts_are_large():
    p = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    formula = sum(math.sqrt(2 * q * (1 - q) / (math.pi * 5000)) for q in p.tolist()) / 2
    floor = sampling_floor(p, 5000, seeded(), repeats=2000).item()
    assert abs(floor / formula - 1) < 0.05


def test_the_grid_is_the_papers():
    r, t = time_grid()
    assert len(r) == 210
    assert (r <= t).all()
    assert (r == t).sum() == 20


def test_kernel_error_sees_one_wrong_entry():
    K = torch.eye(3, dtype=torch.float64).expand(2, 3, 3).clone()
    learned = K.clone()
    learned[1, 0, 2] += 0.3
    learned[1, 2, 2] -= 0.3
    error = kernel_error(learned, K)
    assert abs(error.max - 0.3) < 1e-12
    assert abs(error.mean - 0.6 / 18) < 1e-12
    assert abs(error.column_tv - 0.3 / 6) < 1e-12
    assert error.grid.tolist() == pytest.approx([0, 0.3])


def test_zero_draws_are_refused():
    with pytest.raises(InputError, match="draws >= 1"):
        sampling_floor(torch.tensor([1.0]), 0, seeded())
