"""Laws of every schedule alpha(r, t)."""

import itertools

import pytest
import torch
from hypothesis import given, strategies as st

from discrete_meanflow.ctmc import chains
from discrete_meanflow.errors import InputError
from discrete_meanflow.schedule import (
    Exponential,
    Linear,
    cosine,
    distorted_grid,
    identity,
    polydec,
    polyinc,
    revcos,
)
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


@pytest.mark.parametrize("distortion", [identity, polydec, polyinc, cosine, revcos])
def test_distortions_are_increasing_maps_of_the_unit_interval(distortion):
    grid = distorted_grid(50, distortion)
    assert (grid[0], grid[-1]) == (0.0, 1.0)
    assert all(r < t for r, t in itertools.pairwise(grid))
    with pytest.raises(InputError, match="at least one step"):
        distorted_grid(0, distortion)


def test_distortions_shorten_the_steps_they_say():
    steps = {f: torch.tensor(distorted_grid(50, f)).diff() for f in (polydec, polyinc, cosine)}
    assert steps[polydec][-1] < steps[polydec][0] / 10
    assert steps[polyinc][0] < steps[polyinc][-1] / 10
    assert steps[cosine][[0, -1]].max() < steps[cosine][25] / 10
    assert (distorted_grid(4, identity)) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert torch.tensor(distorted_grid(50, revcos)).diff()[25] < 0.01
