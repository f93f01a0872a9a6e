"""The paper's chains, a time-varying one, and a queue without a matrix."""

import warnings

import torch
from torch import Tensor

from discrete_meanflow.ctmc.generator import (
    ConstantGenerator,
    RateGenerator,
    TimeVaryingGenerator,
)
from discrete_meanflow.ctmc.simulate import JumpRates
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Matrix, Times, Tokens


def _from_rates(off_diagonal: Tensor) -> Matrix:
    """Put minus the column sums on the diagonal."""
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
    return ConstantGenerator(_from_rates(rate * _shift(2, 1, wrap=True)))


def ring(n: int = 3, forward: float = 2.0, backward: float = 1.0) -> ConstantGenerator:
    """x -> x + 1 at rate ``forward``, x -> x - 1 at rate ``backward``, modulo n."""
    if n < 3:
        raise InputError(f"ring: needs at least 3 states, got {n}")
    return ConstantGenerator(
        _from_rates(forward * _shift(n, 1, wrap=True) + backward * _shift(n, -1, wrap=True))
    )


def birth_death(n: int = 10, birth: float = 1.5, death: float = 1.0) -> ConstantGenerator:
    """x -> x + 1 at rate ``birth``, x -> x - 1 at rate ``death``; reflecting at 0 and n - 1."""
    return ConstantGenerator(
        _from_rates(birth * _shift(n, 1, wrap=False) + death * _shift(n, -1, wrap=False))
    )


def tilting_birth_death(n: int = 5) -> TimeVaryingGenerator:
    """Births fade from 3 to 1 while deaths grow from 0.5 to 2.5: u_s and u_t do not commute."""

    def u(t: Times) -> Matrix:
        up, down = (_shift(n, by, wrap=False, device=t.device) for by in (1, -1))
        s = t[..., None, None]
        return _from_rates((3 - 2 * s) * up + (0.5 + 2 * s.square()) * down)

    return TimeVaryingGenerator(u, f"tilting_birth_death({n})")


class BulkQueue(JumpRates):
    """A queue with group arrivals: infinitely many states, no matrix.

    A group of size k arrives at rate ``groups[k]``; one customer leaves at rate ``service`` if
    there is one. With a finite waiting ``room``, groups that do not fit are rejected, and the
    states are 0 .. room.
    """

    def __init__(
        self,
        groups: dict[int, float] | None = None,
        service: float = 2.0,
        room: int | None = None,
    ) -> None:
        self.groups = groups or {1: 1.0, 8: 1.0, 24: 0.5}
        self.service, self.room = service, room
        if service < 0 or any(size < 1 or rate < 0 for size, rate in self.groups.items()):
            raise InputError("BulkQueue: rates must be >= 0 and group sizes at least 1")
        self.max_exit_rate = service + sum(self.groups.values())

    def jumps(self, x: Tokens, t: Times) -> tuple[Tensor, Tensor]:
        served = (x - 1).clamp(min=0)
        targets, rates = [served], [self.service * (x > 0).to(t.dtype)]
        for size, rate in self.groups.items():
            fits = (
                torch.ones_like(x, dtype=torch.bool) if self.room is None else x + size <= self.room
            )
            targets.append(x + size * fits)
            rates.append(rate * fits.to(t.dtype))
        return torch.stack(targets, -1), torch.stack(rates, -1)

    def __repr__(self) -> str:
        return f"BulkQueue({self.groups}, service={self.service}, room={self.room})"


def truncate(rates: JumpRates, n: int) -> Tensor:
    """The generator of constant ``rates`` on the states 0 .. n-1: sparse CSR, ``(n, n)``.

    Jumps to other states are dropped.
    """
    x = torch.arange(n)
    targets, rate = rates.jumps(x, torch.zeros(n, dtype=torch.float64))
    rate = rate.double() * ((targets >= 0) & (targets < n) & (targets != x[:, None]))
    start = x[:, None].expand_as(targets)
    jump = rate > 0
    rows = torch.cat([targets[jump], x])
    columns = torch.cat([start[jump], x])
    values = torch.cat([rate[jump], -rate.sum(-1)])
    entries = torch.stack([rows, columns])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*[Ss]parse.*")  # torch calls its CSR format beta
        return torch.sparse_coo_tensor(entries, values, (n, n)).coalesce().to_sparse_csr()


def paper_chains() -> dict[str, RateGenerator]:
    """The three chains of the paper's section 5.1."""
    return {"two-state": two_state(), "ring": ring(), "birth-death": birth_death()}
