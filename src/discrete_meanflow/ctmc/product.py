"""Chains on a product of alphabets: when positions are independent, and when they are not."""

import math

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator
from discrete_meanflow.types import Matrix


def independent(*generators: ConstantGenerator) -> ConstantGenerator:
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


def factorised(K: Matrix, sizes: tuple[int, ...]) -> Matrix:
    """The product of a joint kernel's per-position marginals, for each start state.

    ``prod_d P(y_d | x)``: a factorised kernel with every marginal right. K is ``(n, n)`` with
    ``n = prod(sizes)``, indexed [y, x].
    """
    states = math.prod(sizes)
    grid = K.reshape(*sizes, states)
    product: Tensor = torch.ones(1, states, dtype=K.dtype)
    for d in range(len(sizes)):
        others = [axis for axis in range(len(sizes)) if axis != d]
        marginal = grid.sum(others) if others else grid  # (V_d, n)
        product = (product[:, None] * marginal[None]).reshape(-1, states)
    return product
