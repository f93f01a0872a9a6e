"""The transition kernel K_{r,t}(y, x) = P(X_t = y | X_r = x) of a generator.

Three ways, all in float64 and batched over times: the matrix exponential (constant
generators), uniformization (also as an action on a vector, without any dense matrix), and
the ordered product (time-varying generators). The first and the last are differentiable.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator
from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import expand_like
from discrete_meanflow.types import Matrix, Times

MAX_CELLS = 1 << 14


def as_times(r: Tensor | float, t: Tensor | float) -> tuple[Times, Times]:
    """r and t as float64 tensors of one shape, or an error: 0 <= r <= t <= 1."""
    given = (torch.as_tensor(s, dtype=torch.float64) for s in (r, t))
    first, last = torch.broadcast_tensors(*given)
    if not bool(((first >= 0) & (last <= 1)).all()):
        low, high = first.min().item(), last.max().item()
        raise InputError(f"times must lie in [0, 1], got r = {low:g} and t = {high:g}")
    if not bool((first <= last).all()):
        worst = (first - last).argmax()
        a, b = (s.flatten()[worst].item() for s in (first, last))
        raise InputError(f"r must not exceed t, got r = {a:g} > t = {b:g}")
    return first, last


def transition(generator: RateGenerator, r: Tensor | float, t: Tensor | float) -> Matrix:
    """``K_{r,t}``, shape ``(*batch, n, n)``: the most exact way for this generator."""
    if isinstance(generator, ConstantGenerator):
        return matrix_exponential(generator, r, t)
    return ordered_product(generator, r, t).kernel


def matrix_exponential(
    generator: ConstantGenerator, r: Tensor | float, t: Tensor | float
) -> Matrix:
    """``K_{r,t} = exp((t - r) u)`` for a constant generator."""
    r, t = as_times(r, t)
    lag = t - r
    return torch.linalg.matrix_exp(expand_like(lag, lag[..., None, None]) * generator.at(lag))


# -- uniformization ---------------------------------------------------------------------


def poisson_weights(mean: Tensor, tail: float = 1e-17) -> Tensor:
    """``P(N = k)`` for N ~ Poisson(mean), k = 0 .. k_max, shape ``(*batch, k_max + 1)``.

    k_max leaves a tail below ``tail``; the weights are scaled to sum to one, which removes the
    relative error that logarithms of large means carry.
    """
    largest = float(mean.max())
    reach = math.sqrt(-2 * math.log(tail))
    k_max = math.ceil(largest + reach * math.sqrt(largest) + reach**2 / 3) + 1
    k = torch.arange(k_max + 1, dtype=torch.float64, device=mean.device)
    log_weight = torch.xlogy(k, mean[..., None]) - mean[..., None] - torch.lgamma(k + 1)
    weight = log_weight.exp()
    return weight / weight.sum(-1, keepdim=True)


def uniformized_action(
    apply: Callable[[Tensor], Tensor], rate: float, v: Tensor, lag: float
) -> Tensor:
    """``exp(lag u) v`` from the action ``v -> u v`` alone: no matrix is ever formed.

    With ``P = I + u / rate`` (a stochastic matrix when ``rate >= max|u|``),
    ``exp(lag u) v = sum_k Poisson(k; rate lag) P^k v``: positive terms only, so no
    cancellation.

    Args:
        apply: the generator's action on vectors shaped like ``v``.
        rate: a bound on the exit rates ``-u(x, x)``.
        v: a law, shape ``(n,)`` or ``(n, m)`` for m laws in columns.
    """
    if lag < 0 or not math.isfinite(lag):
        raise InputError(f"uniformization: t - r must be at least 0, got {lag:g}")
    if rate <= 0:
        return v.clone()  # a chain without jumps
    weights = poisson_weights(torch.tensor(rate * lag, dtype=torch.float64))
    total = weights[0] * v
    for weight in weights[1:]:
        v = v + apply(v) / rate
        total = total + weight * v
    return total


def uniformization(generator: ConstantGenerator, r: float, t: float) -> Matrix:
    """``K_{r,t}`` of a constant generator by uniformization, shape ``(n, n)``."""
    as_times(r, t)
    u = generator.matrix
    identity = torch.eye(generator.states, dtype=torch.float64)
    return uniformized_action(lambda v: u @ v, generator.max_rate, identity, t - r)


# -- time-varying generators ------------------------------------------------------------


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
    """``K_{r,t}`` of a time-varying generator, cells doubled until the error is small.

    The error of the finer product is estimated from the coarser one: for order four,
    ``|K_2N - K_N| / 15``. It is returned, so that the caller can state it.
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
                f"ordered product: error {error:.1e} after {cells} cells, wanted {tolerance:.1e};"
                " the generator is not smooth in t or its rates are too large"
            )
        coarse = fine


class Propagator:
    """``K_{r,t}(., x)`` for large batches of (x, r, t), from a table of ``Phi(t) = K_{0,t}``.

    Between the nodes of the table Phi is the cubic that matches ``Phi`` and ``Phi' = u_t Phi``
    at both ends. Its error is ``h^4/384`` times the fourth derivative; ``cells`` is chosen so
    that this stays near ``tolerance``, and a table that misses is refused. A constant generator
    needs ``Phi(t - r)`` alone; a time-varying one has ``K_{r,t} = Phi(t) Phi(r)^{-1}``.
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
        """Refuse a table that is not accurate: rates too fast for it, or Phi(r) near singular."""
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
            # Interpolate the one column that is asked for, not the matrix.
            law = self._interpolate(t.double() - r.double(), lambda table, i: table[i, :, x])
        else:
            column = x[..., None, None].expand(*x.shape, self.value.shape[-1], 1)
            start = torch.linalg.inv(self.phi(r)).gather(-1, column)
            law = (self.phi(t) @ start)[..., 0]
        return law.clamp(min=0)

    def _interpolate(self, t: Times, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Cubic Hermite interpolation of whatever ``read`` takes from the table."""
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
