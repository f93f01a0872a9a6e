"""The transition kernel K_{r,t}(y, x) = P(X_t = y | X_r = x) of a generator, in float64."""

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator, as_times
from discrete_meanflow.ctmc.magnus import ordered_product
from discrete_meanflow.types import Matrix


def transition(generator: RateGenerator, r: Tensor | float, t: Tensor | float) -> Matrix:
    """``K_{r,t}``, shape ``(*batch, n, n)``, by the most accurate method for the generator."""
    if isinstance(generator, ConstantGenerator):
        return matrix_exponential(generator, r, t)
    return ordered_product(generator, r, t).kernel


def matrix_exponential(
    generator: ConstantGenerator, r: Tensor | float, t: Tensor | float
) -> Matrix:
    """``K_{r,t} = exp((t - r) u)`` for a constant generator."""
    r, t = as_times(r, t)
    lag = t - r
    return torch.linalg.matrix_exp(lag[..., None, None] * generator.at(lag))
