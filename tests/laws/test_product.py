"""Chains on products: the factorised kernel is exact for independent positions, and only then."""

import itertools

import torch

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.generator import ConstantGenerator
from discrete_meanflow.ctmc.product import factorised, independent
from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.metric import total_variation
from problems import seeded

SIZES = (2, 3, 4)
PARTS = [chains.random_dense(n, seeded(n), 3.0) for n in SIZES]


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


def test_the_joint_kernel_is_the_product_of_the_positions_kernels():
    K = transition(independent(*PARTS), 0.2, 0.9)
    product = torch.ones(1, 1, dtype=torch.float64)
    for part in PARTS:
        product = torch.kron(product, transition(part, 0.2, 0.9))
    assert (K - product).abs().max() < 1e-12


def test_factorising_loses_nothing_when_positions_are_independent():
    for t in (0.01, 0.3, 1.0):
        assert gap(independent(*PARTS), SIZES, t) < 1e-12


def test_factorising_a_coupled_chain_loses_more_the_longer_the_step():
    """The paper: the approximation error grows as the interval t - r widens."""
    lengths = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
    errors = [gap(coupled(4.0), (2, 2), t) for t in lengths]
    assert all(a < b for a, b in itertools.pairwise(errors))
    # Both positions move in one short step with probability of order t^2: so does the error.
    assert 3 < errors[1] / errors[0] < 4.2
    assert errors[-1] > 0.05


def test_it_loses_nothing_without_the_coupling():
    assert gap(coupled(0.0), (2, 2), 0.5) < 1e-12
