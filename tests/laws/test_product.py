"""Chains on products: the factorised kernel is exact for independent positions, and only then."""

import itertools
import math

import torch

from discrete_meanflow.ctmc.generator import ConstantGenerator
from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.metric import total_variation
from extra_chains import random_dense
from problems import seeded

SIZES = (2, 3, 4)
PARTS = [random_dense(n, seeded(n), 3.0) for n in SIZES]


def independent(*generators):
    """``u(y, x) = sum_d u_d(y_d, x_d) prod_{d' != d} delta(y_d', x_d')`` on V_1 x ... x V_D.

    States are numbered with the last position fastest. Its kernel is the Kronecker product of
    the positions' kernels.
    """
    u = generators[0].matrix
    for generator in generators[1:]:
        v = generator.matrix
        u = torch.kron(u, torch.eye(len(v), dtype=u.dtype)) + torch.kron(
            torch.eye(len(u), dtype=u.dtype), v
        )
    return ConstantGenerator(u)


def factorised(K, sizes):
    """The product of a joint kernel's per-position marginals, for each start state.

    ``prod_d P(y_d | x)``: a factorised kernel with every marginal right. K is ``(n, n)`` with
    ``n = prod(sizes)``, indexed [y, x].
    """
    states = math.prod(sizes)
    grid = K.reshape(*sizes, states)
    product = torch.ones(1, states, dtype=K.dtype)
    for d in range(len(sizes)):
        others = [axis for axis in range(len(sizes)) if axis != d]
        marginal = grid.sum(others) if others else grid  # (V_d, n)
        product = (product[:, None] * marginal[None]).reshape(-1, states)
    return product


def coupled(strength):
    """Two bits that like to agree: each flips at rate 1, ``strength`` faster if they differ."""
    u = torch.zeros(4, 4, dtype=torch.float64)
    for x in range(4):
        differ = (x & 1) != (x >> 1)
        for flipped in (x ^ 1, x ^ 2):
            u[flipped, x] = 1 + strength * differ
    return ConstantGenerator(u - torch.diag(u.sum(0)))


def gap(u, sizes, t):
    """Largest TV over start states between the joint kernel and the factorised one."""
    K = transition(u, 0.0, t)
    return total_variation(K.T, factorised(K, sizes).T).max().item()


def test_independent_positions_have_a_product_kernel():
    K = transition(independent(*PARTS), 0.2, 0.9)
    product = torch.ones(1, 1, dtype=torch.float64)
    for part in PARTS:
        product = torch.kron(product, transition(part, 0.2, 0.9))
    assert (K - product).abs().max() < 1e-12


def test_factorising_independent_positions_is_exact():
    for t in (0.01, 0.3, 1.0):
        assert gap(independent(*PARTS), SIZES, t) < 1e-12


def test_the_error_of_factorising_grows_with_the_step():
    """The paper: the approximation error grows as the interval t - r widens."""
    lengths = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
    errors = [gap(coupled(4.0), (2, 2), t) for t in lengths]
    assert all(a < b for a, b in itertools.pairwise(errors))
    # Both positions move in one short step with probability of order t^2: so does the error.
    assert 3 < errors[1] / errors[0] < 4.2
    assert errors[-1] > 0.05


def test_factorising_is_exact_without_coupling():
    assert gap(coupled(0.0), (2, 2), 0.5) < 1e-12
