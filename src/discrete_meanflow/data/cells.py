"""Cells of a table: their types, which text is restored to, and bins of numbers."""

import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy

from discrete_meanflow.errors import InputError

INT_LIMIT = 2**63  # integers must be smaller in absolute value
# (upper bound, level) of each bin in increasing order. The first entry is not a bin: it holds the
# minimum of the column and the level of the first bin.
Bins = tuple[tuple[float, str], ...]
MAX_WORDS = 3  # levels of a numeric column that are not numbers, such as "?"


def _parse_int(cell: str) -> int:
    if abs(int(cell)) >= INT_LIMIT:
        raise OverflowError
    return int(cell)


PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda cell: {"True": True, "False": False}[cell],
    "int": _parse_int,
    "float": float,
    "str": str,
}


def as_number(cell: str) -> float | None:
    """The number that a cell contains, or None."""
    try:
        return float(cell)
    except ValueError:
        return None


def is_missing(cell: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return cell is None or bool(cell != cell)
    except TypeError:  # pandas' NA has no truth value
        return True


def as_text(cell: Any, type_name: str) -> str:
    """A value as text; equal floats, such as 1 and 1.0, give equal text."""
    return str(float(str(cell)) + 0.0) if type_name == "float" else str(cell)  # no -0.0


def type_of(column: Collection[Any]) -> str:
    """Type of a column of values; ``str`` if the values have several types."""
    types = {_type_of_value(cell) for cell in column}
    if types == {"int", "float"}:
        return "float"
    return types.pop() if len(types) == 1 else "str"


def type_of_text(column: Collection[str]) -> str:
    """Type of a column of text: ``int`` or ``float`` if this conversion loses nothing."""
    if all(map(is_integer, column)):
        return "int"
    return "float" if all(map(_is_plain_number, column)) else "str"


def is_integer(cell: str) -> bool:
    """Whether a cell is an integer in Python's own notation."""
    return bool(re.fullmatch("0|-?[1-9][0-9]{0,18}", cell)) and abs(int(cell)) < INT_LIMIT


def _is_plain_number(cell: str) -> bool:
    """Whether a cell is an integer, a decimal or in exponent notation.

    Neither 01, which may be a code, nor 1_000 is a plain number.
    """
    digits = cell.removeprefix("-")
    if (digits[:1] == "0" and digits[1:2].isdecimal()) or "_" in cell:
        return False
    try:
        return is_integer(cell) or (math.isfinite(float(cell)) and not digits.isdecimal())
    except ValueError:
        return False


def _type_of_value(cell: Any) -> str:
    if isinstance(cell, bool | numpy.bool_):
        return "bool"
    if isinstance(cell, int | numpy.integer) and abs(int(cell)) < INT_LIMIT:
        return "int"
    return "float" if isinstance(cell, float | numpy.floating) else "str"


def bin_columns(
    rows: list[list[str]], bins: int | None
) -> tuple[list[list[str]], tuple[Bins, ...]]:
    """Cut each numeric column of more than ``bins`` values into at most ``bins`` quantile bins.

    A number becomes the median of its bin. A few words in a numeric column, such as ``?`` for a
    missing value, stay as they are, and so do all other columns. None leaves all columns.

    Returns:
        The new rows, and the bins of each column (empty if the column was not cut).
    """
    if bins is None:
        return rows, ()
    if bins < 2:
        raise InputError(f"--bins: at least 2, got {bins}")
    columns, cuts = zip(*(_bin(column, bins) for column in zip(*rows, strict=True)), strict=True)
    return [list(row) for row in zip(*columns, strict=True)], cuts


def _bin(column: Sequence[str], bins: int) -> tuple[Sequence[str], Bins]:
    numbers = numeric_levels(set(column))
    if len(numbers) <= bins:
        return column, ()
    level_of, cuts = _quantile_bins([cell for cell in column if cell in numbers], bins)
    return [level_of.get(cell, cell) for cell in column], cuts


def numeric_levels(levels: Collection[str]) -> set[str]:
    """The levels that are numbers, if at most ``MAX_WORDS`` are not; else the empty set."""
    values = {level: as_number(level) for level in levels}
    numbers = {level for level, x in values.items() if x is not None and math.isfinite(x)}
    return numbers if len(levels) - len(numbers) <= MAX_WORDS else set()


def _quantile_bins(column: Sequence[str], bins: int) -> tuple[dict[str, str], Bins]:
    """The level of each number, and the bins."""
    numbers = numpy.array([float(cell) for cell in column])
    _, value_index, counts = numpy.unique(numbers, return_inverse=True, return_counts=True)
    # A value belongs to the bin of its mid-rank, so one frequent value does not fill several bins.
    midrank = (counts.cumsum() - counts / 2) / len(numbers)
    bin_index = numpy.minimum((bins * midrank).astype(int), bins - 1)[value_index]
    # The level is the median cell as written, with all its digits.
    order = numpy.argsort(numbers, kind="stable")
    members = {int(i): order[bin_index[order] == i] for i in numpy.unique(bin_index)}
    levels = {i: column[cells[len(cells) // 2]] for i, cells in members.items()}
    cuts = tuple((float(numbers[cells[-1]]), levels[i]) for i, cells in members.items())
    level_of = {cell: levels[int(i)] for cell, i in zip(column, bin_index, strict=True)}
    return level_of, ((float(numbers.min()), cuts[0][1]), *cuts)
