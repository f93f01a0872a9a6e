"""Data frames as rows of text, and back with the same types."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy

from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.io.table.cells import (
    MISSING,
    PARSERS,
    as_text,
    check_names,
    kept_columns,
    type_of,
)
from discrete_meanflow.io.table.rows import Cells, Rows

FIRST, LAST = numpy.array(["0001-01-01", "9999-12-31T23:59:59"], "datetime64[s]")


@dataclass(frozen=True)
class Dtype:
    """Type of a column of a frame.

    Args:
        name: of the type of the values, as the library writes it.
        value: type of the values in Python, see ``PARSERS``.
        categories: all categories as text, in order; None if the column is not categorical.
        ordered: whether the order of the categories has a meaning.
    """

    name: str
    value: str
    categories: tuple[str, ...] | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        if self.value not in PARSERS:
            raise InputError(f"table: unknown type '{self.value}'")

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Dtype":
        categories = content["categories"]
        return cls(
            str(content["name"]),
            str(content["value"]),
            None if categories is None else tuple(map(str, categories)),
            bool(content["ordered"]),
        )

    @property
    def cell_type(self) -> str:
        """Type of the cells: numbers, dates and words have different columns."""
        return "str" if self.categories is not None else self.value

    def values(self, texts: Sequence[str]) -> list[Any]:
        """The values of cells, None for missing ones."""
        parse = PARSERS[self.value]
        return [None if text == MISSING else parse(text) for text in texts]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {MISSING: -1} | {text: i for i, text in enumerate(self.categories or ())}

    def category_codes(self, cells: Cells) -> numpy.ndarray:
        """The number of the category of each row, -1 for missing ones."""
        return numpy.array([self._places[level] for level in cells.levels])[cells.codes]


class FrameLibrary(ABC):
    """Reads and makes the frames of a library."""

    name: ClassVar[str]

    @abstractmethod
    def columns(self, frame: Any) -> list[tuple[str, Any]]:
        """The names and columns of a frame. Raises InputError if it is no table."""

    @abstractmethod
    def type_name(self, column: Any) -> str:
        """Type of the values as text. Raises InputError if a table cannot have it."""

    @abstractmethod
    def is_ordered(self, column: Any) -> bool | None:
        """Whether the categories of a column are ordered; None if it is not categorical."""

    @abstractmethod
    def distinct(self, column: Any) -> tuple[list[Any], numpy.ndarray]:
        """Distinct values, or all categories; and the number of each row's, -1 if missing."""

    @abstractmethod
    def column(self, cells: Cells, dtype: Dtype) -> Any:
        """A column of cells."""

    @abstractmethod
    def frame(self, columns: Mapping[str, Any]) -> Any:
        """A frame of columns."""

    def read(
        self, frame: Any, drop: Sequence[str] = ()
    ) -> tuple[list[str], Rows, tuple[Dtype, ...]]:
        """The names of the columns that are not dropped, their cells as text, and their types."""
        columns = self.columns(frame)
        if not columns:
            raise InputError("the table has no columns")
        names = [name for name, _ in columns]
        check_names(names)
        kept = kept_columns(names, drop)
        names, cells, dtypes = [names[i] for i in kept], [], []
        for name, column in (columns[i] for i in kept):
            with error_context(f"column {name}"):
                type_name, ordered = self.type_name(column), self.is_ordered(column)
                values, codes = self.distinct(column)
                kind = type_of(values)
            texts = [as_text(value, kind) for value in values]
            categories = None if ordered is None else tuple(texts)
            cells.append(Cells.merged([*texts, MISSING], codes))  # -1 is the last
            dtypes.append(Dtype(type_name, kind, categories, bool(ordered)))
        return names, Rows(tuple(cells)), tuple(dtypes)

    def made(self, names: Sequence[str], rows: Rows, dtypes: Sequence[Dtype]) -> Any:
        """The frame of rows."""
        columns = {}
        for name, cells, dtype in zip(names, rows.columns, dtypes, strict=True):
            try:
                columns[name] = self.column(cells, dtype)
            except (ValueError, KeyError, TypeError, ArithmeticError) as error:
                raise InputError(f"column {name}: cannot be {dtype.name} ({error})") from None
        return self.frame(columns)


def unsupported(type_name: object) -> InputError:
    """The error for a column of values that a table cannot have."""
    return InputError(f"has type {type_name}; convert it to numbers, dates or strings, or drop it")


def moments(array: numpy.ndarray, codes: numpy.ndarray) -> list[Any]:
    """Dates or datetimes in Python from ``array``, distinct values of NumPy's ``datetime64``."""
    if array.dtype != "datetime64[ns]":  # which ends in 2262
        seconds = array.astype("datetime64[s]")
        _check(
            (seconds < FIRST) | (seconds > LAST),
            codes,
            "has a year beyond 9999; correct it, or drop the column",
        )
    exact = array if array.dtype == "datetime64[D]" else array.astype("datetime64[us]")
    _check(
        exact.astype(array.dtype) != array,
        codes,
        "has nanoseconds; round the column to microseconds",
    )
    return list(exact.tolist())


def _check(wrong: numpy.ndarray, codes: numpy.ndarray, message: str) -> None:
    """Raise for the first row whose value is wrong."""
    if wrong.any():
        row = int(numpy.isin(codes, numpy.flatnonzero(wrong)).argmax()) + 1
        raise InputError(f"row {row} {message}")
