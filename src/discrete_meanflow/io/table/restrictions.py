"""Conditions on the rows of a table: ranges and sets of cells, orders and combinations."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.requirements import Restriction
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.number_column import NumberColumn
from discrete_meanflow.io.table.order import SIGNS, as_numbers, require_order

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class CellRestriction(Restriction):
    """A condition on the cells of one column.

    Args:
        column: which they belong to.
    """

    column: Column

    @abstractmethod
    def allows(self, cells: Sequence[str]) -> numpy.ndarray:
        """Whether it holds for each cell."""

    def holds(self, records: Rows) -> numpy.ndarray:
        return self.allows([row[self.columns[0]] for row in records])

    @property
    def hint(self) -> str:
        return f"column {self.column.name} has {self.column.extent}"


@dataclass(frozen=True)
class Range(CellRestriction):
    """``age>=60``: false for words and missing cells.

    Args:
        sign: a key of ``SIGNS``.
        bound: a number, date or time in the text of a cell.
    """

    sign: str
    bound: str

    def __post_init__(self) -> None:
        kind = require_order(self.column)
        if numpy.isnan(self.number):
            raise InputError(f"column {self.column.name} has {kind}, '{self.bound:.40}' is none")

    @property
    def number(self) -> float:
        """The bound as a number."""
        return float(as_numbers(self.column, [self.bound])[0])

    def contains(self, numbers: numpy.ndarray) -> numpy.ndarray:
        """Whether each number lies in the range."""
        return SIGNS[self.sign](numbers, self.number)

    def allows(self, cells: Sequence[str]) -> numpy.ndarray:
        return self.contains(as_numbers(self.column, cells))


@dataclass(frozen=True)
class OneOf(CellRestriction):
    """``colour=red|blue``.

    Args:
        cells: as the column writes them.
    """

    cells: frozenset[str]

    def allows(self, cells: Sequence[str]) -> numpy.ndarray:
        return numpy.array([cell in self.cells for cell in cells], dtype=bool)


@dataclass(frozen=True)
class Order(Restriction):
    """``start<=end``: true if a cell is missing or a word.

    Args:
        sign: a key of ``SIGNS``.
        sides: the two columns.
    """

    sign: str
    sides: tuple[Column, Column]

    def __post_init__(self) -> None:
        kinds = [require_order(column) for column in self.sides]
        if kinds[0] != kinds[1]:
            left, right = (
                f"column {c.name} has {k}" for c, k in zip(self.sides, kinds, strict=True)
            )
            raise InputError(f"{left} and {right}; only like is compared with like")

    def holds(self, records: Rows) -> numpy.ndarray:
        left, right = (
            as_numbers(column, [row[i] for row in records])
            for i, column in zip(self.columns, self.sides, strict=True)
        )
        missing = numpy.isnan(left) | numpy.isnan(right)
        return missing | SIGNS[self.sign](left, right)

    @property
    def hint(self) -> str:
        return " and ".join(f"column {column.name} has {column.extent}" for column in self.sides)


@dataclass(frozen=True)
class Combination(Restriction):
    """``together(city,state)``: the cells of these columns occur together in the training data.

    Args:
        known: the combinations.
    """

    known: frozenset[tuple[str, ...]]

    def holds(self, records: Rows) -> numpy.ndarray:
        cells = (tuple(row[i] for i in self.columns) for row in records)
        return numpy.array([combination in self.known for combination in cells], dtype=bool)

    @property
    def hint(self) -> str:
        return f"the training data have {len(self.known):,} combinations"


def check_consistent(restrictions: Sequence[Restriction]) -> None:
    """Raise if no cell of a column satisfies all its ranges and sets."""
    by_column: dict[int, list[CellRestriction]] = {}
    for restriction in restrictions:
        if isinstance(restriction, CellRestriction):
            by_column.setdefault(restriction.columns[0], []).append(restriction)
    for group in by_column.values():
        if not _is_possible(group):
            texts = ",".join(dict.fromkeys(restriction.text for restriction in group))
            raise InputError(f"{texts}: no value satisfies this; {group[0].hint}")


def _is_possible(group: Sequence[CellRestriction]) -> bool:
    """Whether some cell of a column satisfies all of its restrictions."""
    column = group[0].column
    sets = [restriction.cells for restriction in group if isinstance(restriction, OneOf)]
    if sets or not isinstance(column, NumberColumn):
        cells = sorted(sets[0]) if sets else column.leaf_names()
        return bool(numpy.all([restriction.allows(cells) for restriction in group], 0).any())
    ranges = [restriction for restriction in group if isinstance(restriction, Range)]
    ends = as_numbers(column, column.ends)
    bounds = numpy.clip([*ends, *(restriction.number for restriction in ranges)], *ends)
    numbers = numpy.sort(bounds)
    numbers = numpy.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2])
    return bool(numpy.all([restriction.contains(numbers) for restriction in ranges], 0).any())
