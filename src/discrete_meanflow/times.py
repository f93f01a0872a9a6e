"""Laws of time pairs (r, t) with 0 <= r <= t <= 1, at which training evaluates an objective."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch

from discrete_meanflow.clock import DecodingClock
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import Times


class TimePair(NamedTuple):
    r: Times
    t: Times
    s: Times | None = None  # an intermediate time, for objectives that compose two steps


class TimeSampler(ABC):
    """A law on {0 <= r <= t <= 1}."""

    @abstractmethod
    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        """Draw pairs of the given shape, float64, on the generator's device."""


def _check_gap(epsilon: float) -> None:
    if not 0 <= epsilon < 1:
        raise InputError(f"time sampler: the gap epsilon must lie in [0, 1), got {epsilon:g}")


def _uniform(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64, device=g.device, generator=g)


@dataclass(frozen=True)
class UniformGap(TimeSampler):
    """``r ~ U[0, end - epsilon)``, ``t ~ U[r + epsilon, end]``: with end = 1, Algorithm 1."""

    epsilon: float = 0.01
    end: float = 1.0

    def __post_init__(self) -> None:
        _check_gap(self.epsilon)
        if not self.epsilon < self.end <= 1:
            raise InputError(f"time sampler: the end must lie in ({self.epsilon:g}, 1]")

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        r = _uniform(shape, g) * (self.end - self.epsilon)
        first = r + self.epsilon
        return TimePair(r, (first + _uniform(shape, g) * (self.end - first)).clamp(max=self.end))


@dataclass(frozen=True)
class FromSource(TimeSampler):
    """``r = 0``, ``t ~ U[epsilon, 1]``: only the kernels ``K_{0,t}``.

    The identity differentiates in t only, so it determines ``K_{0,t}`` without any other r. That
    is enough for one-step generation, not for composing steps.
    """

    epsilon: float = 0.01

    def __post_init__(self) -> None:
        _check_gap(self.epsilon)

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        t = self.epsilon + (1 - self.epsilon) * _uniform(shape, g)
        return TimePair(torch.zeros_like(t), t)


@dataclass(frozen=True)
class LogitNormal(TimeSampler):
    """Two draws ``sigmoid(z), z ~ N(mean, 1)``, sorted into r < t at least epsilon apart.

    The paper gives the law of one time. As in MeanFlow (Geng et al. 2025, arXiv:2505.13447), the
    pair is two such draws in order.
    """

    mean: float = 0.0
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        _check_gap(self.epsilon)

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        z = torch.randn(2, *shape, dtype=torch.float64, device=g.device, generator=g)
        a, b = torch.sigmoid(self.mean + z)
        t = torch.maximum(a, b).clamp(min=self.epsilon)
        return TimePair(torch.minimum(torch.minimum(a, b), t - self.epsilon).clamp(min=0), t)


@dataclass(frozen=True)
class MixedTimes(TimeSampler):
    """A fraction of pairs from ``pairs``; the rest are near the diagonal, ``t = r + epsilon``.

    fraction = 0 trains an instantaneous generator; fraction = 1 is ``pairs``.
    """

    fraction: float
    pairs: TimeSampler
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        _check_gap(self.epsilon)
        if not 0 <= self.fraction <= 1:
            raise InputError(
                f"fraction of pairs with r != t must lie in [0, 1], got {self.fraction:g}"
            )

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        far = self.pairs.sample(shape, g)
        r = _uniform(shape, g) * (1 - self.epsilon)
        apart = _uniform(shape, g) < self.fraction
        return TimePair(torch.where(apart, far.r, r), torch.where(apart, far.t, r + self.epsilon))


@dataclass(frozen=True)
class GridTimes(TimeSampler):
    """A step ``r = i/T, t = (i + 1)/T`` of a discrete-time chain, with i uniform on 0 .. T - 1."""

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"time sampler: needs at least one step, got {self.steps}")

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        i = torch.randint(self.steps, shape, device=g.device, generator=g).double()
        return TimePair(i / self.steps, (i + 1) / self.steps)


class ClockUniform(TimeSampler):
    """``r < s < t`` with ``tau(r), tau(s), tau(t)`` uniform on the decoding clock.

    For continuous states over V symbols.

    Args:
        vocabulary: number of symbols V.
        full_interval_fraction: fraction of the pairs that are (0, 1), the step of one-step
            generation.
    """

    def __init__(self, vocabulary: int, full_interval_fraction: float = 0.1) -> None:
        if not 0 <= full_interval_fraction <= 1:
            raise InputError(
                "time sampler: the fraction of pairs (0, 1) must lie in [0, 1], got "
                f"{full_interval_fraction:g}"
            )
        self.clock = DecodingClock(vocabulary)
        self.full_interval_fraction = full_interval_fraction

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        low, high = torch.stack([_uniform(shape, g), _uniform(shape, g)]).sort(0).values
        full = _uniform(shape, g) < self.full_interval_fraction
        low, high = low.masked_fill(full, 0), high.masked_fill(full, 1)
        middle = low + (high - low) * _uniform(shape, g)
        clock = self.clock.to(g.device)
        return TimePair(*(clock.inverse(tau) for tau in (low, high, middle)))

    def __repr__(self) -> str:
        return f"ClockUniform({self.clock.vocabulary}, {self.full_interval_fraction:g})"


class ToEnd(TimeSampler):
    """``t = 1`` and ``tau(r)`` uniform on the decoding clock: the maps of consistency models."""

    def __init__(self, vocabulary: int) -> None:
        self.clock = DecodingClock(vocabulary)

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        r = self.clock.to(g.device).inverse(_uniform(shape, g))
        return TimePair(r, torch.ones_like(r))

    def __repr__(self) -> str:
        return f"ToEnd({self.clock.vocabulary})"


class DyadicTimes(TimeSampler):
    """Steps of ``2^-l`` on the decoding clock from a uniform start, with s in the middle.

    l is uniform in ``0 .. levels``: the step sizes of shortcut models. With l = 0 the pair is
    (0, 1).
    """

    def __init__(self, vocabulary: int, levels: int = 6) -> None:
        if levels < 0:
            raise InputError(f"time sampler: levels must be >= 0, got {levels}")
        self.clock, self.levels = DecodingClock(vocabulary), levels

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        level = torch.randint(self.levels + 1, shape, device=g.device, generator=g)
        step = 0.5 ** level.double()
        low, clock = _uniform(shape, g) * (1 - step), self.clock.to(g.device)
        return TimePair(*(clock.inverse(low + part * step) for part in (0, 1, 0.5)))

    def __repr__(self) -> str:
        return f"DyadicTimes({self.clock.vocabulary}, {self.levels})"


@dataclass(frozen=True)
class Grouped(TimeSampler):
    """Equal times within groups of ``size`` paths: those at i, i + G, i + 2 G, ... of a batch.

    G is the number of groups. Every n-th path of a batch then has whole groups if n divides G.
    """

    times: TimeSampler
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"time sampler: groups need at least one path, got {self.size}")

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        *outer, batch = shape
        pair = self.times.sample((*outer, math.ceil(batch / self.size)), g)
        repeats = (*[1] * len(outer), self.size)
        times = (None if s is None else s.repeat(repeats)[..., :batch] for s in pair)
        return TimePair._make(times)


@dataclass(frozen=True)
class OnDiagonal(TimeSampler):
    """``t = r`` in a fraction of the pairs of another law: the diagonal of a kernel."""

    times: TimeSampler
    fraction: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise InputError(
                f"fraction of pairs on the diagonal must lie in [0, 1], got {self.fraction:g}"
            )

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        pair = self.times.sample(shape, g)
        if self.fraction == 1:
            return TimePair(pair.r, pair.r)
        there = _uniform(shape, g) < self.fraction
        t = torch.where(there, pair.r, pair.t)
        return TimePair(pair.r, t, None if pair.s is None else torch.where(there, pair.r, pair.s))


@dataclass(frozen=True)
class OneTime(TimeSampler):
    """``t = r ~ U[start, end]``, for objectives that see one time.

    The rates of a process diverge at its ends; ``end = 1 - 1e-3`` cuts them off.
    """

    start: float = 0.0
    end: float = 1 - 1e-3

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= 1:
            raise InputError(
                f"time sampler: needs 0 <= start < end <= 1, got {self.start:g} and {self.end:g}"
            )

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        r = self.start + (self.end - self.start) * _uniform(shape, g)
        return TimePair(r, r)
