"""How pages show the positions of a record."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Arrangement(StrEnum):
    """How the positions of a record are arranged."""

    TEXT = "text"  # symbols one after the other
    ROW = "row"  # cells with the names of their columns
    GRID = "grid"  # pixels, whose symbols are levels of brightness
    LIST = "list"  # symbols separated by spaces


@dataclass(frozen=True)
class Layout:
    """The positions of a record and their symbols.

    Args:
        arrangement: of the positions.
        positions: the name of each position.
        symbols: the symbols in the order of their tokens: one tuple for all positions, or one
            for each position.
        shape: height and width of a grid.
        pad: the token that ends a text, if any.
    """

    arrangement: Arrangement
    positions: tuple[str, ...]
    symbols: tuple[tuple[str, ...], ...]
    shape: tuple[int, ...] = ()
    pad: int | None = None

    @classmethod
    def of_text(cls, length: int, symbols: tuple[str, ...], pad: int | None) -> "Layout":
        """Symbols of one alphabet, numbered from 1."""
        return cls(Arrangement.TEXT, numbered(length), (symbols,), pad=pad)

    def symbols_at(self, position: int) -> tuple[str, ...]:
        """The symbols of a position."""
        return self.symbols[position if len(self.symbols) > 1 else 0]

    def describe(self) -> dict[str, Any]:
        """The layout as JSON."""
        return {
            "arrangement": self.arrangement.value,
            "positions": list(self.positions),
            "symbols": [list(symbols) for symbols in self.symbols],
            "shape": list(self.shape),
            "pad": self.pad,
        }


def numbered(length: int) -> tuple[str, ...]:
    """Names of positions: 1, 2 and so on."""
    return tuple(map(str, range(1, length + 1)))
