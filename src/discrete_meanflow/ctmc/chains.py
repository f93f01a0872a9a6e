"""The paper's chains, and a time-varying one."""

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import (
    ConstantGenerator,
    RateGenerator,
    TimeVaryingGenerator,
)
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Matrix, Times


def from_rates(off_diagonal: Tensor) -> Matrix:
    """The generator with these rates of jumps: minus the column sums on the diagonal."""
    return off_diagonal - torch.diag_embed(off_diagonal.sum(-2))


def _shift(n: int, by: int, wrap: bool, device: torch.device | None = None) -> Matrix:
    """The matrix of the map x -> x + by; moves over the edge are dropped unless wrapped.

    Built on its device: a captured step must not copy constants between devices.
    """
    x = torch.arange(n, device=device)
    y = (x + by) % n if wrap else x + by
    return (x[:, None] == y).double()


def two_state(rate: float = 2.0) -> ConstantGenerator:
    """The symmetric chain on two states."""
    return ConstantGenerator(from_rates(rate * _shift(2, 1, wrap=True)))


def ring(n: int = 3, forward: float = 2.0, backward: float = 1.0) -> ConstantGenerator:
    """x -> x + 1 at rate ``forward``, x -> x - 1 at rate ``backward``, modulo n."""
    if n < 3:
        raise InputError(f"ring: needs at least 3 states, got {n}")
    return ConstantGenerator(
        from_rates(forward * _shift(n, 1, wrap=True) + backward * _shift(n, -1, wrap=True))
    )


def birth_death(n: int = 10, birth: float = 1.5, death: float = 1.0) -> ConstantGenerator:
    """x -> x + 1 at rate ``birth``, x -> x - 1 at rate ``death``; reflecting at 0 and n - 1."""
    return ConstantGenerator(
        from_rates(birth * _shift(n, 1, wrap=False) + death * _shift(n, -1, wrap=False))
    )


def tilting_birth_death(n: int = 5) -> TimeVaryingGenerator:
    """Births fade from 3 to 1 while deaths grow from 0.5 to 2.5: u_s and u_t do not commute."""

    def u(t: Times) -> Matrix:
        up, down = (_shift(n, by, wrap=False, device=t.device) for by in (1, -1))
        s = t[..., None, None]
        return from_rates((3 - 2 * s) * up + (0.5 + 2 * s.square()) * down)

    return TimeVaryingGenerator(u, f"tilting_birth_death({n})")


def paper_chains() -> dict[str, RateGenerator]:
    """The three chains of the paper's section 5.1."""
    return {"two-state": two_state(), "ring": ring(), "birth-death": birth_death()}
