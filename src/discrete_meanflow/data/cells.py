"""Types of table cells. Cells are stored as text and restored to their types."""

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy

INT_LIMIT = 2**63  # integers must be smaller in absolute value


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
    return (
        cell.removeprefix("-").isdecimal()
        and len(cell) < 20
        and str(int(cell)) == cell
        and abs(int(cell)) < INT_LIMIT
    )


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
