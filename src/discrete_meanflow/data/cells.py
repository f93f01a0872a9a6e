"""What the cells of a column are, so that they can be handed back as they were given."""

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy

LARGEST = 2**63  # that a whole number may be below


def _whole(cell: str) -> int:
    if abs(int(cell)) >= LARGEST:
        raise OverflowError
    return int(cell)


MADE_FROM: dict[str, Callable[[str], Any]] = {
    "bool": lambda cell: {"True": True, "False": False}[cell],
    "int": _whole,
    "float": float,
    "str": str,
}


def as_number(cell: str) -> float | None:
    """The number that a text is, if it is one."""
    try:
        return float(cell)
    except ValueError:
        return None


def is_missing(cell: Any) -> bool:
    """None, or what is not itself: NaN, NaT; of pandas' NA not even that can be told."""
    try:
        return cell is None or bool(cell != cell)
    except TypeError:
        return True


def as_text(cell: Any, sort: str) -> str:
    """Of a value in a column of that sort: equal numbers, such as 1 and 1.0 among floats, alike."""
    return str(float(str(cell)) + 0.0) if sort == "float" else str(cell)  # no -0.0


def type_of(column: Collection[Any]) -> str:
    """Of values; where they are of several sorts, and none a number's, their text stands."""
    kinds = {_kind(cell) for cell in column}
    if kinds == {"int", "float"}:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "str"


def type_told_by(column: Collection[str]) -> str:
    """Of text: numbers, if they are written as Python would write whole ones, or with a point."""
    if all(map(is_whole, column)):
        return "int"
    return "float" if all(map(_is_plain_number, column)) else "str"


def is_whole(cell: str) -> bool:
    """Whether a cell is a whole number, written as Python would."""
    return (
        cell.removeprefix("-").isdecimal()
        and len(cell) < 20
        and str(int(cell)) == cell
        and abs(int(cell)) < LARGEST
    )


def _is_plain_number(cell: str) -> bool:
    """Whole, or with a point or an exponent; 01 is none, it may be a code, nor is 1_000."""
    digits = cell.removeprefix("-")
    if (digits[:1] == "0" and digits[1:2].isdecimal()) or "_" in cell:
        return False
    try:
        return is_whole(cell) or (math.isfinite(float(cell)) and not digits.isdecimal())
    except ValueError:
        return False


def _kind(cell: Any) -> str:
    if isinstance(cell, bool | numpy.bool_):
        return "bool"
    if isinstance(cell, int | numpy.integer) and abs(int(cell)) < LARGEST:
        return "int"
    return "float" if isinstance(cell, float | numpy.floating) else "str"
