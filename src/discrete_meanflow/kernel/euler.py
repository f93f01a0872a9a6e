from abc import ABC, abstractmethod

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel.base import Kernel, RateKernel
from discrete_meanflow.kernel.bridge import BridgeKernel
from discrete_meanflow.process import MixturePath
from discrete_meanflow.simplex import categorical, delta, interpolate
from discrete_meanflow.types import Logits, Probs, State, Times, Tokens


class RateTerm(ABC):
    """Rates of a mixture path that are added to those of a kernel, averaged over its law q of x1.

    A sampler may follow any rates with the same ``p_t(x | x1)``.
    """

    @abstractmethod
    def __call__(self, process: MixturePath, x: Tokens, q: Probs, t: Times) -> Probs:
        """Rates from x to every y, ``(*batch, n)``; the entry at x is ignored."""


class EulerKernel(Kernel):
    """A step of constant rates: each position jumps with probability ``1 - exp(-(t - r) u)``.

    u is the total rate at r, and the target is drawn in proportion to the rates: tau-leaping
    (Campbell et al. 2022, arXiv:2205.14987), with at most one jump per step. Its error is of first
    order in the step. The step to t = 1, where rates are infinite, is the law of the kernel
    itself, which is that of x1. ``KernelSampler(EulerKernel(kernel), grid)`` is the sampler of
    discrete flow matching (Gat et al. 2024, arXiv:2407.15595).

    Args:
        kernel: a kernel with rates.
        terms: rates to add, which need a ``BridgeKernel`` on a mixture path.
    """

    def __init__(self, kernel: RateKernel, *terms: RateTerm) -> None:
        super().__init__(kernel.network, kernel.space)
        mixture = isinstance(kernel, BridgeKernel) and isinstance(kernel.process, MixturePath)
        if terms and not mixture:
            raise InputError("Euler kernel: rate terms need a BridgeKernel on a mixture path")
        self.kernel, self.terms, self.mask = kernel, terms, kernel.mask

    def forward(self, x: State, r: Times, t: Times) -> Logits:
        return super().forward(x, r, r)

    def rescaled(self, logits: Logits, original: Logits) -> Logits:
        return self.kernel.rescaled(logits, original)

    def law(self, x: Tokens, logits: Logits, r: Times, t: Times) -> Probs:
        here = delta(x, self.states, logits.dtype)
        rates = (1 - here) * self.rates(x, logits, r)
        total = rates.sum(-1)
        jump = -torch.expm1(-(t - r) * total)
        target = rates / torch.where(total > 0, total, 1.0)[..., None]
        arrived = self.kernel.law(x, logits, r, t)
        return torch.where((t == 1)[..., None], arrived, interpolate(here, target, jump))

    def rates(self, x: Tokens, logits: Logits, t: Times) -> Probs:
        """The rates of the kernel plus all terms, ``(*batch, n)``; ignore the entry at x."""
        rates = self.kernel.rate(x, logits, t)
        if isinstance(self.kernel, BridgeKernel) and isinstance(self.kernel.process, MixturePath):
            q = self.kernel.log_q(x, logits).exp()
            for term in self.terms:
                rates = rates + term(self.kernel.process, x, q, t)
        return rates

    def transport(
        self, x: Tokens, logits: Logits, r: Times, t: Times, g: torch.Generator
    ) -> Tokens:
        return categorical(self.law(x, logits.double(), r.double(), t.double()), g)
