from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from discrete_meanflow.errors import InputError
from discrete_meanflow.state import StateSpace
from discrete_meanflow.types import Probs, State, Times, Tokens


class PathSample(NamedTuple):
    """A training batch: all random numbers of a step. An objective is a function of it."""

    x: State  # x_r ~ p_r                         (*batch,), or (*batch, n) if continuous
    r: Times  # broadcasts against the positions of x
    t: Times
    y: State  # m draws of x_t ~ K_{r,t}(., x_r)  (*batch, m), or (*batch, m, n)
    law: Tensor  # K_{r,t}(., x_r)                (*batch, n), or (*batch, 0) if unknown
    x1: Tokens  # the endpoint, data at time 1    (*batch,), or (*batch, 0) if none
    s: Times  # an intermediate time; t where no objective uses it

    @property
    def has_endpoint(self) -> bool:
        return self.x1.shape[-1] > 0

    def moved(self, t: Times) -> Times:
        """Replace t by another time. Observed positions, at r = 1, keep theirs: no tangent."""
        return torch.where(self.r < 1, t, self.t)


class Process(nn.Module, ABC):
    """A reference process on n states from time 0 to 1: its source and its rates.

    Sequences run one such process in every position. A process holds no data: ``path/`` combines
    it with data or with its own initial law.
    """

    space: StateSpace

    @property
    def states(self) -> int:
        """Number of states n."""
        return self.space.size

    @abstractmethod
    def source(self, shape: tuple[int, ...], g: torch.Generator) -> State:
        """Draw ``x_0 ~ p_0`` for positions of the given shape."""

    @abstractmethod
    def rates_at(self, path: PathSample) -> Probs:
        """``u_t(., x_t)`` at each draw of x_t, given x1 if there is one: ``(*batch, m, n)``."""


def check_initial(initial: Tensor | None, states: int) -> Tensor:
    """p_0 as float64 of shape (n,); the default is uniform, as in the paper."""
    if initial is None:
        return torch.full((states,), 1 / states, dtype=torch.float64)
    p = torch.as_tensor(initial, dtype=torch.float64)
    if p.shape != (states,) or bool((p < 0).any()) or abs(p.sum().item() - 1) > 1e-9:
        raise InputError(
            f"initial law: needs {states} probabilities that sum to 1, got shape "
            f"{tuple(p.shape)} with sum {p.sum().item():g}"
        )
    return p
