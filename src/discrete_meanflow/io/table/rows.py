"""Rows of a table, stored by column: distinct cells and the number of the cell of each row."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy

from discrete_meanflow.errors import InputError

Item = TypeVar("Item")


class ListLike(Sequence[Item]):
    """A sequence that equals a list of the same items, and whose slices are lists."""

    @abstractmethod
    def item(self, number: int) -> Item: ...

    @overload
    def __getitem__(self, number: int) -> Item: ...

    @overload
    def __getitem__(self, number: slice) -> list[Item]: ...

    def __getitem__(self, number: int | slice) -> Item | list[Item]:
        if isinstance(number, slice):
            return [self.item(i) for i in range(*number.indices(len(self)))]
        return self.item(number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class CellIndex(dict[str, int]):
    """Numbers of cells: a new cell gets the next number."""

    def __missing__(self, cell: str) -> int:
        number = self[cell] = len(self)
        return number

    def codes(self, cells: Iterable[str]) -> numpy.ndarray:
        return numpy.fromiter(map(self.__getitem__, cells), numpy.int32)


@dataclass(frozen=True, eq=False)
class Cells(ListLike[str]):
    """The cells of a column. A cell of text is stored once.

    Args:
        levels: distinct cells, of which some may not occur.
        codes: number of the cell of each row.
    """

    levels: Sequence[str]
    codes: numpy.ndarray

    @classmethod
    def of(cls, cells: Iterable[str]) -> "Cells":
        if isinstance(cells, Cells):
            return cells
        index = CellIndex()
        codes = index.codes(cells)
        return cls(list(index), codes)

    @classmethod
    def merged(cls, texts: Iterable[str], codes: numpy.ndarray) -> "Cells":
        """The cells ``texts[codes]``, where texts may be equal."""
        distinct = cls.of(texts)
        return cls(distinct.levels, distinct.codes[codes])

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return map(self.levels.__getitem__, self.codes.tolist())

    def item(self, number: int) -> str:
        return self.levels[self.codes[number]]

    def counts(self) -> Counter[str]:
        """Frequency of the cells that occur."""
        counts = numpy.bincount(self.codes, minlength=len(self.levels)).tolist()
        return Counter({x: count for x, count in zip(self.levels, counts, strict=True) if count})

    def present(self) -> "Cells":
        """The same cells without the levels that do not occur."""
        occurs = numpy.bincount(self.codes, minlength=len(self.levels)) > 0
        levels = [self.levels[i] for i in numpy.flatnonzero(occurs).tolist()]
        return Cells(levels, (occurs.cumsum() - 1)[self.codes])

    def first_row(self, holds: Callable[[str], bool]) -> int | None:
        """The first row, counted from 1, for whose cell a condition holds."""
        rows = numpy.fromiter(map(holds, self.levels), bool)[self.codes]
        return int(rows.argmax()) + 1 if rows.any() else None


@dataclass(frozen=True, eq=False)
class Rows(ListLike[list[str]]):
    """Rows of text.

    Args:
        columns: of equal length.
    """

    columns: tuple[Cells, ...]

    @classmethod
    def of(cls, rows: Iterable[Sequence[str]]) -> "Rows":
        """Rows of equal length by column."""
        if isinstance(rows, Rows):
            return rows
        rows = list(rows)
        for number, row in enumerate(rows, 1):
            if len(row) != len(rows[0]):
                raise InputError(f"row {number} has {len(row)} cells, not {len(rows[0])}")
        return cls(tuple(map(Cells.of, zip(*rows, strict=True))))

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def __iter__(self) -> Iterator[list[str]]:
        return map(list, zip(*self.columns, strict=True))

    def item(self, number: int) -> list[str]:
        return [cells.item(number) for cells in self.columns]
