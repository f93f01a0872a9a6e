from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.sampler.base import Carry, Sampler, check_flow_map
from discrete_meanflow.sampler.logits import LogitProcessor
from discrete_meanflow.types import Point, Tokens

# Above, all probabilities count as equal and chance decides. Their differences depend on the
# symbols, so keeping the largest would favour some symbols.
CONFIDENT = 0.9


class RefiningSampler(Sampler):
    """Generate all positions in one step, keep the confident ones, generate the others again.

    Kept positions are observed in the next step, so what replaces the others fits them. Step i of
    k keeps the ``1/(k - i)`` of the remaining positions whose symbols have the largest
    probabilities, and the last step all. The others get fresh noise. This is the order of
    mask-predict (Ghazvininejad et al. 2019, arXiv:1904.09324) and MaskGIT (Chang et al. 2022,
    arXiv:2202.04200), but the positions of one step depend on each other. The network must know
    observed positions from training.

    Args:
        kernel: the flow-map kernel.
        k: number of steps.
        logit_processors: see :class:`Sampler`.
        guidance: see :class:`KernelSampler`. The kept positions belong to both conditions.
    """

    def __init__(
        self,
        kernel: Kernel,
        k: int,
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
    ) -> None:
        super().__init__(kernel, k, logit_processors)
        check_flow_map(kernel, "refining sampler")
        self.guidance = guidance

    def remember(self, x: Point) -> tuple[Point, None]:
        """The noise of the next step, and the kept positions."""
        return x, None

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        kernel, space, (noise, kept) = self.kernel, self.kernel.space, carry.memory
        kept = carry.observed if i == 0 else kept

        def start(kept: Tensor | None) -> tuple[Point, Tensor, Tensor]:
            x = noise if kept is None else space.where(kept, carry.x, noise)
            return x, self.times(x, 0.0, kept), self.times(x, 1.0, kept)

        x, r, t = start(kept)
        logits = kernel(x, r, t)
        if self.guidance != 1:
            if carry.observed is None:
                raise InputError("sampler: guidance needs observed positions")
            free = kernel(*start(kept & ~carry.observed))
            logits = free + self.guidance * (logits - free)
        x = kernel.transport(x, self.processed(logits), r, t, g)
        symbols = self.symbols(x, g)
        kept = self.confident(i, x, symbols, kept, g)
        noise = torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=g)
        return replace(carry, x=space.observe(x, symbols, kept), memory=(noise, kept))

    def confident(
        self, i: int, x: Point, symbols: Tokens, kept: Tensor | None, g: torch.Generator
    ) -> Tensor:
        """The positions to keep after step i, those of ``kept`` among them."""
        confidence = x.gather(-1, symbols[..., None])[..., 0]
        tie = torch.rand(confidence.shape, dtype=x.dtype, device=x.device, generator=g)
        score = torch.where(confidence > CONFIDENT, 1 + tie, confidence)
        if kept is None:
            kept = torch.zeros_like(score, dtype=torch.bool)
        count = kept.sum(-1, keepdim=True)
        rest = kept.shape[-1] - count
        count = count + (rest / (self.step_count - i)).ceil()
        order = score.masked_fill(kept, torch.inf).argsort(-1, descending=True)
        return order.argsort(-1) < count
