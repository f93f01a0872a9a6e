"""Read tables: CSV, TSV and other delimited text, Parquet."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.io.content import open_decompressed, read_text
from discrete_meanflow.io.table.cells import MISSING, as_number, as_text, type_of

DELIMITERS = (";", "\t", ",")  # the comma last: numbers may contain it
SPACE = " "  # a delimiter only if every cell is a number
EMPTY = ("nan", "NaN", "NAN")  # besides cells without text


class Rows(NamedTuple):
    """A table: column names, rows of cells as text, and the format of the file."""

    names: list[str]
    rows: list[list[str]]
    delimiter: str = ","
    header: bool = True  # whether the file has a header row
    types: tuple[str, ...] = ()  # of the columns, if the file specifies them


def read_table(path: Path, header: bool | None = None, drop: Sequence[str] = ()) -> Rows:
    """Read delimited text. Empty cells and NaN are missing.

    Args:
        header: whether the first row names the columns; None guesses. Without a header, columns
            are called c1, c2, ...
        drop: columns to leave out.
    """
    content = read_text(path)
    delimiter = _find_delimiter(path, content)
    rows, line_numbers = _parse_rows(path, content, delimiter)
    header = _has_header(rows) if header is None else header
    names = rows[0] if header else [f"c{i}" for i in range(1, len(rows[0]) + 1)]
    with error_context(f"{path}, line {line_numbers[0]}"):
        if "" in names:
            raise InputError(f"column {names.index('') + 1} has no name; add one to the header")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"two columns are named '{twice}'; rename one")
    kept = _kept(names, drop)
    rows = [[MISSING if row[i] in EMPTY else row[i] for i in kept] for row in rows[header:]]
    return Rows([names[i] for i in kept], rows, delimiter, header)


def _parse_rows(path: Path, content: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """The rows that are not blank, and the line number of each."""
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    line_numbers: list[int] = []
    last = 0  # last line of the previous row
    try:
        for row in reader:
            line, last = last + 1, reader.line_num
            if not any(cell.strip() for cell in row):
                continue
            rows.append([cell.strip() for cell in row])
            line_numbers.append(line)
            if len(row) != len(rows[0]):
                hint = f"; it extends to line {last}: is a quote left open?" * (last > line)
                raise InputError(
                    f"{path}: line {line} has {len(row)} cells, the first {len(rows[0])}{hint}"
                )
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from None
    if not rows:
        raise InputError(f"{path} is empty")
    return rows, line_numbers


def consistent_delimiters(lines: Sequence[str]) -> list[str]:
    """The delimiters that occur equally often in every line.

    A space counts only if it is the only one and all cells are numbers.
    """
    counts = {d: {line.count(d) for line in lines} for d in (*DELIMITERS, SPACE)}
    consistent = [d for d, seen in counts.items() if len(seen) == 1 and min(seen) > 0]
    if consistent != [SPACE]:
        return [d for d in consistent if d != SPACE]
    cells = (cell for line in lines for cell in line.split(SPACE))
    return [] if any(as_number(cell) is None for cell in cells) else consistent


def _find_delimiter(path: Path, content: str) -> str:
    """A tab for .tsv, else a consistent delimiter, else one that occurs, else a comma."""
    if ".tsv" in path.suffixes:
        return "\t"
    lines = [line for line in content[:100_000].split("\n")[:50] if line.strip()]
    present = [d for d in DELIMITERS if any(d in line for line in lines)]
    return [*consistent_delimiters(lines), *present, ","][0]


def _kept(names: Sequence[str], drop: Sequence[str]) -> list[int]:
    """The numbers of the columns that are not dropped."""
    for name in drop:
        if name not in names:
            raise InputError(f"--drop: no column '{name}'; the columns are {', '.join(names)}")
    kept = [i for i, name in enumerate(names) if name not in drop]
    if not kept:
        raise InputError("--drop: no column is left; keep at least one")
    return kept


def _has_header(rows: list[list[str]]) -> bool:
    """Guess whether the first row names the columns.

    It does if its cells are distinct, not all numbers, and none occurs in its column below,
    although some column below repeats a cell: without repeats, every row is new. A word above
    numbers is a name too.
    """
    first, columns = rows[0], [set(column) for column in zip(*rows[1:], strict=True)]
    if not columns or len(set(first)) != len(first) or None not in map(as_number, first):
        return False
    repeats = any(len(column) < len(rows) - 1 for column in columns)
    pairs = list(zip(first, columns, strict=True))
    above_numbers = any(
        as_number(cell) is None and all(map(_is_number_or_empty, column)) for cell, column in pairs
    )
    return (repeats or above_numbers) and all(cell not in column for cell, column in pairs)


def _is_number_or_empty(cell: str) -> bool:
    return not cell or as_number(cell) is not None


def import_pyarrow() -> tuple[Any, Any]:
    """The modules ``pyarrow`` and ``pyarrow.parquet``, an optional dependency."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet needs: pip install 'discrete-meanflow[parquet]'") from None
    return pyarrow, pyarrow.parquet


def read_parquet(path: Path, drop: Sequence[str] = ()) -> Rows:
    """Read Parquet; cells become text, and ``types`` keeps their types."""
    arrow, parquet = import_pyarrow()
    try:
        with open_decompressed(path) as file:
            # Single-threaded: a thread that reads ahead aborts the process at an early exit.
            content = parquet.ParquetFile(file, pre_buffer=False).read(use_threads=False)
        names = list(content.column_names)
        columns = [column.to_pylist() for column in content.columns]
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    kept = _kept(names, drop)
    types = tuple(type_of(columns[i]) for i in kept)
    cells = [[as_text(cell, t) for cell in columns[i]] for i, t in zip(kept, types, strict=True)]
    rows = list(map(list, zip(*cells, strict=True)))
    return Rows([names[i] for i in kept], rows, types=types)
