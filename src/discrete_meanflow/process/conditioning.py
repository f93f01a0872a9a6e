"""Which positions are known beforehand while training: what a kernel learns to condition on."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError


class ObservedPositions(ABC):
    """In a share of the sequences some positions are known; ``choose`` says which."""

    def __init__(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise InputError(f"clamps: the share of sequences must lie in [0, 1], got {share:g}")
        self.share = share

    def sample(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        """Whether each position is known: bool of shape ``(*shape, length)``."""
        some = torch.rand(*shape, 1, device=g.device, generator=g) < self.share
        return some & self.choose(shape, length, g)

    @abstractmethod
    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        """The positions that are known where any are: bool of shape ``(*shape, length)``."""


class RandomPositions(ObservedPositions):
    """Each position with a chance that is itself uniform, so that every number is met."""

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        chance = torch.rand(*shape, 1, device=g.device, generator=g)
        return torch.rand(*shape, length, device=g.device, generator=g) < chance

    def __repr__(self) -> str:
        return f"{self.share:g}"


class UnionPositions(ObservedPositions):
    """What one says is known, and what the other does."""

    def __init__(self, one: ObservedPositions, other: ObservedPositions) -> None:
        super().__init__(1.0)  # each of the two has a share of its own
        self.one, self.other = one, other

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        return self.one.sample(shape, length, g) | self.other.sample(shape, length, g)

    def __repr__(self) -> str:
        return f"Either({self.one!r}, {self.other!r})"


class FixedPositions(ObservedPositions):
    """Always the same positions, such as those of a class label (``data.labelled``)."""

    def __init__(self, positions: Sequence[int], share: float = 0.9) -> None:
        super().__init__(share)
        self.positions = sorted(set(positions))
        if not self.positions or self.positions[0] < 0:
            raise InputError(f"clamps: positions are counted from 0, got {list(positions)}")

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        if self.positions[-1] >= length:
            raise InputError(
                f"clamps: position {self.positions[-1]} lies outside 0 .. {length - 1}"
            )
        held = torch.zeros(length, dtype=torch.bool, device=g.device)
        held[self.positions] = True
        return held.expand(*shape, length)

    def __repr__(self) -> str:
        return f"Given({self.positions}, {self.share:g})"
