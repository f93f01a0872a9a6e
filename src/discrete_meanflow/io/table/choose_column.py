"""Choose the columns of a table from their cells."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.cells import INT_LIMIT, MISSING, as_number, text_problem
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.level_column import LevelColumn
from discrete_meanflow.io.table.number_column import NumberColumn, is_number_column
from discrete_meanflow.io.table.number_format import (
    LARGEST,
    NumberFormat,
    WrongCellError,
    find_format,
    is_plain_number,
)
from discrete_meanflow.io.table.rows import Cells, Rows
from discrete_meanflow.printable import shown

ColumnKind = Literal["levels", "number"]
MAX_LEVELS = 200_000  # of a column that has no numbers
MAX_WORDS = 3  # cells of a column of numbers that are not numbers, such as "?"


def choose_columns(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    types: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> tuple[Column, ...]:
    """The columns of rows of text.

    Args:
        types: of the values, if known; else they follow from the text.
        kinds: ``levels`` or ``number``, for columns that the user decides.
    """
    kinds = {} if kinds is None else kinds
    if not isinstance(kinds, Mapping):
        raise InputError(f"columns must be a dict such as {{'age': 'levels'}}, got {shown(kinds)}")
    for name, kind in kinds.items():
        if name not in names:
            raise InputError(f"--columns: no column '{name}'; the columns are {', '.join(names)}")
        if not isinstance(kind, str) or kind not in get_args(ColumnKind):
            raise InputError(f"--columns {name}={kind}: choose {' or '.join(get_args(ColumnKind))}")
    columns = zip(names, Rows.of(rows).columns, types or ("",) * len(names), strict=True)
    return tuple(_choose(name, cells, type_, kinds.get(name)) for name, cells, type_ in columns)


def _choose(name: str, cells: Cells, type_name: str, kind: str | None) -> Column:
    counts = cells.counts()
    present = set(counts) - {MISSING}
    if not present:
        raise InputError(f"column {name} is empty; --drop '{name}' leaves it out")
    _check_text(name, cells)
    if type_name != "str":
        _check_size(name, cells)
    words = {MISSING} & set(counts)
    try:
        form = None if type_name in ("bool", "str") else _format(present, kind)
    except WrongCellError as error:
        row = cells.first_row(error.cell.__eq__)
        raise InputError(
            f"column {name}, row {row}: {error}; correct it, or pass --columns {name}=levels"
        ) from None
    if form is None and not type_name:
        form, words = _with_words(present, words)
    if form is None and kind == "number":
        row = cells.first_row(lambda cell: cell in present and not is_plain_number(cell)) or 1
        raise InputError(f"column {name}, row {row}: '{cells[row - 1]:.40}' is no number")
    if form is not None and (kind or _default(counts, words)) == "number":
        return NumberColumn.of(name, counts, form, sorted(words))
    if form is not None and words <= {MISSING}:
        type_name = form.type
    if len(counts) > MAX_LEVELS:
        raise InputError(
            f"column {name} has {len(counts):,} levels, the limit is {MAX_LEVELS:,}; --drop "
            f"'{name}' leaves it out"
        )
    increasing = form is not None and words <= {MISSING} and not kind
    return LevelColumn.of(name, counts, type_name or "str", increasing)


def _format(present: set[str], kind: str | None) -> NumberFormat | None:
    """The format of cells; a wrong date is no error among levels."""
    try:
        return find_format(present)
    except WrongCellError:
        if kind == "levels":
            return None
        raise


def _default(counts: Counter[str], words: set[str]) -> ColumnKind:
    return "number" if is_number_column(len(counts) - len(words)) else "levels"


def _with_words(present: set[str], words: set[str]) -> tuple[NumberFormat | None, set[str]]:
    """The format of cells of which a few are words, and all cells that are not numbers."""
    strange = {cell for cell in present if not is_plain_number(cell)}
    if len(strange) > MAX_WORDS or not is_number_column(len(present) - len(strange)):
        return None, words
    return find_format(present - strange), words | strange


def _check_text(name: str, cells: Cells) -> None:
    """Raise if a cell cannot be written to a file."""
    row = cells.first_row(lambda cell: text_problem(cell) is not None)
    if row is not None:
        raise InputError(f"column {name}, row {row}: {text_problem(cells[row - 1])}")


def _check_size(name: str, cells: Cells) -> None:
    """Raise if a number is infinite or too large to be computed with."""
    row = cells.first_row(_is_too_large)
    if row is not None:
        raise InputError(
            f"column {name}, row {row}: {cells[row - 1]:.40} is too large; --drop '{name}' leaves "
            "the column out"
        )


def _is_too_large(cell: str) -> bool:
    number = as_number(cell)
    if number is None or number != number:
        return False
    return abs(number) >= LARGEST or (cell.lstrip("-").isdecimal() and abs(number) >= INT_LIMIT)
