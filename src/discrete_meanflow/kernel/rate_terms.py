"""Rates that a sampler may add to those of a mixture path."""

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel.euler import RateTerm
from discrete_meanflow.process import MixturePath
from discrete_meanflow.types import Probs, Times, Tokens


class DetailedBalance(RateTerm):
    """Noise that leaves every ``p_t(x | x1)`` as it is (Campbell et al. 2024, arXiv:2402.04997).

    Given x1: at rate eta from x1 to each symbol of the source, and back from x at rate
    ``eta p_t(x1 | x1)/p_t(x | x1)``. Both flows are equal, so p_t is in detailed balance. With
    masking, symbols are masked again at rate eta and errors can be corrected.
    """

    def __init__(self, eta: float) -> None:
        self.eta = _check("detailed balance: eta", eta)

    def __call__(self, process: MixturePath, x: Tokens, q: Probs, t: Times) -> Probs:
        source, seen = _source_and_likelihood(process, x, t, q)
        kept = t[..., None] + (1 - t[..., None]) * source  # p_t(y | x1 = y)
        leave = q.gather(-1, x[..., None]) * (source > 0)
        return self.eta * (leave + kept * _ratio(q, seen))


class Redraw(RateTerm):
    """Noise that redraws x from ``p_t(. | x1)`` at rate eta: the stochasticity of DeFoG.

    The general detailed-balance rates of Qin et al. (2025, arXiv:2410.04263), ``eta p_t(y | x1)``.
    """

    def __init__(self, eta: float) -> None:
        self.eta = _check("redraw: eta", eta)

    def __call__(self, process: MixturePath, x: Tokens, q: Probs, t: Times) -> Probs:
        source, seen = _source_and_likelihood(process, x, t, q)
        q, weight = torch.where(seen > 0, q, 0.0), t[..., None]
        return self.eta * (weight * q + (1 - weight) * source * q.sum(-1, keepdim=True))


class TargetGuidance(RateTerm):
    """Faster jumps to x1: ``omega / (Z p_t(x | x1))``, Z the number of symbols with p_t > 0.

    The target guidance of DeFoG (Qin et al. 2025, arXiv:2410.04263). It changes the law of the
    samples, in first order in omega.
    """

    def __init__(self, omega: float) -> None:
        self.omega = _check("target guidance: omega", omega)

    def __call__(self, process: MixturePath, x: Tokens, q: Probs, t: Times) -> Probs:
        source, seen = _source_and_likelihood(process, x, t, q)
        support = (source > 0).sum() + (source == 0)  # of the source, and x1
        return self.omega * _ratio(q, seen) / support


def _check(name: str, value: float) -> float:
    if not 0 <= value < float("inf"):
        raise InputError(f"{name} must be finite and >= 0, got {value:g}")
    return value


def _source_and_likelihood(
    process: MixturePath, x: Tokens, t: Times, q: Probs
) -> tuple[Tensor, Tensor]:
    """The source's law ``(n,)`` and ``p_t(x | x1)`` for every x1, padded to ``(*batch, n)``."""
    seen = process.likelihood(x, t.expand(x.shape))
    seen = torch.nn.functional.pad(seen, (0, process.states - process.vocabulary))
    return process.source_law().to(q), seen.to(q.dtype)


def _ratio(q: Probs, seen: Tensor) -> Probs:
    """``q(x1) / p_t(x | x1)``, and 0 where x cannot come from x1."""
    return torch.where(seen > 0, q / torch.where(seen > 0, seen, 1.0), 0.0)
