from abc import abstractmethod

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta, interpolate
from discrete_meanflow.state import Discrete
from discrete_meanflow.types import Probs, Times, Tokens

LINEAR = Linear()


class MixturePath(SequenceProcess):
    """``x_r = x1`` with probability r, else the source symbol; each position jumps once, to x1.

    The mixture path of discrete flow matching (Gat et al. 2024, arXiv:2407.15595). Bridge:
    ``(1 - alpha) delta_x + alpha q`` with ``alpha = (t - r)/(1 - r)``. Conditional generator:
    ``u_t(y, x | x1) = (delta_{x1}(y) - delta_x(y)) / (1 - t)``.
    """

    token: int | None = None  # the noise symbol, if there is only one

    def __init__(self, vocabulary: int, states: int | None = None) -> None:
        super().__init__(vocabulary, Discrete(vocabulary if states is None else states))

    def corrupt(self, x1: Tokens, r: Times, g: torch.Generator) -> Tokens:
        level = torch.rand(x1.shape, dtype=torch.float64, device=x1.device, generator=g)
        return torch.where(level < r, x1, self.source(tuple(x1.shape), g))

    @abstractmethod
    def source_law(self) -> Probs:
        """The law of a source symbol: shape ``(n,)``, float64."""

    def likelihood(self, x: Tokens, r: Times) -> Probs:
        r = r.double()[..., None]
        kept = delta(x, self.vocabulary, torch.float64)
        return r * kept + (1 - r) * self.source_law().to(x.device)[x][..., None]

    def bridge(self, x: Tokens, q: Probs, r: Times, t: Times) -> Probs:
        return interpolate(delta(x, self.states, q.dtype), q, LINEAR(r, t))

    def advance(
        self, x: Tokens, x1: Tokens, r: Times, t: Times, g: torch.Generator, draws: int
    ) -> Tokens:
        shape = (*x.shape, draws)
        level = torch.rand(shape, dtype=torch.float64, device=x.device, generator=g)
        return torch.where(level < LINEAR(r, t)[..., None], x1[..., None], x[..., None])

    def marginal_rate(self, x: Tokens, q: Probs, t: Times) -> Probs:
        # At t = 1 the rate is infinite. Times are float32 in training, where 1 - t >= 2^-24.
        rest = (1 - t).clamp(min=2**-24)[..., None]
        return (q - delta(x, self.states, q.dtype)) / rest


class SingleTokenSource(MixturePath):
    """All positions start from one symbol, ``token``."""

    token: int

    def source_law(self) -> Probs:
        return delta(torch.tensor(self.token), self.states, torch.float64)

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> Tokens:
        return torch.full(shape, self.token, device=g.device)

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}, token={self.token}"


class Absorbing(SingleTokenSource):
    """Noise is a symbol of the data's alphabet."""

    def __init__(self, vocabulary: int, token: int) -> None:
        if not 0 <= token < vocabulary:
            raise InputError(
                f"absorbing: the token must lie in the alphabet 0 .. {vocabulary - 1}, got "
                f"{token}; Masking(vocabulary) adds a symbol"
            )
        super().__init__(vocabulary)
        self.token = token


class Masking(SingleTokenSource):
    """Noise is an additional symbol, the mask: state V of the V + 1 states.

    The absorbing process of D3PM (Austin et al. 2021, arXiv:2107.03006) and MDLM (Sahoo et al.
    2024, arXiv:2406.07524).
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, vocabulary + 1)
        self.token = vocabulary


class Uniform(MixturePath):
    """Noise is a uniform symbol.

    Given x1 this is a Markov chain, but not given x_r alone: x_t forgets what x_r reveals about
    x1. Where the chain itself must be Markov, use ``UniformDiffusion``, which has the same
    ``x_r | x1``.
    """

    def source_law(self) -> Probs:
        return torch.full((self.states,), 1 / self.states, dtype=torch.float64)

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> Tokens:
        return torch.randint(self.states, shape, generator=g, device=g.device)
