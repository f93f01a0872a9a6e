"""The generator u_t(y, x): the rate of jumps from x to y at time t.

``u_t(y, x) >= 0`` for ``y != x`` and every column sums to zero. A matrix is indexed
``u[y, x]``, so ``d/dt K_{r,t} = u_t K_{r,t}`` is an ordinary matrix product.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Matrix, Times

TOLERANCE = 1e-9  # of a column sum, relative to the largest rate
PROBES = 65  # times at which a time-varying generator is checked


def check_generator(u: Tensor, where: str = "generator") -> Tensor:
    """Return u, or raise an error that names the column that breaks the definition.

    Args:
        u: shape ``(*batch, n, n)``, float64.
    """
    if u.dim() < 2 or u.shape[-1] != u.shape[-2] or u.shape[-1] < 1:
        raise InputError(f"{where}: needs a square matrix, got shape {tuple(u.shape)}")
    bad = (~u.isfinite()).nonzero()
    if len(bad):
        *_, y, x = bad[0].tolist()
        raise InputError(
            f"{where}: column {x}: entry u[{y}, {x}] = {u[tuple(bad[0])]:g} is not finite"
        )
    off = u - torch.diag_embed(torch.diagonal(u, dim1=-2, dim2=-1))
    bad = (off < 0).nonzero()
    if len(bad):
        *_, y, x = bad[0].tolist()
        raise InputError(
            f"{where}: column {x}: rate u[{y}, {x}] = {off[tuple(bad[0])]:g} is negative"
        )
    sums = u.sum(-2)
    bad = (sums.abs() > TOLERANCE * max(1.0, u.abs().max().item())).nonzero()
    if len(bad):
        x = bad[0].tolist()[-1]
        raise InputError(f"{where}: column {x} sums to {sums[tuple(bad[0])]:g}, not to 0")
    return u


class RateGenerator(ABC):
    """A map ``t -> u_t`` from times ``(*batch,)`` to matrices ``(*batch, n, n)``."""

    states: int
    max_rate: float  # max over t, y, x of |u_t(y, x)|

    @abstractmethod
    def at(self, t: Times) -> Matrix:
        """``u_t``: shape ``(*batch, n, n)``, float64."""


class ConstantGenerator(RateGenerator):
    """``u_t = u`` at all times."""

    def __init__(self, u: Any) -> None:
        """u: anything torch reads as a square matrix, ``u[y, x]``."""
        try:
            matrix = torch.as_tensor(u, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"generator: not a matrix of numbers ({error})") from None
        self.matrix = check_generator(matrix.clone())
        if self.matrix.dim() != 2:
            raise InputError(f"generator: needs one matrix, got shape {tuple(matrix.shape)}")
        self.states = matrix.shape[-1]
        self.max_rate = self.matrix.abs().max().item()

    def at(self, t: Times) -> Matrix:
        u = self.matrix.to(t.device)
        return u.expand(*t.shape, self.states, self.states)

    def __repr__(self) -> str:
        return f"ConstantGenerator({self.matrix.tolist()})"


class TimeVaryingGenerator(RateGenerator):
    """``u_t`` as a differentiable function of t, checked at ``PROBES`` times on [0, 1]."""

    def __init__(self, u: Callable[[Times], Matrix], name: str) -> None:
        """
        Args:
            u: maps float64 times ``(*batch,)`` to matrices ``(*batch, n, n)``.
            name: used in messages and records.
        """
        self.u = u
        self.name = name
        probes = torch.linspace(0, 1, PROBES, dtype=torch.float64)
        values = u(probes)
        if values.dim() != 3 or values.shape[0] != PROBES:
            raise InputError(
                f"generator {name}: times of shape ({PROBES},) must give matrices of shape "
                f"({PROBES}, n, n), got {tuple(values.shape)}"
            )
        check_generator(values, f"generator {name}")
        self.states = values.shape[-1]
        self.max_rate = values.abs().max().item()

    def at(self, t: Times) -> Matrix:
        return self.u(t.double())

    def __repr__(self) -> str:
        return f"TimeVaryingGenerator({self.name})"


def as_times(r: Tensor | float, t: Tensor | float) -> tuple[Times, Times]:
    """r and t as float64 tensors of one shape; raises unless 0 <= r <= t <= 1."""
    times = (torch.as_tensor(s, dtype=torch.float64) for s in (r, t))
    first, last = torch.broadcast_tensors(*times)
    if not bool(((first >= 0) & (last <= 1)).all()):
        low, high = first.min().item(), last.max().item()
        raise InputError(f"times must lie in [0, 1], got r = {low:g} and t = {high:g}")
    if not bool((first <= last).all()):
        worst = (first - last).argmax()
        a, b = (s.flatten()[worst].item() for s in (first, last))
        raise InputError(f"r must not exceed t, got r = {a:g} > t = {b:g}")
    return first, last
