from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import FlowMapKernel, Kernel
from discrete_meanflow.sampler.base import Carry, Sampler, check_flow_map
from discrete_meanflow.sampler.logits import LogitProcessor
from discrete_meanflow.types import Point, Times

CERTAIN = 0.9


class RefiningSampler(Sampler):
    """Generate all positions in one step, keep the confident ones, generate the others again.

    Kept positions are observed in the next step, so what replaces the others fits them. Step i of
    k keeps ``1/(k - i)`` of the remaining positions: those whose symbols have the largest
    probabilities. The others get fresh noise; with the old one, which the kept positions depend
    on, they would agree too much. This is the order of mask-predict (Ghazvininejad et al. 2019,
    arXiv:1904.09324) and MaskGIT (Chang et al. 2022, arXiv:2202.04200), but the positions of one
    step depend on each other. The network must know observed positions from training.

    Differences between large probabilities say more about the symbols than about errors, and
    keeping the largest would favour some symbols. So those of at least ``certain`` count as equal,
    and chance decides between them. An exact flow map then gives exact samples.

    Args:
        kernel: the flow-map kernel.
        k: number of steps.
        logit_processors: see :class:`Sampler`.
        guidance: see :class:`KernelSampler`. Kept positions belong to both conditions.
        certain: the probability from which on all symbols are equally confident. 1 is the order
            of mask-predict: more positions fit each other, and samples are less diverse.
    """

    def __init__(
        self,
        kernel: Kernel,
        k: int,
        logit_processors: Sequence[LogitProcessor] = (),
        guidance: float = 1.0,
        certain: float = CERTAIN,
    ) -> None:
        super().__init__(kernel, k, logit_processors)
        check_flow_map(kernel, "refining sampler")
        if not 0 <= certain <= 1:
            raise InputError(f"refining sampler: certain must lie in [0, 1], got {certain:g}")
        self.guidance, self.certain = guidance, certain
        self.evaluations *= 1 if guidance == 1 else 2

    def remember(self, x: Point) -> tuple[Point, None]:
        """The noise of the first step, and no kept positions."""
        return x, None

    def step(self, i: int, carry: Carry, g: torch.Generator) -> Carry:
        kernel, (noise, kept) = self.kernel.for_step(0, 1), carry.memory
        assert isinstance(kernel, FlowMapKernel)
        space = kernel.space
        if i == 0:
            kept = carry.observed
        else:
            white = torch.randn(noise.shape, dtype=noise.dtype, device=g.device, generator=g)
            noise = space.noise(white)

        def start(kept: Tensor | None) -> tuple[Point, Times, Times]:
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
        if i + 1 < self.step_count:
            symbols = self.symbols(x, g)
            kept = self.keep(i, x.gather(-1, symbols[..., None])[..., 0], kept, g)
            x = space.observe(x, symbols, kept)
        return replace(carry, x=x, memory=(noise, kept))

    def keep(self, i: int, confidence: Tensor, kept: Tensor | None, g: torch.Generator) -> Tensor:
        """The positions to keep after step i, from 0: those of ``kept`` and the next ones."""
        if kept is None:
            kept = torch.zeros_like(confidence, dtype=torch.bool)
        order = torch.rand(confidence.shape, dtype=confidence.dtype, device=g.device, generator=g)
        score = torch.where(confidence < self.certain, confidence, 1 + order)
        count = kept.sum(-1, keepdim=True)
        count = count + ((kept.shape[-1] - count) / (self.step_count - i)).ceil()
        best = score.masked_fill(kept, torch.inf).argsort(-1, descending=True)
        return best.argsort(-1) < count
