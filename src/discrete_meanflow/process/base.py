from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.times import TimePair
from discrete_meanflow.types import Probs, State, Times


class PathSample(NamedTuple):
    """All that is random in a training step: an objective is a function of it."""

    x: State  # x_r ~ p_r                                     (*batch,)
    r: Times  # broadcasts against x
    t: Times
    y: State  # m draws of x_t ~ K_{r,t}(., x_r)              (*batch, m)
    law: Tensor  # K_{r,t}(., x_r)                            (*batch, n), or (*batch, 0) if unknown
    x1: State  # the clean data at time 1                    (*batch,), or (*batch, 0) if none
    s: Times  # a time between r and t; t itself where nothing asks for one

    def moved(self, t: Times) -> Times:
        """t in the place of its own; what is clamped, at r = 1, stays and has no tangent."""
        return torch.where(self.r < 1, t, self.t)


class Process(nn.Module, ABC):
    """A reference CTMC on n states, run from time 0 to 1: its source, its paths, its rates.

    Sequences run one such chain in every position.
    """

    states: int

    @abstractmethod
    def source(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        """``x_0 ~ p_0``."""

    @abstractmethod
    def path(self, times: TimePair, g: torch.Generator, draws: int = 1) -> PathSample:
        """``x_r ~ p_r`` and ``draws`` independent ``x_t ~ K_{r,t}(., x_r)`` at the given times."""

    @abstractmethod
    def rates_at(self, path: PathSample) -> Probs:
        """``u_t(., x_t)`` at each drawn x_t, given x1 if there is one: shape ``(*batch, m, n)``."""


def check_initial(initial: Tensor | None, states: int) -> Tensor:
    """p_0 as float64 of shape (n,); uniform when not given, as in the paper."""
    if initial is None:
        return torch.full((states,), 1 / states, dtype=torch.float64)
    p = torch.as_tensor(initial, dtype=torch.float64)
    if p.shape != (states,) or bool((p < 0).any()) or abs(p.sum().item() - 1) > 1e-9:
        raise InputError(
            f"initial law: needs {states} probabilities that sum to 1, got shape "
            f"{tuple(p.shape)} with sum {p.sum().item():g}"
        )
    return p
