"""The chains of the paper, and some that test what the paper's do not.

With a matrix: :func:`two_state`, :func:`ring`, :func:`birth_death`, :func:`random_dense`,
and, varying in time, :func:`pulsed_ring` and :func:`tilting_birth_death`. Without one:
:class:`BulkQueue` and :class:`Epidemic`.
"""

import math
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
from discrete_meanflow.types import Matrix, State, Times


def _from_rates(off_diagonal: Tensor) -> Matrix:
    """Put minus the column sums on the diagonal."""
    return off_diagonal - torch.diag_embed(off_diagonal.sum(-2))


def _shift(n: int, by: int, wrap: bool, device: torch.device | None = None) -> Matrix:
    """The matrix of the map x -> x + by; moves over the edge are dropped unless wrapped.

    Made where it is used: a captured step must not copy constants between devices.
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


def random_dense(n: int, g: torch.Generator, scale: float = 3.0) -> ConstantGenerator:
    """Every jump possible, rates exponential with mean ``scale / n``."""
    rates = torch.empty(n, n, dtype=torch.float64).exponential_(generator=g) * scale / n
    return ConstantGenerator(_from_rates(rates - torch.diag(rates.diagonal())))


def pulsed_ring(n: int = 3) -> TimeVaryingGenerator:
    """A ring whose two rates pulse. Rotations commute, so K has a closed form."""

    def u(t: Times) -> Matrix:
        ahead, back = (_shift(n, by, wrap=True, device=t.device) for by in (1, -1))
        phase = 2 * math.pi * t[..., None, None]
        return _from_rates((2 + phase.sin()) * ahead + (1 + phase.cos() / 2) * back)

    return TimeVaryingGenerator(u, f"pulsed_ring({n})")


def tilting_birth_death(n: int = 5) -> TimeVaryingGenerator:
    """Births fade from 3 to 1 while deaths grow from 0.5 to 2.5: u_s and u_t do not commute."""

    def u(t: Times) -> Matrix:
        up, down = (_shift(n, by, wrap=False, device=t.device) for by in (1, -1))
        s = t[..., None, None]
        return _from_rates((3 - 2 * s) * up + (0.5 + 2 * s.square()) * down)

    return TimeVaryingGenerator(u, f"tilting_birth_death({n})")


class BulkQueue(JumpRates):
    """Customers come in groups and are served one by one: infinitely many states, no matrix.

    A group of size k arrives at rate ``groups[k]``; one customer leaves at rate ``service``
    while there is one. With a waiting ``room`` of finite size, groups that do not fit are
    turned away, and the states are 0 .. room.
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
            raise InputError("BulkQueue: rates must be >= 0 and groups hold at least 1")
        self.max_exit_rate = service + sum(self.groups.values())

    def jumps(self, x: State, t: Times) -> tuple[Tensor, Tensor]:
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


class Epidemic(JumpRates):
    """The SIR epidemic with S susceptible and I infected among N.

    (S, I) -> (S - 1, I + 1) at rate ``contact S I / N``; I -> I - 1 at rate ``recovery I``.
    A state is the index ``S (N + 1) + I``: a population of 100 has 10,201 of them.
    """

    def __init__(self, population: int = 100, contact: float = 3.0, recovery: float = 1.0) -> None:
        if population < 1 or contact < 0 or recovery < 0:
            raise InputError("Epidemic: needs a population of at least 1 and rates >= 0")
        self.population, self.contact, self.recovery = population, contact, recovery

    def encode(self, susceptible: Tensor, infected: Tensor) -> State:
        return susceptible * (self.population + 1) + infected

    def decode(self, x: State) -> tuple[Tensor, Tensor]:
        return x // (self.population + 1), x % (self.population + 1)

    def jumps(self, x: State, t: Times) -> tuple[Tensor, Tensor]:
        susceptible, infected = self.decode(x)
        infection = self.contact * susceptible * infected / self.population
        recovery = self.recovery * infected
        targets = torch.stack([x - (self.population + 1) + 1, x - 1], -1)
        return targets, torch.stack([infection, recovery], -1).to(t.dtype)

    def __repr__(self) -> str:
        return f"Epidemic({self.population}, contact={self.contact}, recovery={self.recovery})"


def truncate(rates: JumpRates, n: int) -> Tensor:
    """The generator of ``rates`` on the states 0 .. n-1, jumps out of them dropped: sparse (n, n).

    Built from constant rates; its action on a law is what uniformization needs.
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
