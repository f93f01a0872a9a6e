"""Cells of a table as text, and the types of their values."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy

from discrete_meanflow.errors import InputError

INT_LIMIT = 2**63  # integers must be smaller in absolute value
MAX_CELL = 131_072  # characters
MISSING = ""  # a missing cell


def _parse_int(cell: str) -> int:
    number = int(cell) if cell.lstrip("-").isdecimal() else float(cell)
    if number != int(number):
        raise ValueError(cell)
    if abs(number) >= INT_LIMIT:
        raise OverflowError
    return int(number)


PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda cell: {"True": True, "False": False}[cell],
    "int": _parse_int,
    "float": float,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
    "str": str,
}

# A datetime is also a date.
TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    ((bool, numpy.bool_), "bool"), ((int, numpy.integer), "int"),
    ((float, numpy.floating), "float"), (Decimal, "decimal"), (datetime, "datetime"),
    (date, "date"), (time, "time"), (str, "str"),
)  # fmt: skip


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
    except (TypeError, ValueError):  # NA has no truth value; an array has several
        return not hasattr(cell, "__len__")


def as_text(cell: Any, type_name: str) -> str:
    """A value as text; equal floats, such as 1 and 1.0, give equal text."""
    if is_missing(cell):
        return MISSING
    if type_name == "float":
        return str(float(str(cell)) + 0.0)  # no -0.0
    return f"{cell:f}" if type_name == "decimal" else str(cell)


def text_problem(text: str) -> str | None:
    """What keeps a cell or a name from being written to a file; None if nothing does."""
    if len(text) > MAX_CELL:
        return f"has {len(text):,} characters, the limit is {MAX_CELL:,}; shorten it"
    if "\0" in text:
        return "contains a NUL character; remove it"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "contains a lone surrogate, which is half a character; remove it"
    return None


def check_names(names: Sequence[str]) -> None:
    """Raise unless the names of columns are distinct and can be written."""
    for number, name in enumerate(names, 1):
        if not name:
            raise InputError(f"column {number} has no name; add one to the header")
        if problem := text_problem(name):
            raise InputError(f"the name of column {number} {problem}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two columns are named '{twice}'; rename one")


def kept_columns(names: Sequence[str], drop: Sequence[str]) -> list[int]:
    """The numbers of the columns that are not dropped."""
    for name in drop:
        if name not in names:
            raise InputError(f"drop: no column '{name}'; the columns are {', '.join(names)}")
    kept = [i for i, name in enumerate(names) if name not in drop]
    if not kept:
        raise InputError("drop: no column is left; keep at least one")
    return kept


def type_of(column: Iterable[Any]) -> str:
    """Type of a column of values, missing ones apart. Raises InputError if they have several."""
    rows: dict[str, int] = {}  # the first of each type
    for row, cell in enumerate(column, 1):
        if not is_missing(cell):
            rows.setdefault(type_of_value(cell, row), row)
    if {"int", "float"} <= set(rows):
        del rows["int"]
    if len(rows) > 1:
        (first, _), (other, row) = list(rows.items())[:2]
        raise InputError(
            f"row {row} is of type {other}, rows above are of type {first}; convert the column to "
            "one type, such as strings"
        )
    return next(iter(rows), "str")


def type_of_value(cell: Any, row: int) -> str:
    """The type of a value that is not missing. Raises InputError if a table cannot have it."""
    for kind, name in TYPES:
        if isinstance(cell, kind):
            return name
    raise InputError(
        f"row {row} is of type {type(cell).__name__}; convert it to a number, date or string"
    )
