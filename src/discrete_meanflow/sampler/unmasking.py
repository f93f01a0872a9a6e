from collections.abc import Sequence

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import EndpointKernel, Kernel
from discrete_meanflow.sampler.kernel import check_start
from discrete_meanflow.sampler.logits import LogitProcessor, forbid
from discrete_meanflow.types import State


class UnmaskingSampler:
    """Masks are lifted group by group: in its step a group goes from r to 1, the others stay at r.

    r is the share of positions that are known by then, as it is on average in training. Within a
    group positions are drawn independently, so what belongs together should not share one. Groups
    that bisect the sequence (``bisecting``) are exact for a Markov chain along the positions:
    given the symbols between them, those of a group are independent.
    """

    def __init__(
        self,
        kernel: Kernel,
        groups: Sequence[Sequence[int]],
        logit_processors: Sequence[LogitProcessor] = (),
    ) -> None:
        if not isinstance(kernel, EndpointKernel) or kernel.mask is None:
            raise InputError("ordered sampler: needs a kernel of masks, BoundaryKernel(..., mask)")
        self.length = sum(map(len, groups))
        positions = sorted(i for group in groups for i in group)
        if not groups or not all(groups) or positions != [*range(self.length)]:
            raise InputError("ordered sampler: each position must lie in one group, none be empty")
        self.kernel, self.mask, self.groups = kernel, kernel.mask, groups
        # A mask that is drawn would stay: its group has had its turn.
        self.logit_processors = (*logit_processors, forbid(kernel.mask))

    @classmethod
    def bisecting(
        cls, kernel: Kernel, length: int, k: int, logit_processors: Sequence[LogitProcessor] = ()
    ) -> "UnmaskingSampler":
        """At most k steps: positions far apart first, then those halfway between, and so on."""
        return cls(kernel, bisection(length, k), logit_processors)

    @torch.no_grad()
    def sample(self, x: State, g: torch.Generator) -> State:
        """Symbols in the place of the masks of x: shape ``(*batch, D)``. What is known stays."""
        check_start(self.kernel, x)
        if x.shape[-1:] != (self.length,):
            raise InputError(
                f"ordered sampler: sequences must have length {self.length}, got {tuple(x.shape)}"
            )
        for group in self.groups:
            known = x.ne(self.mask).to(self.kernel.home.dtype)
            now = known.mean(-1, keepdim=True).expand(x.shape)
            logits = self.kernel(x, now, torch.ones_like(now))
            for change in self.logit_processors:
                logits = change(logits)
            then = now.index_fill(-1, torch.tensor(group, device=x.device), 1.0)
            x = self.kernel.transport(x, logits, now, then, g)
        return x


def bisection(length: int, k: int) -> list[list[int]]:
    """Positions 0 .. length - 1 in at most k groups: every 2^j-th, then halfway between these, ...

    With k of ``ceil(log2 length) + 1`` or more the first group is position 0 alone.
    """
    if k < 1 or length < 1:
        raise InputError(f"bisection: needs positions and steps, got {length} and {k}")
    strides = [2**j for j in range(min(k - 1, (length - 1).bit_length()), -1, -1)]
    return [
        [i for i in range(0, length, stride) if stride == strides[0] or i % (2 * stride)]
        for stride in strides
    ]
