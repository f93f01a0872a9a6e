"""Infilling patterns of tables: known cells, ranges and sets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.infill import split_assignments, text_of
from discrete_meanflow.io.requirements import Restriction
from discrete_meanflow.io.table.cells import MISSING, is_missing
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.order import SIGNS, is_ordered
from discrete_meanflow.io.table.restrictions import OneOf, Range
from discrete_meanflow.printable import shown

RANGE = re.compile(rf"({'|'.join(SIGNS)})(.*)", re.DOTALL)


@dataclass(frozen=True)
class TablePattern:
    """What ``colour=red,size=S|M,age>=60`` says.

    Args:
        cells: number of the column and known cell, of each column that has one.
        restrictions: ranges and sets.
    """

    cells: tuple[tuple[int, str], ...]
    restrictions: tuple[Restriction, ...]

    @classmethod
    def of(cls, columns: Sequence[Column], pattern: Any) -> "TablePattern":
        """Parse ``colour=red,age>=60`` or ``{"colour": "red", "age": ">=60"}``.

        A cell that the column has is meant as such, even if it begins with ``>`` or contains ``|``.
        In a dict, None is unknown and a list is a set.
        """
        if not isinstance(pattern, Mapping | str):
            raise InputError(
                "infill: must name columns, as 'colour=red' or {'colour': 'red'}, "
                f"got {shown(pattern)}"
            )
        numbers = {column.name: i for i, column in enumerate(columns)}
        cells: list[tuple[int, str]] = []
        restrictions: list[Restriction] = []
        for name, alternatives, literal in _assignments(pattern, numbers):
            name = name if name in numbers else name.strip()
            if name not in numbers:
                known = ", ".join(f"'{column}'" for column in numbers)
                raise InputError(
                    f"infill: no column '{name}' (write COLUMN=VALUE); the columns are {known}"
                )
            column = columns[numbers[name]]
            try:
                parsed = _parse(column, numbers[name], alternatives, literal)
            except InputError as error:
                raise InputError(f"infill: {error}") from None
            if isinstance(parsed, str):
                cells.append((numbers[name], parsed))
            else:
                restrictions += parsed
        return cls(tuple(cells), tuple(restrictions))


def _assignments(
    pattern: Mapping[Any, Any] | str, names: Mapping[str, int]
) -> Iterator[tuple[str, list[str], bool]]:
    """Columns and the alternatives of each; True if these are cells, whatever they contain."""
    if isinstance(pattern, str):
        for name, alternatives in split_assignments(pattern):
            yield name, alternatives, False
        return
    for name, value in pattern.items():
        if isinstance(value, list | tuple | set | frozenset):
            yield str(name), [MISSING if is_missing(x) else text_of(x) for x in value], True
        elif value is not None or str(name) not in names:
            yield str(name), text_of(value).split("|"), False


def _parse(
    column: Column, number: int, alternatives: list[str], literal: bool
) -> str | list[Restriction]:
    """The cell that alternatives fix, or what they ask of it."""
    if not alternatives:
        raise InputError(f"column {column.name}: a set needs at least one value")
    if len(alternatives) == 1 or not literal:
        text = "|".join(alternatives)
        try:
            _ = column.leaf_of(text)  # raises InputError
            return text
        except InputError:
            if not literal and is_ordered(column) and RANGE.match(text):
                return list(_ranges(column, number, text))
            if len(alternatives) == 1:
                raise
    cells = frozenset(map(column.written, alternatives))
    return [OneOf(f"{column.name}={'|'.join(alternatives)}", (number,), column, cells)]


def _ranges(column: Column, number: int, text: str) -> Iterator[Restriction]:
    """The ranges of ``>=60,<70``."""
    for part in text.split(","):
        found = RANGE.fullmatch(part.strip())
        if found is None:
            raise InputError(f"column {column.name}: '{part:.40}' is no range, such as >=60")
        sign, bound = found[1], found[2].strip()
        yield Range(f"{column.name}{sign}{bound}", (number,), column, sign, bound)
