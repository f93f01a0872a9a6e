"""Order of the cells of a column: numbers, dates and times as numbers that compare alike."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.number_format import EPOCH, Times

# In the order in which a pattern must try them.
SIGNS: dict[str, Callable[[Any, Any], numpy.ndarray]] = {
    "<=": numpy.less_equal,
    ">=": numpy.greater_equal,
    "<": numpy.less,
    ">": numpy.greater,
}


def _moment(cell: str) -> float:
    return (datetime.fromisoformat(cell) - EPOCH).total_seconds()


# What columns of a type contain, and the number of a cell: dates compare with dates and times.
_ORDERS: dict[str, tuple[str, Callable[[str], float]]] = {
    "int": ("numbers", float),
    "float": ("numbers", float),
    "date": ("dates", _moment),
    "datetime": ("dates", _moment),
    "time": ("times", Times(1.0).parse),
}


def is_ordered(column: Column) -> bool:
    """Whether a column contains numbers, dates or times."""
    return column.number_type in _ORDERS


def require_order(column: Column) -> str:
    """Whether a column contains numbers, dates or times. Raises InputError if it has words."""
    if not is_ordered(column):
        raise InputError(f"column {column.name} has words, which have no order")
    return _ORDERS[column.number_type][0]


def as_numbers(column: Column, cells: Sequence[str]) -> numpy.ndarray:
    """The number of each cell, NaN for words and missing cells."""
    _, parse = _ORDERS[column.number_type]
    number = {}
    for cell in set(cells):
        try:
            number[cell] = parse(cell)
        except (ValueError, TypeError):  # the second: a time zone
            number[cell] = numpy.nan
    return numpy.array([number[cell] for cell in cells], dtype=float)
