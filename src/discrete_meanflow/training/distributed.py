"""Several processes that train one kernel, each on its share of every batch."""

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
    """``count`` of them, of which this is number ``rank``.

    Every process draws the whole batch from the same generator and keeps its share, so that
    the data and its order do not depend on how many there are.
    """

    count: int = 1
    rank: int = 0
    device: str = "cpu"

    @classmethod
    def here(cls, device: str) -> "Distributed":
        """As a launcher (``accelerate launch``, ``torchrun``) has set them up; else one alone."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(device=device)
        # Its functions have the group as a default: imported later, they would keep it for ever.
        import torch.distributed.nn.functional  # noqa: F401
        from accelerate import PartialState

        state = PartialState(cpu=device == "cpu")
        # The threads of a group that outlives the interpreter may abort it at its very end.
        atexit.register(state.destroy_process_group)
        return cls(state.num_processes, state.process_index, str(state.device))

    @property
    def first(self) -> bool:
        return self.rank == 0

    def check(self, batch: int) -> None:
        if self.count > 1 and batch % (2 * self.count):
            raise InputError(
                f"a batch of {batch} cannot be shared by {self.count} processes: take a multiple "
                f"of {2 * self.count}"
            )

    def share(self, tensor: Tensor, axis: int) -> Tensor:
        """Every ``count``-th entry of a batch: the halves of a batch stay halves."""
        if self.count == 1:
            return tensor
        return tensor.movedim(axis, 0)[self.rank :: self.count].movedim(0, axis).contiguous()

    def mean(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The mean over processes of each tensor, in one message; the same bits in all of them."""
        flat = torch.cat([t.flatten() for t in tensors])
        torch.distributed.all_reduce(flat)
        parts = (flat / self.count).split([t.numel() for t in tensors])
        return [part.view_as(t) for part, t in zip(parts, tensors, strict=True)]

    def hand_out(self, tensor: Tensor, rank: int) -> None:
        """Write what the process ``rank`` has in a contiguous tensor into that of all others."""
        if self.count > 1:
            plain = tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor
            torch.distributed.broadcast(plain, rank)

    def any(self, flag: bool) -> bool:
        """Whether it is so in any of them: all must do the same."""
        if self.count == 1:
            return flag
        votes = torch.tensor([float(flag)], device=self.device)
        torch.distributed.all_reduce(votes)
        return bool(votes.item() > 0)

    @contextmanager
    def first_before_others(self) -> Iterator[bool]:
        """What is inside is done by the first process, while the others wait: True in the first.

        Where the first fails, all stop; it alone says why.
        """
        failed = True
        try:
            yield self.first
            failed = False
        finally:
            failed = self.any(failed)
        if failed:
            raise SystemExit(2)
