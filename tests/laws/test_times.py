"""Laws of every law of time pairs."""

import pytest
import torch
from scipy.stats import kstest

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.objective import finite_difference, forward_mode
from discrete_meanflow.times import (
    ClockUniform,
    GridTimes,
    LogitNormal,
    MixedTimes,
    OnDiagonal,
    UniformGap,
)
from problems import ALPHA, TIME_SAMPLERS, seeded
from statistics_of_draws import passes_chi_square

every_sampler = pytest.mark.parametrize("times", TIME_SAMPLERS.values(), ids=TIME_SAMPLERS)


@every_sampler
def test_pairs_are_ordered_and_apart(times):
    r, t, _ = times.sample((50_000,), seeded())
    assert r.min() >= 0
    assert t.max() <= 1
    assert (t - r).min() >= getattr(times, "epsilon", 0.0) - 1e-12
    assert r.dtype == torch.float64


@every_sampler
def test_the_seed_decides(times):
    a, b = (times.sample((3, 4), seeded(5)) for _ in range(2))
    assert torch.equal(a.r, b.r)
    assert torch.equal(a.t, b.t)
    assert a.r.shape == (3, 4)


def test_uniform_gap_is_the_papers_law():
    r, t, _ = UniformGap(0.01).sample((20_000,), seeded())
    assert kstest(r / 0.99, "uniform").pvalue > ALPHA
    assert kstest((t - r - 0.01) / (0.99 - r), "uniform").pvalue > ALPHA


def test_the_fraction_of_pairs_off_the_diagonal():
    r, t, _ = MixedTimes(0.25, UniformGap(0.01)).sample((100_000,), seeded())
    near = (t - r - 0.01).abs() < 1e-9
    assert abs(near.double().mean().item() - 0.75) < 0.01


def test_grid_times_are_the_steps_of_a_chain():
    r, t, _ = GridTimes(8).sample((20_000,), seeded())
    assert bool(((t - r) == 1 / 8).all())
    assert passes_chi_square((r * 8).long(), torch.full((8,), 1 / 8))


def test_three_times_are_uniform_on_the_clock():
    times = ClockUniform(27, full_interval_fraction=0.0)
    r, t, s = times.sample((20_000,), seeded())
    assert bool(((r <= s) & (s <= t)).all())
    low, high, middle = (times.clock(time) for time in (r, t, s))
    for level in (low**2 - 2 * low + 1, high**2, (middle - low) / (high - low)):
        assert kstest(level, "uniform").pvalue > ALPHA
    r, t, _ = ClockUniform(27, full_interval_fraction=0.25).sample((100_000,), seeded())
    assert abs(((r == 0) & (t == 1)).double().mean().item() - 0.25) < 0.01


@pytest.mark.parametrize("vocabulary", [2, 5, 27, 50_000])
def test_tau_is_the_fraction_of_tokens_decoded(vocabulary):
    clock = DecodingClock(vocabulary)
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert torch.equal(clock(ends), ends)
    assert torch.equal(clock.inverse(ends), ends)
    tau = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    t = clock.inverse(tau)
    assert (clock(t) - tau).abs().max() < 1e-12
    draws = 20_000 if vocabulary < 100 else 500
    z = torch.randn(draws, vocabulary, generator=seeded())
    for level, time in zip(tau.tolist(), t.tolist(), strict=True):
        x = (1 - time) * z
        x[:, 0] += time
        p = 1 / vocabulary + (1 - 1 / vocabulary) * level
        decoded = (x.argmax(-1) == 0).double().mean().item()
        assert abs(decoded - p) < 5 * (p * (1 - p) / draws) ** 0.5


def test_the_clock_is_differentiable_both_ways():
    clock = DecodingClock(27)
    t = torch.rand(100, generator=seeded(), dtype=torch.float64) * 0.8
    for f, at in ((clock, t), (clock.inverse, clock(t).clamp(1e-3, 0.99))):
        slope = forward_mode(f, at)
        off = (slope - finite_difference(f, at)).abs() / slope
        assert off.median() < 1e-9
        assert off.max() < 0.01  # at the corners of the table
        assert slope.min() > 0


def test_a_negative_mean_draws_earlier_times():
    early, late = (LogitNormal(mean).sample((20_000,), seeded()).t.mean() for mean in (-0.4, 0.0))
    assert early < late - 0.05


@pytest.mark.parametrize("build", [lambda: UniformGap(1.0), lambda: LogitNormal(0.0, -0.1)])
def test_a_bad_gap_is_rejected(build):
    with pytest.raises(InputError, match="gap epsilon"):
        build()


def test_a_bad_fraction_is_rejected():
    with pytest.raises(InputError, match="fraction"):
        MixedTimes(1.5, UniformGap())


def test_a_fraction_of_the_pairs_lies_on_the_diagonal():
    r, t, s = OnDiagonal(ClockUniform(5), 0.75).sample((20_000,), seeded())
    equal = r == t
    assert abs(equal.double().mean() - 0.75) < 0.02
    assert torch.equal(equal, r == s)


def test_the_diagonal_has_equal_times():
    r, t, _ = OnDiagonal(UniformGap(0.01)).sample((1000,), seeded())
    assert torch.equal(r, t)
    assert torch.equal(r, UniformGap(0.01).sample((1000,), seeded()).r)
