"""Cells of a table as text, and the types of their values."""

from collections.abc import Callable, Collection
from datetime import date, datetime, time
from typing import Any

import numpy

INT_LIMIT = 2**63  # integers must be smaller in absolute value
MISSING = ""  # a missing cell


def _parse_int(cell: str) -> int:
    if abs(int(cell)) >= INT_LIMIT:
        raise OverflowError
    return int(cell)


PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda cell: {"True": True, "False": False}[cell],
    "int": _parse_int,
    "float": float,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
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
    if is_missing(cell):
        return MISSING
    return str(float(str(cell)) + 0.0) if type_name == "float" else str(cell)  # no -0.0


def type_of(column: Collection[Any]) -> str:
    """Type of a column of values, missing ones apart; ``str`` if they have several types."""
    types = {_type_of_value(cell) for cell in column if not is_missing(cell)}
    if types == {"int", "float"}:
        return "float"
    return types.pop() if len(types) == 1 else "str"


def _type_of_value(cell: Any) -> str:
    if isinstance(cell, bool | numpy.bool_):
        return "bool"
    if isinstance(cell, int | numpy.integer):
        return "int"
    if isinstance(cell, float | numpy.floating):
        return "float"
    for kind, name in ((datetime, "datetime"), (date, "date"), (time, "time")):
        if isinstance(cell, kind):
            return name
    return "str"
