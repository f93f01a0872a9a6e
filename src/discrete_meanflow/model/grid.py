"""Tables as values, for the terminal and for pages."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """The text of a cell; ``exact`` is its number with all digits, if the text is rounded."""

    text: str
    exact: str = ""

    @classmethod
    def decimals(cls, value: float | None, digits: int = 3) -> "Cell":
        """A number with a fixed number of decimals; empty for None."""
        return cls("") if value is None else cls(f"{value:.{digits}f}", repr(value))

    @classmethod
    def beside(cls, value: float | None, other: float | None, digits: int = 3) -> "Cell":
        """A number with three decimals, and in parentheses what it is compared with."""
        first, second = cls.decimals(value), cls.decimals(other, digits)
        if other is None:
            return first
        return cls(f"{first.text} ({second.text})", f"{first.exact} ({second.exact})")

    @classmethod
    def of(cls, value: Any) -> "Cell":
        """A number to three digits; text unchanged; ``-`` for None."""
        text = number(value)
        rounded = isinstance(value, float) and text != repr(value)
        return cls(text, repr(value) if rounded else "")


@dataclass(frozen=True)
class Grid:
    """A table: its head, and rows of as many cells."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def number(value: Any) -> str:
    """A number to three digits; text unchanged; ``-`` for None."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value == 0 or isinstance(value, int):
        return str(int(value))
    if 1e3 <= abs(value) < 1e5:
        return f"{value:,.0f}"
    return f"{value:.2e}" if abs(value) < 1e-3 or abs(value) >= 1e5 else f"{value:.3g}"
