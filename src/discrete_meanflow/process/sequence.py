from abc import abstractmethod

import torch
from torch import Tensor

from discrete_meanflow.data import Sequences
from discrete_meanflow.errors import InputError
from discrete_meanflow.process.base import PathSample, Process
from discrete_meanflow.process.conditioning import ObservedPositions, RandomPositions
from discrete_meanflow.simplex import categorical, delta
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Probs, State, Times


class SequenceProcess(Process):
    """Every position is carried from noise at time 0 to its clean token ``x1`` at time 1.

    Given x1, positions move independently, each by the same law. All maps act on each position
    with its own times: ``r, t`` are ``(*batch, D)``, or ``(*batch, 1)`` where all positions of a
    sequence share them.
    """

    def __init__(
        self, data: Sequences, states: int, conditioning: float | ObservedPositions = 0.0
    ) -> None:
        """clamps: which positions are known while training; a number is the share of sequences
        in which any may be (``Anywhere``)."""
        super().__init__()
        self.data, self.states, self.length = data, states, data.length
        self.conditioning = (
            conditioning
            if isinstance(conditioning, ObservedPositions)
            else RandomPositions(conditioning)
        )

    @abstractmethod
    def corrupt(self, x1: State, r: Times, g: torch.Generator) -> State:
        """``x_r | x1``: shape ``(*batch, D)``."""

    @abstractmethod
    def likelihood(self, x: State, r: Times) -> Probs:
        """``P(x_r = x | x1)`` for every symbol x1, in float64: shape ``(*batch, D, V)``."""

    @abstractmethod
    def bridge(self, x: State, q: Probs, r: Times, t: Times) -> Probs:
        """The law of ``x_t`` given ``x_r = x`` and a law q of x1: shape ``(*batch, D, n)``."""

    @abstractmethod
    def rate(self, y: State, t: Times, x1: State) -> Probs:
        """The conditional generator's column ``u_t(., y | x1)``: shape ``(*batch, D, n)``."""

    def advance(
        self, x: State, x1: State, r: Times, t: Times, g: torch.Generator, draws: int
    ) -> State:
        """``x_t | x_r, x1``, drawn independently: shape ``(*batch, D, draws)``."""
        q = delta(x1, self.states, torch.float64)
        return categorical(self.bridge(x, q, r.double(), t.double()), g, draws)

    def path(self, times: TimePair, g: torch.Generator, draws: int = 1) -> PathSample:
        """``times`` has one pair for each sequence; clamped positions have r = t = 1."""
        x1 = self.data.sample(tuple(times.r.shape), g)
        between = times.t if times.s is None else times.s
        r, t, s = (time[..., None] for time in (times.r, times.t, between))
        if self.conditioning.share > 0:
            held = self.conditioning.sample(tuple(times.r.shape), self.length, g)
            r, t, s = (torch.where(held, 1.0, time) for time in (r, t, s))
        x = self.corrupt(x1, r, g)
        y = self.advance(x, x1, r, t, g, draws)
        unknown = torch.empty(*x.shape, 0, device=x.device)
        return PathSample(x, r.float(), t.float(), y, unknown, x1, s.float())

    def hold(self, x: State, tokens: State, held: Tensor) -> State:
        """The state x with the given tokens in the positions that are ``held``."""
        self.check_held(tokens, held)
        return torch.where(held, tokens, x)

    def check_held(self, tokens: State, held: Tensor) -> None:
        if held.dtype != torch.bool or held.shape[-1:] != (self.length,):
            raise InputError(
                f"hold: which positions are held is bool of shape (*batch, {self.length}), got "
                f"{held.dtype} of shape {tuple(held.shape)}"
            )
        known = tokens.expand(held.shape)[held]
        if bool(((known < 0) | (known >= self.data.vocabulary)).any()):
            raise InputError(
                f"hold: tokens must lie in the alphabet 0 .. {self.data.vocabulary - 1}"
            )

    def rates_at(self, path: PathSample) -> Probs:
        x1 = path.x1[..., None].expand(path.y.shape)
        return self.rate(path.y, path.t[..., None], x1)

    def extra_repr(self) -> str:
        return f"clamps={self.conditioning}" if self.conditioning.share else ""
