"""The mean discrete rate and the identity it satisfies (paper, sections 4.1 and 4.2).

ubar(y, x, r, t) = (K_{r,t}(y, x) - delta_{y,x}) / (t - r)
ubar = u_t K_{r,t} - (t - r) d/dt ubar                         (the identity)
ubar = 1/(t - r) integral_r^t u_s K_{r,s} ds                   (its integral form)
"""

import threading
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator, as_times
from discrete_meanflow.ctmc.magnus import magnus_product, ordered_product
from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Matrix, Times

# PyTorch has one level of forward-mode derivatives for all threads.
FORWARD_MODE = threading.Lock()


def mean_rate(generator: RateGenerator, r: Tensor | float, t: Tensor | float) -> Matrix:
    """``ubar = (K_{r,t} - I) / (t - r)``, shape ``(*batch, n, n)``, for r < t."""
    r, t = _strict_times(r, t)
    return _mean_rate(transition(generator, r, t), r, t)


def identity_residual(
    generator: RateGenerator,
    r: Tensor | float,
    t: Tensor | float,
    kernel: Callable[[Times, Times], Matrix] | None = None,
) -> Matrix:
    """``ubar - (u_t K_{r,t} - (t - r) d/dt ubar)``: zero up to rounding for the exact kernel.

    The derivative is the forward-mode derivative of the kernel, so it does not presuppose the
    forward equation from which the identity follows.

    Args:
        generator: the rates.
        r: times in [0, 1].
        t: later times.
        kernel: ``(r, t) -> K_{r,t}``, such as ``matrix`` of a learned kernel; the exact one by
            default.
    """
    r, t = _strict_times(r, t)
    kernel = kernel or _differentiable_kernel(generator, r, t)

    def rate_and_kernel(t: Times) -> tuple[Matrix, Matrix]:
        K = kernel(r, t)
        return _mean_rate(K, r, t), K

    with FORWARD_MODE:
        ubar, ubar_dt, K = torch.func.jvp(  # type: ignore[misc]
            rate_and_kernel, (t,), (torch.ones_like(t),), has_aux=True
        )
    return ubar - (generator.at(t) @ K - (t - r)[..., None, None] * ubar_dt)


def integral_form(
    generator: RateGenerator, r: Tensor | float, t: Tensor | float, nodes: int = 32
) -> Matrix:
    """``1/(t - r) integral_r^t u_s K_{r,s} ds`` by Gauss-Legendre quadrature."""
    r, t = _strict_times(r, t)
    points, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(nodes))
    s = r[..., None] + (t - r)[..., None] * (points + 1) / 2  # (*batch, nodes)
    flow = generator.at(s) @ transition(generator, r[..., None].expand_as(s), s)
    return torch.einsum("k,...kyx->...yx", weights / 2, flow)


def _strict_times(r: Tensor | float, t: Tensor | float) -> tuple[Times, Times]:
    r, t = as_times(r, t)
    if not bool((r < t).all()):
        raise InputError("the mean rate needs r < t: at r = t it is the generator")
    return r, t


def _mean_rate(kernel: Matrix, r: Times, t: Times) -> Matrix:
    eye = torch.eye(kernel.shape[-1], dtype=kernel.dtype, device=kernel.device)
    return (kernel - eye) / (t - r)[..., None, None]


def _differentiable_kernel(
    generator: RateGenerator, r: Times, t: Times
) -> Callable[[Times, Times], Matrix]:
    """``(r, t) -> K_{r,t}`` without checks or loops that depend on values."""
    if isinstance(generator, ConstantGenerator):
        u = generator.matrix
        return lambda r, t: torch.linalg.matrix_exp((t - r)[..., None, None] * u)
    cells = ordered_product(generator, r, t).cells
    return lambda r, t: magnus_product(generator, r, t, cells)
