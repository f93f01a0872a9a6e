"""Kernels for large batches of times, interpolated in a table."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator
from discrete_meanflow.ctmc.magnus import MAX_CELLS, magnus_product
from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import expand_like
from discrete_meanflow.types import Matrix, Times


class Propagator:
    """``K_{r,t}(., x)`` for large batches of (x, r, t), from a table of ``Phi(t) = K_{0,t}``.

    Between nodes Phi is the cubic that matches ``Phi`` and ``Phi' = u_t Phi`` at both ends. Its
    error is ``h^4/384`` times the fourth derivative; ``cells`` keeps it near ``tolerance``, and an
    inaccurate table raises an error. A constant generator needs only ``Phi(t - r)``; a
    time-varying one has ``K_{r,t} = Phi(t) Phi(r)^{-1}``.
    """

    def __init__(self, generator: RateGenerator, tolerance: float = 1e-11) -> None:
        self.constant = isinstance(generator, ConstantGenerator)
        # |d^4 Phi / dt^4| is about (exit rate)^4; a time-varying u adds its own derivatives.
        rate = max(1.0, generator.max_rate * (1 if self.constant else 4))
        self.cells = min(MAX_CELLS, math.ceil(rate / (384 * tolerance) ** 0.25))
        nodes = torch.linspace(0, 1, self.cells + 1, dtype=torch.float64)
        if self.constant:
            self.value = transition(generator, 0.0, nodes)
        else:
            links = magnus_product(generator, nodes[:-1], nodes[1:], 4)
            self.value = _running_product(links)
        self.slope = generator.at(nodes) @ self.value
        self._verify(generator)

    def _verify(self, generator: RateGenerator) -> None:
        """Raise an error if rates are too fast for the table or Phi(r) is nearly singular."""
        r, t = torch.tensor([[0.0, 0.0, 0.41, 0.88], [1.0, 0.13, 0.97, 1.0]], dtype=torch.float64)
        x = torch.arange(generator.states).expand(len(r), -1)
        table = self.law(x, r[:, None].expand_as(x), t[:, None].expand_as(x)).transpose(-1, -2)
        error = (table - transition(generator, r, t)).abs().max().item()
        if not error < 1e-7:
            raise InputError(
                f"the rates (up to {generator.max_rate:g}) are too fast for a table of kernels "
                f"(error {error:.1e}); use SimulatedProcess(MatrixRates(generator), states)"
            )

    def to(self, device: torch.device) -> "Propagator":
        self.value, self.slope = self.value.to(device), self.slope.to(device)
        return self

    def phi(self, t: Times) -> Matrix:
        """``Phi(t) = K_{0,t}``: shape ``(*batch, n, n)``."""
        return self._interpolate(t, lambda table, i: table[i])

    def law(self, x: Tensor, r: Times, t: Times) -> Tensor:
        """The law of X_t given X_r = x: shape ``(*batch, n)``, float64."""
        if self.constant:
            # Interpolate one column, not the matrix.
            law = self._interpolate(t.double() - r.double(), lambda table, i: table[i, :, x])
        else:
            column = x[..., None, None].expand(*x.shape, self.value.shape[-1], 1)
            start = torch.linalg.inv(self.phi(r)).gather(-1, column)
            law = (self.phi(t) @ start)[..., 0]
        return law.clamp(min=0)

    def _interpolate(self, t: Times, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Cubic Hermite interpolation of the entries that ``read`` selects."""
        position = t.double() * self.cells
        i = position.floor().long().clamp(0, self.cells - 1)
        a, b = read(self.value, i), read(self.value, i + 1)
        da, db = read(self.slope, i) / self.cells, read(self.slope, i + 1) / self.cells
        s = expand_like(position - i, a)
        return a + s * (da + s * (3 * (b - a) - 2 * da - db + s * (2 * (a - b) + da + db)))


def _running_product(links: Matrix) -> Matrix:
    """``I, L_1, L_2 L_1, ...``: shape ``(cells + 1, n, n)``."""
    products = [torch.eye(links.shape[-1], dtype=links.dtype)]
    for link in links:
        products.append(link @ products[-1])
    return torch.stack(products)
