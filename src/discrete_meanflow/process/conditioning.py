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


class FewPositions(ObservedPositions):
    """Observe 1 to ``most`` random positions: a cell or two of a row, as users condition most.

    ``RandomPositions`` leaves only 1 in D + 1 of its masks to each number of positions.
    """

    def __init__(self, fraction: float, most: int = 3) -> None:
        super().__init__(fraction)
        if most < 1:
            raise InputError(f"conditioning: needs at least one position, got {most}")
        self.most = most

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        most = min(self.most, length - 1)  # 0 for a single position, which is never observed
        count = torch.randint(min(1, most), most + 1, (*shape, 1), device=g.device, generator=g)
        order = torch.rand(*shape, length, device=g.device, generator=g).argsort(-1)
        return order < count

    def __repr__(self) -> str:
        return f"FewPositions({self.fraction:g}, {self.most})"


class PrefixPositions(ObservedPositions):
    """Observe the first k positions with k uniform on 1 .. D - 1: the beginning of a text.

    Independent draws per position hardly ever choose one.
    """

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        least = min(1, length - 1)  # a single position is never observed
        count = torch.randint(least, max(1, length), (*shape, 1), device=g.device, generator=g)
        return torch.arange(length, device=g.device) < count

    def __repr__(self) -> str:
        return f"PrefixPositions({self.fraction:g})"


class MixedPositions(ObservedPositions):
    """Each conditioned sequence has a mask of one of several laws, all equally likely."""

    def __init__(self, fraction: float, *laws: ObservedPositions) -> None:
        super().__init__(fraction)
        if not laws:
            raise InputError("conditioning: a mixture needs at least one law of masks")
        self.laws = laws

    def choose(self, shape: tuple[int, ...], length: int, g: torch.Generator) -> Tensor:
        which = torch.randint(len(self.laws), (*shape, 1), device=g.device, generator=g)
        masks = [law.sample(shape, length, g) for law in self.laws]
        return torch.stack([mask & (which == i) for i, mask in enumerate(masks)]).any(0)

    def __repr__(self) -> str:
        return f"MixedPositions({', '.join([f'{self.fraction:g}', *map(repr, self.laws)])})"


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
