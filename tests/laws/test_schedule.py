"""Laws of every schedule alpha(r, t)."""

import pytest
import torch
from hypothesis import given, strategies as st

from discrete_meanflow.ctmc import chains
from discrete_meanflow.errors import InputError
from discrete_meanflow.schedule import Exponential, Linear
from problems import SCHEDULES

every_schedule = pytest.mark.parametrize("alpha", SCHEDULES.values(), ids=SCHEDULES)
unit = st.floats(0.0, 1.0)


def tensor(value):
    return torch.tensor([value], dtype=torch.float64)


@every_schedule
@given(a=unit, b=unit)
def test_it_is_a_share(alpha, a, b):
    r, t = tensor(min(a, b)), tensor(max(a, b))
    assert 0 <= alpha(r, t).item() <= 1
    assert alpha(r, r).item() == 0
    assert alpha(t, t).item() == 0


@every_schedule
@given(a=unit, b=unit, c=unit)
def test_it_grows_with_t(alpha, a, b, c):
    r, s, t = map(tensor, sorted((a, b, c)))
    assert alpha(r, s).item() <= alpha(r, t).item() + 1e-15


@every_schedule
def test_it_leaves_the_boundary_linearly(alpha):
    r = torch.linspace(0, 0.95, 20, dtype=torch.float64)
    slope = torch.func.jvp(lambda t: alpha(r, t), (r,), (torch.ones_like(r),))[1]
    assert (slope > 0).all()
    h = 1e-6
    assert torch.allclose(slope, alpha(r, r + h) / h, rtol=1e-3)


@every_schedule
def test_one_is_a_clamp_with_a_finite_derivative(alpha):
    one = torch.ones(1, dtype=torch.float64)
    value, slope = torch.func.jvp(lambda t: alpha(one, t), (one,), (one,))
    assert value.item() == 0
    assert slope.isfinite().all()


def test_a_clamped_position_of_the_linear_schedule_has_no_tangent():
    one = torch.ones(1)
    for epsilon in (0.0, 1e-6):
        assert torch.func.jvp(lambda t, e=epsilon: Linear(e)(one, t), (one,), (one,))[1] == 0


def test_c_is_twice_the_fastest_rate():
    assert Exponential.of(chains.ring()).c == 6.0
    assert Exponential.of(chains.birth_death()).c == 5.0


def test_bad_parameters_are_rejected():
    with pytest.raises(InputError, match="c must be positive"):
        Exponential(0.0)
    with pytest.raises(InputError, match="epsilon"):
        Linear(-1.0)
