from abc import abstractmethod

import torch
from torch import Tensor

from discrete_meanflow.process.base import PathSample, Process
from discrete_meanflow.simplex import categorical, delta
from discrete_meanflow.state import StateSpace
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Probs, State, Times, Tokens


class SequenceProcess(Process):
    """Every position moves from noise at time 0 to its clean token ``x1`` at time 1.

    Given x1, positions are independent and follow the same law. All maps act on each position at
    its own times: ``r, t`` have shape ``(*batch, D)``, or ``(*batch, 1)`` if the positions of a
    sequence share them.

    Args:
        vocabulary: V, the number of symbols in the data.
        space: the state space; noise may add symbols to the V of the data.
    """

    def __init__(self, vocabulary: int, space: StateSpace) -> None:
        super().__init__()
        self.vocabulary, self.space = vocabulary, space

    @abstractmethod
    def corrupt(self, x1: Tokens, r: Times, g: torch.Generator) -> State:
        """Draw ``x_r | x1``: shape ``(*batch, D)``."""

    @abstractmethod
    def likelihood(self, x: State, r: Times) -> Probs:
        """``P(x_r = x | x1)`` for every symbol x1, in float64: shape ``(*batch, D, V)``."""

    @abstractmethod
    def bridge(self, x: State, q: Probs, r: Times, t: Times) -> Probs:
        """The law of ``x_t`` given ``x_r = x`` and a law q of x1: shape ``(*batch, D, n)``."""

    @abstractmethod
    def marginal_rate(self, x: State, q: Probs, t: Times) -> Probs:
        """``E_q u_t(., x | x1)``, the column of x given a law q of x1: ``(*batch, D, n)``."""

    def rate(self, y: State, t: Times, x1: Tokens) -> Probs:
        """The conditional generator's column ``u_t(., y | x1)``: shape ``(*batch, D, n)``."""
        return self.marginal_rate(y, delta(x1, self.states, t.dtype), t)

    def advance(
        self, x: State, x1: Tokens, r: Times, t: Times, g: torch.Generator, draws: int
    ) -> State:
        """Draw ``x_t | x_r, x1`` independently: shape ``(*batch, D, draws)``."""
        q = delta(x1, self.states, torch.float64)
        return categorical(self.bridge(x, q, r.double(), t.double()), g, draws)

    def path(
        self,
        x1: Tokens,
        times: TimePair,
        g: torch.Generator,
        draws: int = 1,
        observed: Tensor | None = None,
    ) -> PathSample:
        """Draw ``x_r`` and ``draws`` samples of ``x_t`` for clean sequences x1.

        Args:
            x1: clean sequences, ``(*batch, D)``.
            times: one pair per sequence, ``(*batch,)``.
            g: the random generator.
            draws: number of samples of x_t.
            observed: bool ``(*batch, D)``; observed positions have r = t = 1.
        """
        between = times.t if times.s is None else times.s
        r, t, s = (time[..., None] for time in (times.r, times.t, between))
        if observed is not None:
            r, t, s = (torch.where(observed, 1.0, time) for time in (r, t, s))
        x = self.corrupt(x1, r, g)
        y = self.advance(x, x1, r, t, g, draws)
        unknown = torch.empty(*x.shape, 0, device=x.device)
        return PathSample(x, r.float(), t.float(), y, unknown, x1, s.float())

    def rates_at(self, path: PathSample) -> Probs:
        x1 = path.x1[..., None].expand(self.space.positions(path.y))
        return self.rate(path.y, path.t[..., None], x1)

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}"
