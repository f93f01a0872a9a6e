"""Read tables: CSV, TSV and other delimited text, Parquet."""

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.io.content import beginning, iter_line_ends, open_decompressed
from discrete_meanflow.io.table.arrow_table import ArrowTables, import_pyarrow
from discrete_meanflow.io.table.cells import MISSING, as_number, check_names, kept_columns
from discrete_meanflow.io.table.frame import Dtype
from discrete_meanflow.io.table.rows import CellIndex, Cells, Rows
from discrete_meanflow.io.unpacking import check_unpacked

DELIMITERS = (";", "\t", ",")  # the comma last: numbers may contain it
SPACE = " "  # a delimiter only if every cell is a number
EMPTY = ("nan", "NaN", "NAN")  # besides cells without text
BLOCK = 10_000  # rows read at once


class TableFile(NamedTuple):
    """A table: column names, rows of cells as text, and the format of the file."""

    names: list[str]
    rows: Rows
    delimiter: str = ","
    header: bool = True  # whether the file has a header row
    dtypes: tuple[Dtype, ...] = ()  # of the columns, if the file specifies them


def read_table(path: Path, header: bool | None = None, drop: Sequence[str] = ()) -> TableFile:
    """Read delimited text. Empty cells and NaN are missing.

    Args:
        header: whether the first row names the columns; None guesses. Without a header, columns
            are called c1, c2, ...
        drop: columns to leave out.
    """
    delimiter = _find_delimiter(path)
    columns, line = _parse_columns(path, delimiter)
    first = [column[0] for column in columns]
    below = [Cells(column.levels, column.codes[1:]) for column in columns]
    header = _has_header(first, below) if header is None else header
    names = first if header else [f"c{i}" for i in range(1, len(first) + 1)]
    with error_context(f"{path}, line {line}"):
        check_names(names)
    kept = kept_columns(names, drop)
    columns = [_without_nan((below if header else columns)[i]) for i in kept]
    return TableFile([names[i] for i in kept], Rows(tuple(columns)), delimiter, header)


def _parse_columns(path: Path, delimiter: str) -> tuple[list[Cells], int]:
    """The columns of the rows that are not blank, and the line of the first of these."""
    rows = _ParsedRows(path, delimiter)
    indices: list[CellIndex] = []
    codes: list[list[numpy.ndarray]] = []
    while block := list(itertools.islice(rows, BLOCK)):
        indices = indices or [CellIndex() for _ in block[0]]
        cells = zip(*block, strict=True)
        codes.append([index.codes(column) for index, column in zip(indices, cells, strict=True)])
    if not indices:
        raise InputError(f"{path} is empty")
    columns = []
    for number in range(len(indices)):
        levels, indices[number] = list(indices[number]), CellIndex()  # frees memory
        joined = numpy.concatenate([parts[number] for parts in codes])
        columns.append(Cells.merged(map(str.strip, levels), joined))
    return columns, rows.first_line


class _ParsedRows:
    """The rows of a file that are not blank, all of one length."""

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path = path
        self.reader = csv.reader(iter_line_ends(path), delimiter=delimiter)
        self.first_line = self.cells = 0  # of the first row

    def __iter__(self) -> "_ParsedRows":
        return self

    def __next__(self) -> list[str]:
        row: list[str] = []
        while not any(map(str.strip, row)):
            last = self.reader.line_num  # of the previous row
            try:
                row = next(self.reader)
            except csv.Error as error:
                raise InputError(
                    f"{self.path}, line {self.reader.line_num}: {error}; is a quote left open?"
                ) from None
        if len(row) != (self.cells or len(row)):
            self._raise_length(len(row), last + 1)
        self.first_line, self.cells = self.first_line or last + 1, len(row)
        return row

    def _raise_length(self, cells: int, line: int) -> None:
        end = self.reader.line_num
        hint = f"; it extends to line {end}: is a quote left open?" * (end > line)
        raise InputError(
            f"{self.path}: line {line} has {cells} cells, the first {self.cells}{hint}"
        )


def _without_nan(cells: Cells) -> Cells:
    return Cells.merged((MISSING if x in EMPTY else x for x in cells.levels), cells.codes)


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


def _find_delimiter(path: Path) -> str:
    """A tab for .tsv, else a consistent delimiter, else one that occurs, else a comma."""
    if ".tsv" in path.suffixes:
        return "\t"
    lines = [line for line in beginning(path).split("\n")[:50] if line.strip()]
    present = [d for d in DELIMITERS if any(d in line for line in lines)]
    return [*consistent_delimiters(lines), *present, ","][0]


def _has_header(first: list[str], below: list[Cells]) -> bool:
    """Guess whether the first row names the columns.

    It does if its cells are distinct, not all numbers, and none occurs in its column below,
    although some column below repeats a cell: without repeats, every row is new. A word above
    numbers is a name too.
    """
    rows, columns = len(below[0]), [column.counts() for column in below]
    if not rows or len(set(first)) != len(first) or None not in map(as_number, first):
        return False
    pairs = list(zip(first, columns, strict=True))
    if any(cell in column for cell, column in pairs):
        return False
    return any(len(column) < rows for column in columns) or any(
        as_number(cell) is None and all(map(_is_number_or_empty, column)) for cell, column in pairs
    )


def _is_number_or_empty(cell: str) -> bool:
    return not cell or as_number(cell) is not None


def read_parquet(path: Path, drop: Sequence[str] = ()) -> TableFile:
    """Read Parquet; cells become text, and ``dtypes`` keeps their types."""
    arrow, parquet = import_pyarrow()
    try:
        with open_decompressed(path) as file:
            # Single-threaded: a thread that reads ahead aborts the process at an early exit.
            table = parquet.ParquetFile(file, pre_buffer=False)
            check_unpacked(path, _decoded_bytes(table.metadata))
            content = table.read(use_threads=False)
        names, rows, dtypes = ArrowTables().read(content, drop)
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    return TableFile(names, rows, dtypes=dtypes)


def _decoded_bytes(metadata: Any) -> int:
    """Bytes that a Parquet file takes in memory, at least: equal cells are stored once."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    pages = sum(group.total_byte_size for group in groups)
    return int(max(pages, 4 * metadata.num_rows * metadata.num_columns))
