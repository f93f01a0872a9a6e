"""Choose the columns of a table from their cells."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.cells import INT_LIMIT, MISSING, as_number
from discrete_meanflow.io.table.column import Column, LevelColumn
from discrete_meanflow.io.table.number_column import NumberColumn, is_number_column
from discrete_meanflow.io.table.number_format import (
    LARGEST,
    NumberFormat,
    WrongCellError,
    find_format,
    is_plain_number,
)

ColumnKind = Literal["levels", "number"]
MAX_LEVELS = 200_000  # of a column that has no numbers
MAX_WORDS = 3  # cells of a column of numbers that are not numbers, such as "?"


def choose_columns(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    types: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> tuple[Column, ...]:
    """The columns of rows of text.

    Args:
        types: of the values, if known; else they follow from the text.
        kinds: ``levels`` or ``number``, for columns that the user decides.
    """
    kinds = kinds or {}
    for name, kind in kinds.items():
        if name not in names:
            raise InputError(f"--columns: no column '{name}'; the columns are {', '.join(names)}")
        if kind not in get_args(ColumnKind):
            raise InputError(f"--columns {name}={kind}: choose {' or '.join(get_args(ColumnKind))}")
    columns = zip(names, zip(*rows, strict=True), types or ("",) * len(names), strict=True)
    return tuple(_choose(name, cells, type_, kinds.get(name)) for name, cells, type_ in columns)


def _choose(name: str, cells: Sequence[str], type_name: str, kind: str | None) -> Column:
    counts = Counter(cells)
    present = set(counts) - {MISSING}
    if not present:
        raise InputError(f"column {name} is empty; --drop '{name}' leaves it out")
    if type_name != "str":
        _check_size(name, cells, present)
    words = {MISSING} & set(counts)
    try:
        form = None if type_name in ("bool", "str") else find_format(present)
    except WrongCellError as error:
        raise InputError(f"column {name}, row {cells.index(error.cell) + 1}: {error}") from None
    if form is None and not type_name:
        form, words = _with_words(present, words)
    if form is None and kind == "number":
        strange = next(i for i, c in enumerate(cells, 1) if c and not is_plain_number(c))
        raise InputError(f"column {name}, row {strange}: '{cells[strange - 1]:.40}' is no number")
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


def _default(counts: Counter[str], words: set[str]) -> ColumnKind:
    return "number" if is_number_column(len(counts) - len(words)) else "levels"


def _with_words(present: set[str], words: set[str]) -> tuple[NumberFormat | None, set[str]]:
    """The format of cells of which a few are words, and all cells that are not numbers."""
    strange = {cell for cell in present if not is_plain_number(cell)}
    if len(strange) > MAX_WORDS or not is_number_column(len(present) - len(strange)):
        return None, words
    return find_format(present - strange), words | strange


def _check_size(name: str, cells: Sequence[str], present: set[str]) -> None:
    """Raise if a number is infinite or too large to be computed with."""
    for cell in present:
        number = as_number(cell)
        if number is None or number != number:
            continue
        if abs(number) >= LARGEST or (cell.lstrip("-").isdecimal() and abs(number) >= INT_LIMIT):
            row = list(cells).index(cell) + 1
            raise InputError(
                f"column {name}, row {row}: {cell:.40} is too large; --drop '{name}' leaves the "
                "column out"
            )
