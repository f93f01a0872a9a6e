"""Time distortions of DeFoG (Qin et al. 2025, arXiv:2410.04263): increasing maps of [0, 1]."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.times import TimePair, TimeSampler
from discrete_meanflow.types import Times

Distortion = Callable[[Times], Times]


def identity(t: Times) -> Times:
    """``t``."""
    return t


def polydec(t: Times) -> Times:
    """``2 t - t^2``: steps become shorter towards the data."""
    return 2 * t - t.square()


def polyinc(t: Times) -> Times:
    """``t^2``: steps become longer towards the data."""
    return t.square()


def cosine(t: Times) -> Times:
    """``(1 - cos(pi t))/2``: short steps at both ends."""
    return (1 - torch.cos(math.pi * t)) / 2


def revcos(t: Times) -> Times:
    """``2 t - (1 - cos(pi t))/2``: short steps in the middle."""
    return 2 * t - cosine(t)


def distorted_grid(k: int, distortion: Distortion) -> list[float]:
    """The times ``f(i/k)`` of k steps from 0 to 1, a grid for ``KernelSampler``."""
    if k < 1:
        raise InputError(f"time distortion: needs at least one step, got {k}")
    times: list[float] = distortion(torch.linspace(0, 1, k + 1, dtype=torch.float64)).tolist()
    return times


@dataclass(frozen=True)
class Distorted(TimeSampler):
    """The time pairs of another law, both distorted."""

    times: TimeSampler
    distortion: Distortion

    def sample(self, shape: tuple[int, ...], g: torch.Generator) -> TimePair:
        r, t, _ = self.times.sample(shape, g)
        return TimePair(self.distortion(r), self.distortion(t))

    def __repr__(self) -> str:
        return f"Distorted({self.times!r}, {self.distortion.__name__})"
