from collections.abc import Sequence
from dataclasses import replace

import torch

from discrete_meanflow.kernel import EndpointKernel, Kernel
from discrete_meanflow.sampler.base import Carry, Sampler
from discrete_meanflow.sampler.logits import LogitProcessor, forbid
from discrete_meanflow.sampler.unmasking import check_masks


class ConfidenceSampler(Sampler):
    """Unmask the positions first whose likeliest symbols have the largest probabilities.

    Step i of k, from 0, unmasks ``1/(k - i)`` of the masked positions. Their symbols are drawn from
    q, independently: the order of MaskGIT (Chang et al. 2022, arXiv:2202.04200), which there
    depends on the drawn symbols. Here it depends on the state alone, so one position per step and
    an exact q give exact samples. In fewer steps, positions of one step are independent, and random
    order can be better: confidence says nothing about dependence.

    Args:
        kernel: a kernel with a mask symbol, ``BoundaryKernel(..., mask)``.
        k: number of steps.
        logit_processors: see :class:`Sampler`.
    """

    def __init__(
        self, kernel: Kernel, k: int, logit_processors: Sequence[LogitProcessor] = ()
    ) -> None:
        self.mask = check_masks(kernel)
        super().__init__(kernel, k, (*logit_processors, forbid(self.mask)))

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        x, kernel = carry.x, self.kernel
        assert isinstance(kernel, EndpointKernel)
        masked = x == self.mask
        now = (~masked).to(kernel.dtype).mean(-1, keepdim=True).expand(x.shape)
        logits = self.processed(kernel(x, now, torch.ones_like(now)))
        certainty = kernel.log_q(x, logits).amax(-1).masked_fill(~masked, -torch.inf)
        place = certainty.argsort(-1, descending=True).argsort(-1)
        count = (masked.sum(-1, keepdim=True) / (self.step_count - i)).ceil()
        then = torch.where(masked & (place < count), 1.0, now)
        return replace(carry, x=kernel.transport(x, logits, now, then, g))
