"""A queue given by its jump rates, and the sparse generator of such a chain."""

import warnings

import torch
from torch import Tensor

from discrete_meanflow.ctmc import JumpRates
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Times, Tokens


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
