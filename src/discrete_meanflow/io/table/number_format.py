"""How a column writes its numbers: integers, decimals, dates, times."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, ClassVar

from discrete_meanflow.io.table.cells import INT_LIMIT

MAX_DECIMALS = 12
LARGEST = 1e300
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class NumberFormat(ABC):
    """Converts the text of cells to numbers and back.

    Args:
        spacing: numbers are multiples of it.
    """

    spacing: float
    type: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, cells: Collection[str]) -> "NumberFormat | None":
        """The format of distinct cells; None if they have another."""

    @abstractmethod
    def parse(self, cell: str) -> float:
        """The number in a cell. Raises ValueError if there is none."""

    @abstractmethod
    def text(self, number: float) -> str:
        """The cell of a number, rounded to the spacing."""

    @abstractmethod
    def value(self, cell: str) -> Any:
        """The Python value of a cell."""

    def rounded(self, number: float) -> float:
        return round(number / self.spacing) * self.spacing


@dataclass(frozen=True)
class Integers(NumberFormat):
    """Whole numbers, multiples of their greatest common divisor."""

    type = "int"

    @classmethod
    def of(cls, cells: Collection[str]) -> "Integers | None":
        if not all(map(is_integer, cells)):
            return None
        return cls(float(math.gcd(*map(int, cells)) or 1))

    def parse(self, cell: str) -> float:
        if not float(cell).is_integer():
            raise ValueError(cell)
        return float(cell)

    def text(self, number: float) -> str:
        return str(round(self.rounded(number)))

    def value(self, cell: str) -> int:
        return int(cell)


@dataclass(frozen=True)
class Decimals(NumberFormat):
    """Decimal numbers.

    Args:
        padded: whether zeros fill the decimals up, as in 0.50.
    """

    padded: bool = False
    type = "float"

    @classmethod
    def of(cls, cells: Collection[str]) -> "Decimals | None":
        if not all(map(is_plain_number, cells)):
            return None
        decimals = {len(cell.partition(".")[2]) for cell in cells if "e" not in cell.lower()}
        if len(decimals) == 0 or max(decimals) > MAX_DECIMALS:
            return cls(0.0)
        return cls(10.0 ** -max(decimals), len(decimals) == 1)

    def parse(self, cell: str) -> float:
        """The number, rounded as it is written."""
        number = float(cell)
        return number if self.spacing else float(f"{number:.{MAX_DECIMALS}g}")

    def text(self, number: float) -> str:
        if not self.spacing:
            return repr(float(f"{number:.{MAX_DECIMALS}g}"))
        decimals = round(-math.log10(self.spacing))
        return f"{number:.{decimals}f}" if self.padded else repr(round(number, decimals) + 0.0)

    def value(self, cell: str) -> float:
        return float(cell)


@dataclass(frozen=True)
class Moments(NumberFormat):
    """Points in time in ISO format.

    Args:
        style: of strftime; all cells have it.
    """

    style: str = ""
    pattern: ClassVar[str]
    styles: ClassVar[tuple[str, ...]]

    @classmethod
    def of(cls, cells: Collection[str]) -> "Moments | None":
        if not all(re.fullmatch(cls.pattern, cell) for cell in cells):
            return None
        ticks = [round(cls._parsed(cell) * 1e6) for cell in cells]
        spacing = (math.gcd(*ticks) or 10**6) / 1e6
        made = (cls(spacing, style) for style in cls.styles)
        fitting = (m for m in made if all(m.text(m.parse(cell)) == cell for cell in cells))
        return next(fitting, cls(spacing, cls.styles[-1]))

    @classmethod
    def _parsed(cls, cell: str) -> float:
        try:
            return cls(1.0).parse(cell)
        except ValueError:
            raise WrongCellError(cell, cls.type) from None


class Dates(Moments):
    """Days: 2024-02-29."""

    type = "date"
    pattern = r"\d{4}-\d\d-\d\d"
    styles = ("%Y-%m-%d",)

    def parse(self, cell: str) -> float:
        return float(date.fromisoformat(cell).toordinal())

    def text(self, number: float) -> str:
        return date.fromordinal(round(self.rounded(number))).isoformat()

    def value(self, cell: str) -> date:
        return date.fromisoformat(cell)


class DateTimes(Moments):
    """Days with a time: 2024-02-29 17:30:00."""

    type = "datetime"
    pattern = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
    styles = (
        "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
        "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f",
    )  # fmt: skip

    def parse(self, cell: str) -> float:
        return (datetime.fromisoformat(cell) - EPOCH).total_seconds()

    def text(self, number: float) -> str:
        moment = EPOCH + timedelta(seconds=self.rounded(number))
        return moment.strftime(self.style.replace("%Y", f"{moment.year:04}"))

    def value(self, cell: str) -> datetime:
        return datetime.fromisoformat(cell)


class Times(Moments):
    """Times of a day: 17:30 or 17:30:00."""

    type = "time"
    pattern = r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
    styles = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f")

    def parse(self, cell: str) -> float:
        at = time.fromisoformat(cell)
        return at.hour * 3600 + at.minute * 60 + at.second + at.microsecond / 1e6

    def text(self, number: float) -> str:
        return (EPOCH + timedelta(seconds=self.rounded(number))).strftime(self.style)

    def value(self, cell: str) -> time:
        return time.fromisoformat(cell)


FORMATS: tuple[type[NumberFormat], ...] = (Integers, Decimals, Dates, DateTimes, Times)


class WrongCellError(ValueError):
    """A cell that looks like a date or time and is none."""

    def __init__(self, cell: str, type_name: str) -> None:
        super().__init__(f"'{cell}' is no {type_name}")
        self.cell = cell


def find_format(cells: Collection[str]) -> NumberFormat | None:
    """The format of distinct cells, or None if they are not numbers; raises ``WrongCellError``."""
    return next((form for kind in FORMATS if (form := kind.of(cells)) is not None), None)


def is_integer(cell: str) -> bool:
    """Whether a cell is an integer in Python's own notation."""
    return bool(re.fullmatch("0|-?[1-9][0-9]{0,18}", cell)) and abs(int(cell)) < INT_LIMIT


def is_plain_number(cell: str) -> bool:
    """Whether a cell is an integer, a decimal or in exponent notation.

    Neither 01, which may be a code, nor 1_000 is a plain number.
    """
    digits = cell.removeprefix("-")
    if (digits[:1] == "0" and digits[1:2].isdecimal()) or "_" in cell:
        return False
    try:
        return is_integer(cell) or (abs(float(cell)) < LARGEST and not digits.isdecimal())
    except ValueError:
        return False
