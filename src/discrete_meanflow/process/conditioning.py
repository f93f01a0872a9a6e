"""Which positions are observed during training: what a kernel learns to condition on."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError


class ObservedPositions(ABC):
    """A law of conditioning masks. A fraction of the sequences has observed positions.

    Args:
        fraction: fraction of the sequences in which any position is observed.
    """

    def __init__(self, fraction: float) -> None:
        if not 0 <= fraction <= 1:
            raise InputError(
                f"conditioning: the fraction of sequences must lie in [0, 1], got {fraction:g}"
            )
        self.fraction = fraction

    def sample(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        """Draw masks: bool of shape ``(*shape, length)``, True where observed."""
        conditioned = torch.rand(*shape, 1, device=g.device, generator=g) < self.fraction
        return conditioned & self.choose(shape, length, g)

    @abstractmethod
    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        """Masks of the conditioned sequences: bool of shape ``(*shape, length)``."""


class RandomPositions(ObservedPositions):
    """Observe each position with probability p ~ U(0, 1): every number of positions occurs."""

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        probability = torch.rand(*shape, 1, device=g.device, generator=g)
        return torch.rand(*shape, length, device=g.device, generator=g) < probability

    def __repr__(self) -> str:
        return f"RandomPositions({self.fraction:g})"


class UnionPositions(ObservedPositions):
    """The union of two independent masks."""

    def __init__(self, first: ObservedPositions, second: ObservedPositions) -> None:
        super().__init__(1.0)  # each of the two applies its own fraction
        self.first, self.second = first, second

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        return self.first.sample(shape, length, g) | self.second.sample(shape, length, g)

    def __repr__(self) -> str:
        return f"UnionPositions({self.first!r}, {self.second!r})"


class FixedPositions(ObservedPositions):
    """Always the same positions, such as those of a class label (``data.labelled``)."""

    def __init__(self, positions: Sequence[int], fraction: float = 0.9) -> None:
        super().__init__(fraction)
        self.positions = sorted(set(positions))
        if not self.positions or self.positions[0] < 0:
            raise InputError(f"conditioning: positions count from 0, got {list(positions)}")

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        if self.positions[-1] >= length:
            raise InputError(
                f"conditioning: position {self.positions[-1]} lies outside 0 .. {length - 1}"
            )
        observed = torch.zeros(length, dtype=torch.bool, device=g.device)
        observed[self.positions] = True
        return observed.expand(*shape, length)

    def __repr__(self) -> str:
        return f"FixedPositions({self.positions}, {self.fraction:g})"
