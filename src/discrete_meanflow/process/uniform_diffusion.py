import torch

from discrete_meanflow.process.mixture_path import Uniform
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.simplex import delta
from discrete_meanflow.state import Discrete
from discrete_meanflow.types import Probs, Times, Tokens

NEAREST = 2**-24  # rates are infinite at times 0 and 1; float32 times come no closer


class UniformDiffusion(SequenceProcess):
    """Uniform noise as a Markov chain: each symbol is redrawn uniformly at rate ``1/t``, backwards.

    The uniform process of D3PM (Austin et al. 2021, arXiv:2107.03006) and SEDD (Lou et al. 2024,
    arXiv:2310.16834) on the clock ``-log t``: ``N_{t,r}[x, y] = (r/t) delta_x(y) + (1 - r/t)/V``.
    It has the ``x_r | x1`` of :class:`Uniform`, but a symbol may jump many times. Equal to
    ``Structured`` with a uniform generator, in closed form.

    Bridge: ``N_{t,r}[x, y] p_t(y | x1) / p_r(x | x1)`` with ``p_t(y | x1) = N_{1,t}[y, x1]``.
    Conditional generator: ``u_t(y, x | x1) = p_t(y | x1) / (V t p_t(x | x1))`` for y != x.
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, Discrete(vocabulary))
        self.mixture = Uniform(vocabulary)

    def source_law(self) -> Probs:
        """The law of a source symbol: shape ``(n,)``, float64."""
        return self.mixture.source_law()

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> Tokens:
        return self.mixture.source(shape, g)

    def corrupt(self, x1: Tokens, r: Times, g: torch.Generator) -> Tokens:
        return self.mixture.corrupt(x1, r, g)

    def likelihood(self, x: Tokens, r: Times) -> Probs:
        return self.mixture.likelihood(x, r)

    def bridge(self, x: Tokens, q: Probs, r: Times, t: Times) -> Probs:
        here = delta(x, self.states, q.dtype)
        # At r = t = 1, an observed position, symbols other than x1 have no bridge: x stays.
        arrived = (r == 1)[..., None]
        ratio = torch.where(t > 0, r / torch.where(t > 0, t, 1.0), 1.0)
        ahead = self._mix(here, ratio)
        moved = ahead * self._ratio(here, q, torch.where(r == 1, 0.5, r), t)
        return torch.where(arrived, here, moved)

    def marginal_rate(self, x: Tokens, q: Probs, t: Times) -> Probs:
        t = t.clamp(NEAREST, 1 - NEAREST)
        here = delta(x, self.states, q.dtype)
        out = (1 - here) * self._ratio(here, q, t, t) / (self.states * t[..., None])
        return out - here * out.sum(-1, keepdim=True)

    def _ratio(self, here: Probs, q: Probs, r: Times, t: Times) -> Probs:
        """``E_q p_t(y | x1) / p_r(x | x1)`` for all y, where ``here = delta_x``."""
        weight = q / self._mix(here, r)
        return t[..., None] * weight + (1 - t[..., None]) / self.states * weight.sum(-1, True)

    def _mix(self, point: Probs, r: Times) -> Probs:
        """``r point + (1 - r)/V``."""
        return r[..., None] * point + (1 - r[..., None]) / self.states
