from dataclasses import dataclass

import torch

from discrete_meanflow.ctmc.generator import RateGenerator
from discrete_meanflow.errors import InputError
from discrete_meanflow.schedule.base import AlphaSchedule
from discrete_meanflow.types import Times


@dataclass(frozen=True)
class Exponential(AlphaSchedule):
    """``alpha = 1 - exp(-c (t - r))``, the paper's schedule for finite chains."""

    c: float

    def __post_init__(self) -> None:
        if not self.c > 0:
            raise InputError(f"exponential schedule: c must be positive, got {self.c:g}")

    @classmethod
    def of(cls, generator: RateGenerator) -> "Exponential":
        """``c = 2 max|u|``: twice the fastest rate, as in the paper."""
        return cls(2 * generator.max_rate)

    def __call__(self, r: Times, t: Times) -> Times:
        return -torch.expm1(-self.c * (t - r))
