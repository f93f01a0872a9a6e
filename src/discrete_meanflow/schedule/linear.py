from dataclasses import dataclass

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.schedule.base import AlphaSchedule
from discrete_meanflow.types import Times


@dataclass(frozen=True)
class Linear(AlphaSchedule):
    """``alpha = (t - r) / (1 - r + epsilon)``, the paper's schedule for sequences.

    epsilon is 0 by default and 1e-6 in the paper. At r = t = 1, an observed position, alpha and
    its derivative are 0.
    """

    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise InputError(f"linear schedule: epsilon must be >= 0, got {self.epsilon:g}")

    def __call__(self, r: Times, t: Times) -> Times:
        rest = 1 - r + self.epsilon
        observed = rest <= self.epsilon
        # The inner `where` keeps 0/0 out of the derivative of the branch not taken.
        safe = torch.where(observed, torch.ones_like(rest), rest)
        return torch.where(observed, torch.zeros_like(rest), (t - r) / safe)
