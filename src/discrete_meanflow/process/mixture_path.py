from abc import abstractmethod

import torch

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.process.conditioning import ObservedPositions
from discrete_meanflow.process.sequence import SequenceProcess
from discrete_meanflow.schedule import Linear
from discrete_meanflow.simplex import delta, interpolate
from discrete_meanflow.types import Probs, State, Times

LINEAR = Linear()


class MixturePath(SequenceProcess):
    """``x_r = x1`` with probability r, else the source symbol; each position jumps once, to x1.

    Bridge: ``(1 - alpha) delta_x + alpha q`` with ``alpha = (t - r)/(1 - r)``. Conditional
    generator: ``u_t(y, x | x1) = (delta_{x1}(y) - delta_x(y)) / (1 - t)``.
    """

    def corrupt(self, x1: State, r: Times, g: torch.Generator) -> State:
        level = torch.rand(x1.shape, dtype=torch.float64, device=x1.device, generator=g)
        return torch.where(level < r, x1, self.source(tuple(x1.shape), g))

    @abstractmethod
    def source_law(self) -> Probs:
        """The law of a source symbol: shape ``(n,)``, float64."""

    def likelihood(self, x: State, r: Times) -> Probs:
        r = r.double()[..., None]
        kept = delta(x, self.data.vocabulary, torch.float64)
        return r * kept + (1 - r) * self.source_law().to(x.device)[x][..., None]

    def bridge(self, x: State, q: Probs, r: Times, t: Times) -> Probs:
        return interpolate(x, q, LINEAR(r, t))

    def advance(
        self, x: State, x1: State, r: Times, t: Times, g: torch.Generator, draws: int
    ) -> State:
        shape = (*x.shape, draws)
        level = torch.rand(shape, dtype=torch.float64, device=x.device, generator=g)
        return torch.where(level < LINEAR(r, t)[..., None], x1[..., None], x[..., None])

    def rate(self, y: State, t: Times, x1: State) -> Probs:
        # At t = 1 the rate is infinite. Times are float32 in training, where 1 - t >= 2^-24.
        rest = (1 - t).clamp(min=2**-24)[..., None]
        return (delta(x1, self.states, t.dtype) - delta(y, self.states, t.dtype)) / rest


class SingleTokenSource(MixturePath):
    """Noise is one symbol, ``token``: all positions start from it."""

    token: int

    def source_law(self) -> Probs:
        return delta(torch.tensor(self.token), self.states, torch.float64)

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        return torch.full(shape, self.token, device=g.device)


class Absorbing(SingleTokenSource):
    """Noise is a symbol that the alphabet already has."""

    def __init__(
        self, data: Sequences, token: int, conditioning: float | ObservedPositions = 0.0
    ) -> None:
        if not 0 <= token < data.vocabulary:
            raise InputError(
                f"absorbing: the token must lie in the alphabet 0 .. {data.vocabulary - 1}, "
                f"got {token}; Masking(data) adds a symbol of its own"
            )
        super().__init__(data, data.vocabulary, conditioning)
        self.token = token

    def extra_repr(self) -> str:
        return " ".join([f"token={self.token}", super().extra_repr()]).strip()


class Masking(SingleTokenSource):
    """Noise is one symbol more, the mask: state V of the V + 1 states."""

    def __init__(self, data: Sequences, conditioning: float | ObservedPositions = 0.0) -> None:
        super().__init__(data, data.vocabulary + 1, conditioning)
        self.token = data.vocabulary


class Uniform(MixturePath):
    """Noise is a uniform symbol.

    Given x1 this is a Markov chain, but not given x_r alone: x_t forgets what x_r told about
    x1. Where the chain itself must be Markov, take ``Structured`` with a uniform generator,
    which has the same ``x_r | x1``.
    """

    def __init__(self, data: Sequences, conditioning: float | ObservedPositions = 0.0) -> None:
        super().__init__(data, data.vocabulary, conditioning)

    def source_law(self) -> Probs:
        return torch.full((self.states,), 1 / self.states, dtype=torch.float64)

    def source(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        return torch.randint(self.states, shape, generator=g, device=g.device)
