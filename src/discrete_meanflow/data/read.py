"""Records from files, gzipped or not; what is wrong is told with file and line."""

import csv
import io
import re
import struct
import tokenize
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch

from discrete_meanflow.data.cells import is_missing, type_of
from discrete_meanflow.data.content import text, unpacked
from discrete_meanflow.data.lines import FastaFile, LineFile
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

# What NumPy and the libraries below it raise on bytes that were an array once.
DAMAGED = (
    ValueError, LookupError, TypeError, OverflowError, RuntimeError,
    struct.error, tokenize.TokenError, zipfile.BadZipFile,
)  # fmt: skip
# Between the cells of a table; commas last: numbers may have them inside.
DELIMITERS = (";", "\t", ",")
EMPTY = ("", "nan", "NaN", "NAN")
LEVEL = "--missing ? makes a level of it, or leave such rows out"


def lines(path: Path) -> list[str]:
    """One record a line; empty lines are none."""
    return list(iter(LineFile(path)))  # a list would ask for the length first, which is a pass


def fasta(path: Path) -> list[str]:
    """Sequences, each behind a ``>`` line."""
    return list(iter(FastaFile(path)))


def whole_numbers(path: Path) -> State:
    """Rows of whole numbers with commas between: shape ``(rows, columns)``."""
    rows = []
    for number, line in enumerate(lines(path), 1):
        try:
            rows.append([int(cell) for cell in line.split(",")])
        except ValueError:
            raise InputError(f"{path}, line {number}: whole numbers with commas, please") from None
        if len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{path}, line {number}: {len(rows[-1])} numbers, the first line has {len(rows[0])}"
            )
    return torch.from_numpy(numpy.array(rows, dtype=numpy.int64))


def beginning(path: Path, size: int = 100_000) -> str:
    """The first characters of a file, to tell its kind by."""
    with unpacked(path) as file:
        start = file.read(size).decode("utf-8-sig", errors="ignore")
    return re.sub("\r\n?", "\n", start)


def even_delimiters(lines: Sequence[str]) -> list[str]:
    """Those that are in every line, and as often."""
    counts = {delimiter: {line.count(delimiter) for line in lines} for delimiter in DELIMITERS}
    return [d for d, found in counts.items() if len(found) == 1 and min(found) > 0]


def delimiter_of(path: Path, content: str) -> str:
    """What stands between cells: a tab in a .tsv, else what is as frequent in every line."""
    if ".tsv" in path.suffixes:
        return "\t"
    lines = [line for line in content[:100_000].split("\n")[:50] if line.strip()]
    present = [d for d in DELIMITERS if any(d in line for line in lines)]
    return [*even_delimiters(lines), *present, ","][0]


class Rows(NamedTuple):
    """A table: rows of cells as text, and how they stood in the file."""

    names: list[str]  # of the columns
    rows: list[list[str]]
    delimiter: str = ","
    heading: bool = True  # whether the names stood there, too
    types: tuple[str, ...] = ()  # of the columns, where the file tells


def table(path: Path, header: bool | None = None, missing: str | None = None) -> Rows:
    """A table of text. A first row of names, where ``header`` does not say, is told by cells that
    occur nowhere below, while others do there; without one, columns are called c1, c2, ...

    Empty cells are refused, unless something is given that stands for what is ``missing``.
    """
    content = text(path)
    delimiter = delimiter_of(path, content)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    gaps: list[str] = []
    try:
        for row in reader:
            if not row:
                continue
            cells = [cell.strip() for cell in row]
            for column, cell in enumerate(cells):
                if cell in EMPTY:
                    gaps.append(f"line {reader.line_num}, column {column + 1}")
                    cells[column] = missing or ""
            rows.append(cells)
            if len(row) != len(rows[0]):
                raise InputError(
                    f"{path}: line {reader.line_num} has {len(row)} cells, the first {len(rows[0])}"
                )
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from None
    if not rows:
        raise InputError(f"{path} is empty")
    if gaps and not missing:
        raise InputError(f"{path}, {gaps[0]}: a missing value, of {len(gaps):,}; {LEVEL}")
    if _has_names(rows) if header is None else header:
        if len(set(rows[0])) != len(rows[0]):
            raise InputError(f"{path}, line 1: two columns have one name")
        return Rows(rows[0], rows[1:], delimiter)
    names = [f"c{i}" for i in range(1, len(rows[0]) + 1)]
    return Rows(names, rows, delimiter, heading=False)


def _has_names(rows: list[list[str]]) -> bool:
    """Whether a first row is unlike the others: each cell new in its column, none a number, and
    some column repeats itself below, without which every row is unlike the others."""
    first, below = rows[0], [list(column) for column in zip(*rows[1:], strict=True)]
    if not below or len(set(first)) != len(first) or all(map(_is_number, first)):
        return False
    repeats = any(len(set(column)) < len(column) for column in below)
    return repeats and all(cell not in column for cell, column in zip(first, below, strict=True))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def pyarrow() -> tuple[Any, Any]:
    """The library and its Parquet part, which are installed on request."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet needs: pip install 'discrete-meanflow[parquet]'") from None
    return pyarrow, pyarrow.parquet


def parquet(path: Path, missing: str | None = None) -> Rows:
    """Names of the columns and rows of cells as text."""
    arrow, reader = pyarrow()
    try:
        with unpacked(path) as file:
            # In this thread alone: one that still reads ahead at an early exit ends in an abort.
            found = reader.ParquetFile(file, pre_buffer=False).read(use_threads=False)
        names = list(found.column_names)
        columns = [column.to_pylist() for column in found.columns]
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    for name, column in zip(names, columns, strict=True):
        for i, cell in enumerate(column):
            if is_missing(cell):
                if not missing:
                    text = f"{path}, row {i + 1}, column {name}: a missing value"
                    raise InputError(f"{text}; {LEVEL}")
                column[i] = missing
    rows = [list(map(str, row)) for row in zip(*columns, strict=True)]
    return Rows(names, rows, types=tuple(map(type_of, columns)))


def array_named(path: Path, name: str | None = None) -> numpy.ndarray:
    """The array of that name in a .npz; without a name the first of whole numbers along two axes
    or more, or the one of a .npy."""
    with unpacked(path) as file:
        try:
            found = numpy.load(file, allow_pickle=False)
            if isinstance(found, numpy.lib.npyio.NpzFile):
                if not found.files:
                    raise InputError(f"{path}: it holds no array")
                if name is not None and name not in found.files:
                    names = ", ".join(found.files)
                    raise InputError(f"{path}: no array '{name}'; there are {names}")
                wanted = found.files if name is None else [name]
                arrays = (found[each] for each in (*wanted, wanted[0]))  # read one by one
                found = next(a for i, a in enumerate(arrays) if _records(a) or i == len(wanted))
        except InputError:
            raise
        except DAMAGED as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            why = "it holds no array of numbers" if "pickle" in why else why
            raise InputError(f"cannot read {path}: {why}") from None
        except MemoryError:
            raise InputError(f"{path}: says that it holds more than fits into memory") from None
    if not isinstance(found, numpy.ndarray):
        raise InputError(f"{path}: what it holds is no array")
    return found


def _records(found: numpy.ndarray) -> bool:
    return found.ndim > 1 and found.dtype.kind in "iub"


def array(path: Path) -> numpy.ndarray:
    """Whole numbers from 0, records along the first axis. Of several arrays in a file, the
    first that has records."""
    return whole_numbers_from_0(array_named(path), str(path))


def whole_numbers_from_0(found: numpy.ndarray, where: str) -> numpy.ndarray:
    """The array itself, records along its first axis; another is refused."""
    if found.ndim < 2 or not found.size:
        raise InputError(f"{where}: needs records along the first axis, got shape {found.shape}")
    if found.dtype.kind == "f":
        with numpy.errstate(invalid="ignore"):  # of what is no number
            whole = found.astype(numpy.int64)
        found = whole if numpy.array_equal(found, whole) else found
    if found.dtype.kind not in "iub":
        raise InputError(
            f"{where}: needs whole numbers from 0, got {found.dtype}; round them, or "
            "number their values first"
        )
    if found.min() < 0:
        place = tuple(int(i) for i in numpy.argwhere(found < 0)[0])
        raise InputError(f"{where}: {int(found[place])} at {place}: numbers must be 0 or more")
    return found
