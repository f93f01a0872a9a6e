"""Kernels whose network gives ratios of probabilities instead of a law of x1 (SEDD)."""

from abc import abstractmethod
from typing import Generic, TypeVar

import torch
from torch import nn

from discrete_meanflow.kernel.base import RateKernel
from discrete_meanflow.process import Masking, SequenceProcess, UniformDiffusion
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import categorical, delta
from discrete_meanflow.types import Logits, Probs, Times, Tokens

LINEAR = Linear()
EARLIEST = 1e-3  # time at which a reverse chain starts; at time 0 scores carry no information
P = TypeVar("P", bound=SequenceProcess)


class ScoreKernel(RateKernel, Generic[P]):
    """The reverse chain of the score ``s(y) = p_t(y)/p_t(x)``: SEDD (Lou et al. 2024,
    arXiv:2310.16834).

    y replaces the symbol of one position of x. Rates are ``Q[x, y] s(y) / t``, where Q is the
    generator of the noise on the clock ``-log t``. The law of a step is the analytic (Tweedie)
    one: with the noising kernel N from t to r, ``K(y) ~ N[x, y] (N^{-1} s)(y)``, exact per
    position if the score is. Nothing makes a learned score consistent, so negative values are
    clipped and the law is normalised.
    """

    def __init__(self, network: nn.Module, process: P) -> None:
        super().__init__(network, process.space)
        # Not a submodule: the process belongs to the problem's paths, which the trainer moves.
        self._process = (process,)

    @property
    def process(self) -> P:
        return self._process[0]

    def rate(self, x: Tokens, logits: Logits, t: Times) -> Probs:
        here = delta(x, self.states, logits.dtype)
        out = (1 - here) * self.arrivals(x, logits, t)
        return out - here * out.sum(-1, keepdim=True)

    @abstractmethod
    def arrivals(self, x: Tokens, logits: Logits, t: Times) -> Probs:
        """The rates from x to every other y: shape ``(*batch, n)``."""

    def law(self, x: Tokens, logits: Logits, r: Times, t: Times) -> Probs:
        weights = self.reversed(x, logits, r, t).clamp(min=0)
        return weights / weights.sum(-1, keepdim=True)

    @abstractmethod
    def reversed(self, x: Tokens, logits: Logits, r: Times, t: Times) -> Probs:
        """``N[x, y] (N^{-1} s)(y)`` up to a factor: shape ``(*batch, n)``."""

    def transport(
        self, x: Tokens, logits: Logits, r: Times, t: Times, g: torch.Generator
    ) -> Tokens:
        return categorical(self.law(x, logits.double(), r.double(), t.double()), g)

    def extra_repr(self) -> str:
        return f"process={type(self.process).__name__}"


class MaskScoreKernel(ScoreKernel[Masking]):
    """Scores under masking: ``s(y) = t/(1 - t) exp(logit_y)/V`` at a masked position.

    SEDD scales its network by the same factor. The exact logits are ``log V q(y)``.
    """

    def __init__(self, network: nn.Module, process: Masking) -> None:
        super().__init__(network, process)
        self.mask = process.token

    def arrivals(self, x: Tokens, logits: Logits, t: Times) -> Probs:
        return self._endpoint(x, logits) / (1 - t).clamp(min=2**-24)[..., None]

    def reversed(self, x: Tokens, logits: Logits, r: Times, t: Times) -> Probs:
        here = delta(x, self.states, logits.dtype)
        moved = LINEAR(r, t)[..., None] * self._endpoint(x, logits)
        # The last step leaves no mask, even if the endpoint's weights sum to less than one.
        last = ((t == 1) & (r < 1) & (x == self.process.token))[..., None]
        stay = torch.where(last, 0.0, 1 - moved.sum(-1, keepdim=True))
        return moved + here * stay.clamp(min=0)

    def rescaled(self, logits: Logits, original: Logits) -> Logits:
        """Processors change which symbols replace a mask, not how many masks are replaced."""
        mass, before = (s[..., : self.process.vocabulary].logsumexp(-1) for s in (logits, original))
        return logits + (before - mass)[..., None]

    def _endpoint(self, x: Tokens, logits: Logits) -> Probs:
        """``exp(logits)/V`` on the data's symbols where x is the mask, else 0."""
        data = torch.arange(self.states, device=x.device) < self.process.vocabulary
        moves = data & (x == self.process.token)[..., None]
        return torch.where(moves, logits, -torch.inf).exp() / self.process.vocabulary


class UniformScoreKernel(ScoreKernel[UniformDiffusion]):
    """Scores under uniform noise: ``s(y) = exp(logit_y)`` for y != x.

    Steps that start before ``EARLIEST`` start there: near time 0 every score is 1, and its errors
    grow as t/r.
    """

    earliest = EARLIEST

    def forward(self, x: Tokens, r: Times, t: Times) -> Logits:
        logits = super().forward(x, r, t)
        return logits.masked_fill(delta(x, self.states, logits.dtype) > 0, 0.0)  # s(x) = 1

    def arrivals(self, x: Tokens, logits: Logits, t: Times) -> Probs:
        return logits.exp() / (self.states * t.clamp(min=2**-24)[..., None])

    def reversed(self, x: Tokens, logits: Logits, r: Times, t: Times) -> Probs:
        r = r.clamp(min=EARLIEST)
        kept = (r / torch.maximum(r, t))[..., None]  # P(not redrawn between t and r)
        here = delta(x, self.states, logits.dtype)
        score = torch.where(here > 0, 1.0, logits.exp())  # whatever processors did to it
        mean = score.mean(-1, keepdim=True)
        return (kept * here + (1 - kept) / self.states) * (mean + (score - mean) / kept)
