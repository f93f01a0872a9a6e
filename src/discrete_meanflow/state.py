"""The two types of state: one of n symbols, or a point of R^n."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_meanflow import ordered
from discrete_meanflow.errors import InputError
from discrete_meanflow.simplex import delta
from discrete_meanflow.types import Point, State, Tokens


@dataclass(frozen=True)
class StateSpace(ABC):
    """The type of a position. A kernel and its process have the same state space."""

    size: int  # n

    @abstractmethod
    def point(self, x: State, dtype: torch.dtype) -> Point:
        """The state as a point, ``(*batch, n)``."""

    def network_input(self, x: State, dtype: torch.dtype) -> Point:
        """What a network sees of the state, ``(*batch, n)``."""
        return self.point(x, dtype)

    @abstractmethod
    def positions(self, x: State) -> torch.Size:
        """The shape of the positions: ``(*batch,)``."""

    @abstractmethod
    def time_shape(self, x: State) -> torch.Size:
        """The shape of times that are equal in all positions."""

    @abstractmethod
    def where(self, mask: Tensor, a: State, b: State) -> State:
        """``a`` in the positions of the mask, ``b`` elsewhere."""

    @abstractmethod
    def check(self, x: State) -> None:
        """Raise an error if x is not a state of this space."""

    def observe(self, x: State, tokens: Tokens, observed: Tensor) -> State:
        """The state x with ``tokens`` in the observed positions (bool, ``(*batch,)``)."""
        shape = self.positions(x)
        if observed.dtype != torch.bool or observed.shape != shape:
            raise InputError(
                f"observed must be bool of shape {tuple(shape)}, got {observed.dtype} of shape "
                f"{tuple(observed.shape)}"
            )
        if tokens.is_floating_point() or torch.broadcast_shapes(tokens.shape, shape) != shape:
            raise InputError(
                f"observed tokens must be integers of shape {tuple(shape)}, got {tokens.dtype} of "
                f"shape {tuple(tokens.shape)}"
            )
        symbols = tokens.expand(shape)[observed]
        if bool(((symbols < 0) | (symbols >= self.size)).any()):
            raise InputError(f"observed tokens must lie in 0 .. {self.size - 1}")
        return self.where(observed, self._from_tokens(tokens, x), x)

    @abstractmethod
    def _from_tokens(self, tokens: Tokens, like: State) -> State:
        """Tokens as states."""


class Discrete(StateSpace):
    """A position holds one of the symbols ``0 .. n - 1``: the state of a CTMC."""

    def point(self, x: Tokens, dtype: torch.dtype) -> Point:
        return delta(x, self.size, dtype)

    def positions(self, x: Tokens) -> torch.Size:
        return x.shape

    def time_shape(self, x: Tokens) -> torch.Size:
        return x.shape

    def where(self, mask: Tensor, a: Tokens, b: Tokens) -> Tokens:
        return torch.where(mask, a, b)

    def check(self, x: Tokens) -> None:
        if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
            raise InputError(f"start states must be integers, got {x.dtype}")
        if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < self.size:
            wrong = int(x.min()) if int(x.min()) < 0 else int(x.max())
            raise InputError(f"start states must lie in 0 .. {self.size - 1}, got {wrong}")

    def _from_tokens(self, tokens: Tokens, like: Tokens) -> Tokens:
        return tokens


@dataclass(frozen=True)
class Continuous(StateSpace):
    r"""A position holds a point of R^n; the symbols are its corners ``e_1 .. e_n``.

    Noise is ``A^{-1} w`` with normal w, and networks see ``A x``. A is the identity, unless
    symbols are ordered: then it takes them to points that are near if the symbols are, so that
    nearby noise becomes nearby symbols.

    Args:
        ordered: how many symbols of each position, from the first on, are ordered; () if none are.
    """

    ordered: tuple[int, ...] = ()

    def point(self, x: Point, dtype: torch.dtype) -> Point:
        return x

    def network_input(self, x: Point, dtype: torch.dtype) -> Point:
        if not self.ordered:
            return x
        return ordered.apply(ordered.embedding(self.ordered, self.size, x.device), x)

    def symbols(self, device: torch.device) -> Tensor:
        """What networks see of each symbol: ``(D, n, n)``, or ``(1, n, n)`` without an order."""
        if not self.ordered:
            return torch.eye(self.size, device=device)[None]
        return ordered.embedding(self.ordered, self.size, device).mT

    def noise(self, w: Point) -> Point:
        """Noise of the space from normal numbers w, ``(*batch, D, n)``."""
        if not self.ordered:
            return w
        return ordered.apply(ordered.inverse_embedding(self.ordered, self.size, w.device), w)

    def positions(self, x: Point) -> torch.Size:
        return x.shape[:-1]

    def time_shape(self, x: Point) -> torch.Size:
        return torch.Size((*x.shape[:-2], 1))

    def where(self, mask: Tensor, a: Point, b: Point) -> Point:
        return torch.where(mask[..., None], a, b)

    def check(self, x: Point) -> None:
        if not x.is_floating_point() or x.shape[-1] != self.size:
            raise InputError(
                f"this kernel has continuous states over {self.size} symbols; start from points, "
                f"process.source(shape, g), got {x.dtype} of shape {tuple(x.shape)}"
            )
        if not bool(x.isfinite().all()):
            raise InputError("the start contains NaN or infinite values")

    def _from_tokens(self, tokens: Tokens, like: Point) -> Point:
        return delta(tokens, self.size, like.dtype)
