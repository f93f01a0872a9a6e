"""Laws of generators and of the kernels they generate."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, strategies as st

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.generator import ConstantGenerator, TimeVaryingGenerator
from discrete_meanflow.ctmc.magnus import magnus_product, ordered_product
from discrete_meanflow.ctmc.mean_rate import identity_residual, integral_form, mean_rate
from discrete_meanflow.ctmc.propagator import Propagator
from discrete_meanflow.ctmc.transition import matrix_exponential, transition
from discrete_meanflow.ctmc.uniformization import uniformized_action
from discrete_meanflow.errors import InputError
from dmf_reproduction.bulk_queue import BulkQueue, truncate
from extra_chains import Epidemic, pulsed_ring, random_dense, uniformization
from problems import GENERATORS, seeded

R = torch.tensor([0.0, 0.0, 0.13, 0.5, 0.7], dtype=torch.float64)
T = torch.tensor([1.0, 0.02, 0.9, 0.97, 1.0], dtype=torch.float64)
every_generator = pytest.mark.parametrize("u", GENERATORS.values(), ids=GENERATORS)
constant = {k: u for k, u in GENERATORS.items() if isinstance(u, ConstantGenerator)}
every_constant = pytest.mark.parametrize("u", constant.values(), ids=constant)


@every_generator
def test_columns_are_laws(u):
    K = transition(u, R, T)
    assert (K.sum(-2) - 1).abs().max() < 1e-13
    assert K.min() >= -1e-15


@every_generator
def test_no_time_no_motion(u):
    K = transition(u, R, R)
    assert (K - torch.eye(u.states, dtype=torch.float64)).abs().max() == 0


@every_generator
def test_chapman_kolmogorov(u):
    s = (R + 2 * T) / 3
    assert (transition(u, s, T) @ transition(u, R, s) - transition(u, R, T)).abs().max() < 1e-11


@every_generator
def test_identity(u):
    assert identity_residual(u, R, T).abs().max() < 1e-10


def test_identity_holds_in_every_thread():
    def residual(rate):
        return identity_residual(chains.ring(3, rate), R, T).abs().max().item()

    with ThreadPoolExecutor(8) as threads:
        residuals = list(threads.map(residual, torch.linspace(1, 5, 300).tolist()))
    assert max(residuals) < 1e-10


@every_constant
def test_identity_fails_for_another_kernel(u):
    """By the difference of the rates times the kernel."""
    v = ConstantGenerator(2 * u.matrix)
    residual = identity_residual(u, R, T, lambda r, t: transition(v, r, t))
    assert (residual - (v.matrix - u.matrix) @ transition(v, R, T)).abs().max() < 1e-10


@every_generator
def test_integral_form(u):
    assert (integral_form(u, R, T) - mean_rate(u, R, T)).abs().max() < 1e-8


@every_generator
def test_mean_rate_is_a_generator(u):
    rate = mean_rate(u, R, T)
    assert rate.sum(-2).abs().max() < 1e-11
    off = rate - torch.diag_embed(torch.diagonal(rate, dim1=-2, dim2=-1))
    assert off.min() >= -1e-12
    assert torch.diagonal(rate, dim1=-2, dim2=-1).max() <= 0


@every_generator
def test_mean_rate_tends_to_the_generator(u):
    near = mean_rate(u, 0.4, 0.4 + 1e-7)
    assert (near - u.at(torch.tensor(0.4))).abs().max() < 1e-5


@every_constant
def test_matrix_exponential_is_scipys(u):
    exact = scipy.linalg.expm((T - R).numpy()[:, None, None] * u.matrix.numpy())
    assert np.abs(matrix_exponential(u, R, T).numpy() - exact).max() < 1e-13


@every_constant
def test_uniformization_is_the_exponential(u):
    for r, t in zip(R.tolist(), T.tolist(), strict=True):
        gap = uniformization(u, r, t) - matrix_exponential(u, r, t)
        assert gap.abs().max() < 1e-12


@given(rate=st.floats(0.0, 400.0), seed=st.integers(0, 10_000))
def test_uniformization_holds_for_fast_chains(rate, seed):
    u = random_dense(4, seeded(seed), scale=rate)
    K = uniformization(u, 0.0, 1.0)
    assert (K.sum(0) - 1).abs().max() < 1e-12
    assert np.abs(K.numpy() - scipy.linalg.expm(u.matrix.numpy())).max() < 1e-11


def test_action_on_a_sparse_chain_is_the_dense_kernel():
    u = truncate(BulkQueue(), 400)
    p = torch.zeros(400, dtype=torch.float64)
    p[5] = 1
    acted = uniformized_action(lambda v: u @ v, 4.5, p, 1.0)
    dense = matrix_exponential(ConstantGenerator(u.to_dense()), 0.0, 1.0)[:, 5]
    assert (acted - dense).abs().max() < 1e-13


def test_ordered_product_converges_at_order_four():
    u = chains.tilting_birth_death()
    truth = ordered_product(u, 0.0, 1.0, 1e-14).kernel
    r, t = torch.tensor(0.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    cells = [4, 8, 16, 32]
    errors = [(magnus_product(u, r, t, n) - truth).abs().max().item() for n in cells]
    slope = np.polyfit(np.log(cells), np.log(errors), 1)[0]
    assert -4.4 < slope < -3.6


def test_stated_error_bounds_the_true_error():
    u = pulsed_ring()
    # Rotations commute, so K = exp(integral of u): the two rates integrate in closed form.
    forward, backward = (
        2 * 0.7 + (1 - np.cos(1.4 * np.pi)) / (2 * np.pi),
        0.7 + np.sin(1.4 * np.pi) / (4 * np.pi),
    )
    exact = torch.linalg.matrix_exp(chains.ring(3, forward, backward).matrix)
    product = ordered_product(u, 0.0, 0.7, 1e-8)
    assert (product.kernel - exact).abs().max() <= max(2 * product.error, 1e-14)
    assert product.error <= 1e-8


@every_generator
def test_propagator_is_the_kernel(u):
    x = torch.tensor([0, 1, 1, 0, 1])
    law = Propagator(u).law(x, R, T)
    exact = transition(u, R, T)[torch.arange(5), :, x]
    assert (law - exact).abs().max() < 1e-9


def test_a_chain_too_fast_for_the_table_is_rejected():
    fast = TimeVaryingGenerator(lambda t: 10 * chains.tilting_birth_death().at(t), "fast")
    with pytest.raises(InputError, match="too fast for a table of kernels"):
        Propagator(fast)


def test_truncation_keeps_columns_zero_sum():
    u = truncate(Epidemic(8), 81).to_dense()
    assert u.sum(0).abs().max() < 1e-12
    ConstantGenerator(u)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.0, 1.0]], "square"),
        ([[-1.0, 1.0], [float("nan"), -1.0]], r"column 0: entry u\[1, 0\] = nan"),
        ([[1.0, 1.0], [-1.0, -1.0]], r"column 0: rate u\[1, 0\] = -1 is negative"),
        ([[-1.0, 1.0], [1.0, -0.5]], "column 1 sums to 0.5"),
        ("two states", "not a matrix"),
        (torch.zeros(2, 3, 3), "one matrix"),
    ],
)
def test_a_bad_generator_is_named(matrix, message):
    with pytest.raises(InputError, match=message):
        ConstantGenerator(matrix)


def test_a_time_varying_generator_is_checked_over_time():
    def late_and_wrong(t):
        base = chains.two_state().matrix.expand(*t.shape, 2, 2).clone()
        base[..., 1, 0] += (t > 0.9) * 1.0
        return base

    with pytest.raises(InputError, match="generator drifting: column 0 sums to 1"):
        TimeVaryingGenerator(late_and_wrong, "drifting")


@pytest.mark.parametrize(
    ("r", "t", "message"),
    [(0.5, 0.4, "r = 0.5 > t = 0.4"), (-0.1, 0.4, r"\[0, 1\]"), (0.1, 1.4, r"\[0, 1\]")],
)
@every_generator
def test_bad_times_are_rejected(u, r, t, message):
    with pytest.raises(InputError, match=message):
        transition(u, r, t)
    with pytest.raises(InputError, match=message):
        mean_rate(u, r, t)
