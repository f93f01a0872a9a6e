from collections.abc import Sequence
from dataclasses import replace

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import EndpointKernel, Kernel
from discrete_meanflow.sampler.base import Carry, Sampler
from discrete_meanflow.sampler.logits import LogitProcessor, forbid


class UnmaskingSampler(Sampler):
    """Unmask group by group: in its step a group goes from r to 1, the others stay at r.

    r is the fraction of unmasked positions, its mean in training. Positions of a group are
    drawn independently, so dependent positions should not share one. Groups that bisect the
    sequence (``bisecting``) are exact for a Markov chain along the positions: given the symbols
    between them, the positions of a group are independent. Positions of the start that are not
    masked stay.

    Args:
        kernel: a kernel with a mask symbol, ``BoundaryKernel(..., mask)``.
        groups: a partition of the positions.
        logit_processors: see :class:`Sampler`.
    """

    def __init__(
        self,
        kernel: Kernel,
        groups: Sequence[Sequence[int]],
        logit_processors: Sequence[LogitProcessor] = (),
    ) -> None:
        self.mask = check_masks(kernel)
        self.length = sum(map(len, groups))
        positions = sorted(i for group in groups for i in group)
        if not groups or not all(groups) or positions != [*range(self.length)]:
            raise InputError("unmasking: each position must lie in one group, none may be empty")
        self.groups = groups
        # Forbid the mask: one drawn in its group's step would never be replaced.
        super().__init__(kernel, len(groups), (*logit_processors, forbid(self.mask)))

    @classmethod
    def bisecting(
        cls,
        kernel: Kernel,
        length: int,
        k: int,
        logit_processors: Sequence[LogitProcessor] = (),
    ) -> "UnmaskingSampler":
        """At most k steps: distant positions first, then those halfway between, and so on."""
        return cls(kernel, bisection(length, k), logit_processors)

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        x, kernel = carry.x, self.kernel
        if x.shape[-1:] != (self.length,):
            raise InputError(
                f"unmasking: sequences must have length {self.length}, got shape {tuple(x.shape)}"
            )
        unmasked = x.ne(self.mask).to(kernel.dtype)
        now = unmasked.mean(-1, keepdim=True).expand(x.shape)
        logits = self.processed(kernel(x, now, torch.ones_like(now)))
        then = now.index_fill(-1, torch.tensor(self.groups[i], device=x.device), 1.0)
        return replace(carry, x=kernel.transport(x, logits, now, then, g))


def check_masks(kernel: Kernel) -> int:
    """The mask symbol of the kernel; raise if it has none."""
    if not isinstance(kernel, EndpointKernel) or kernel.mask is None:
        raise InputError("unmasking: needs a kernel with a mask symbol, BoundaryKernel(..., mask)")
    return kernel.mask


def bisection(length: int, k: int) -> list[list[int]]:
    """Positions 0 .. length - 1 in at most k groups: every 2^j-th, then halfway between, ...

    With ``k >= ceil(log2 length) + 1`` the first group is position 0 alone.
    """
    if k < 1 or length < 1:
        raise InputError(f"bisection: needs positions and steps, got {length} and {k}")
    strides = [2**j for j in range(min(k - 1, (length - 1).bit_length()), -1, -1)]
    return [
        [i for i in range(0, length, stride) if stride == strides[0] or i % (2 * stride)]
        for stride in strides
    ]
