"""Kernels of time-varying generators by a fourth-order Magnus integrator."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import RateGenerator, as_times
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Matrix, Times

MAX_CELLS = 1 << 14


class OrderedProduct(NamedTuple):
    kernel: Matrix
    error: float  # estimated max error of an entry
    cells: int


def magnus_product(generator: RateGenerator, r: Times, t: Times, cells: int) -> Matrix:
    """``K_{r,t}`` as an ordered product of ``cells`` exponentials; error O(cells^-4).

    On a cell of length h, with the generator ``u_1, u_2`` at its two Gauss nodes,
    ``K = exp( h/2 (u_1 + u_2) - h^2 sqrt(3)/12 [u_1, u_2] )``. Commutators of generators
    have zero column sums, so columns sum to one exactly.
    """
    h = (t - r) / cells
    n = generator.states
    eye = torch.eye(n, dtype=torch.float64, device=r.device)
    K = eye.expand(*r.shape, n, n)
    for cell in range(cells):
        middle = r + (cell + 0.5) * h
        u_1 = generator.at(middle - math.sqrt(3) / 6 * h)
        u_2 = generator.at(middle + math.sqrt(3) / 6 * h)
        H = h[..., None, None]
        commutator = u_1 @ u_2 - u_2 @ u_1
        K = (
            torch.linalg.matrix_exp(
                H / 2 * (u_1 + u_2) - math.sqrt(3) / 12 * H.square() * commutator
            )
            @ K
        )
    return K


def ordered_product(
    generator: RateGenerator, r: Tensor | float, t: Tensor | float, tolerance: float = 1e-12
) -> OrderedProduct:
    """``K_{r,t}`` of a time-varying generator; cells double until the error is small.

    The error of the finer product is estimated from the coarser one: for order four,
    ``|K_2N - K_N| / 15``. It is part of the result.
    """
    r, t = as_times(r, t)
    cells = 4
    coarse = magnus_product(generator, r, t, cells)
    while True:
        cells *= 2
        fine = magnus_product(generator, r, t, cells)
        error = (fine - coarse).abs().max().item() / 15
        # Below a few ulps, doubling only adds rounding.
        if error <= max(tolerance, 1e-15):
            return OrderedProduct(fine, error, cells)
        if cells >= MAX_CELLS:
            raise InputError(
                f"ordered product: error {error:.1e} after {cells} cells, above {tolerance:.1e};"
                " the generator is not smooth in t or its rates are too large"
            )
        coarse = fine
