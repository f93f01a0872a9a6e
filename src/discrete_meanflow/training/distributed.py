"""Data parallelism: ranks that train one kernel, each on a part of every batch."""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError


@dataclass(frozen=True)
class Distributed:
    """Rank number ``rank`` of ``world_size``.

    Every rank draws the whole batch from the same generator and keeps its part, so the data and
    their order do not depend on the number of ranks.
    """

    world_size: int = 1
    rank: int = 0
    device: str = "cpu"

    @classmethod
    def from_environment(cls, device: str) -> "Distributed":
        """As set up by a launcher (``torchrun``, ``accelerate launch``); one rank without."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(device=device)
        # Its functions bind the default group when imported: import it before the group exists.
        import torch.distributed.nn.functional  # noqa: F401

        try:
            from accelerate import PartialState
        except ImportError:
            raise InputError(
                "several ranks need accelerate: pip install 'discrete-meanflow[distributed]'"
            ) from None
        state = PartialState(cpu=device == "cpu")
        # Threads of a group that outlives the interpreter may abort it at exit.
        atexit.register(state.destroy_process_group)
        return cls(state.num_processes, state.process_index, str(state.device))

    @property
    def first(self) -> bool:
        return self.rank == 0

    def check(self, batch: int) -> None:
        if batch % self.world_size:
            raise InputError(
                f"a batch of {batch} cannot be divided among {self.world_size} ranks: use a "
                f"multiple of {self.world_size}"
            )

    def part(self, tensor: Tensor, axis: int) -> Tensor:
        """This rank's part of a batch: every ``world_size``-th entry."""
        if self.world_size == 1:
            return tensor
        return tensor.movedim(axis, 0)[self.rank :: self.world_size].movedim(0, axis).contiguous()

    def mean(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The mean of each tensor over ranks, in one message; identical bits on all ranks."""
        flat = torch.cat([t.flatten() for t in tensors])
        torch.distributed.all_reduce(flat)
        parts = (flat / self.world_size).split([t.numel() for t in tensors])
        return [part.view_as(t) for part, t in zip(parts, tensors, strict=True)]

    def broadcast(self, tensor: Tensor, rank: int) -> None:
        """Copy the contiguous tensor of one rank to all others, in place."""
        if self.world_size > 1:
            plain = tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor
            torch.distributed.broadcast(plain, rank)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank; all ranks must call it."""
        if self.world_size == 1:
            return flag
        votes = torch.tensor([float(flag)], device=self.device)
        torch.distributed.all_reduce(votes)
        return bool(votes.item() > 0)

    @contextmanager
    def first_before_others(self) -> Iterator[bool]:
        """Run the body on the first rank while the others wait; True on the first rank.

        If the body fails on the first rank, all ranks stop and only the first reports it.
        """
        failed = True
        try:
            yield self.first
            failed = False
        finally:
            failed = self.any(failed)
        if failed:
            raise SystemExit(2)
