"""Laws of every law of time pairs."""

import pytest
import torch
from scipy.stats import kstest

from discrete_meanflow.errors import InputError
from discrete_meanflow.times import LogitNormal, Mixed, UniformGap
from problems import ALPHA, TIME_SAMPLERS, seeded

every_sampler = pytest.mark.parametrize("times", TIME_SAMPLERS.values(), ids=TIME_SAMPLERS)


@every_sampler
def test_pairs_are_ordered_and_apart(times):
    r, t = times.sample((50_000,), seeded())
    assert r.min() >= 0
    assert t.max() <= 1
    assert (t - r).min() >= times.epsilon - 1e-12
    assert r.dtype == torch.float64


@every_sampler
def test_the_generator_decides(times):
    a, b = (times.sample((3, 4), seeded(5)) for _ in range(2))
    assert torch.equal(a.r, b.r)
    assert torch.equal(a.t, b.t)
    assert a.r.shape == (3, 4)


def test_the_papers_law():
    r, t = UniformGap(0.01).sample((20_000,), seeded())
    assert kstest(r / 0.99, "uniform").pvalue > ALPHA
    assert kstest((t - r - 0.01) / (0.99 - r), "uniform").pvalue > ALPHA


def test_the_share_of_pairs_apart():
    r, t = Mixed(0.25, UniformGap(0.01)).sample((100_000,), seeded())
    near = (t - r - 0.01).abs() < 1e-9
    assert abs(near.double().mean().item() - 0.75) < 0.01


def test_a_negative_mean_draws_earlier_times():
    early, late = (LogitNormal(mean).sample((20_000,), seeded()).t.mean() for mean in (-0.4, 0.0))
    assert early < late - 0.05


@pytest.mark.parametrize("build", [lambda: UniformGap(1.0), lambda: LogitNormal(0.0, -0.1)])
def test_a_bad_gap_is_refused(build):
    with pytest.raises(InputError, match="gap epsilon"):
        build()


def test_a_bad_share_is_refused():
    with pytest.raises(InputError, match="share"):
        Mixed(1.5, UniformGap())
