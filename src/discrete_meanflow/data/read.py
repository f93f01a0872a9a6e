"""Records from files, gzipped or not; what is wrong is told with file and line."""

import csv
import io
import re
import struct
import tokenize
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch

from discrete_meanflow.data.cells import as_number, as_text, is_missing, type_of
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
SPACE = " "  # between numbers alone
WHOLE = "iub"  # kinds of numbers
EMPTY = ("", "nan", "NaN", "NAN")


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
    """Those that are in every line, and as often; spaces, if nothing but numbers is between."""
    counts = {d: {line.count(d) for line in lines} for d in (*DELIMITERS, SPACE)}
    even = [d for d, found in counts.items() if len(found) == 1 and min(found) > 0]
    if even != [SPACE]:
        return [d for d in even if d != SPACE]
    cells = (cell for line in lines for cell in line.split(SPACE))
    return [] if any(as_number(cell) is None for cell in cells) else even


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

    def drop(self, names: Sequence[str]) -> "Rows":
        """Those columns left out."""
        if not names:
            return self
        for name in names:
            if name not in self.names:
                there = ", ".join(self.names)
                raise InputError(f"--without: no column '{name}'; there are {there}")
        kept = [i for i, name in enumerate(self.names) if name not in names]
        if not kept:
            raise InputError("--without: no column is left")
        rows = [[row[i] for i in kept] for row in self.rows]
        return self._replace(names=[self.names[i] for i in kept], rows=rows)


def table(
    path: Path,
    header: bool | None = None,
    missing: str | None = None,
    drop: Sequence[str] = (),
) -> Rows:
    """A table of text. A first row of names, where ``header`` does not say, is told by cells that
    occur nowhere below, while others do there; without one, columns are called c1, c2, ...

    Empty cells are refused, unless something is given that stands for what is ``missing``, or they
    are in columns that are left out.
    """
    content = text(path)
    delimiter = delimiter_of(path, content)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    places: list[int] = []  # their lines
    last = 0  # line that was read
    try:
        for row in reader:
            line, last = last + 1, reader.line_num
            if not any(cell.strip() for cell in row):
                continue
            rows.append([cell.strip() for cell in row])
            places.append(line)
            if len(row) != len(rows[0]):
                ragged = f"{path}: line {line} has {len(row)} cells, the first {len(rows[0])}"
                more = f"; it goes on to line {last}: is a quote left open?"
                raise InputError(ragged + more * (last > line))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from None
    if not rows:
        raise InputError(f"{path} is empty")
    heading = _has_names(rows) if header is None else header
    names = rows[0] if heading else [f"c{i}" for i in range(1, len(rows[0]) + 1)]
    if "" in names:
        unnamed = f"column {names.index('') + 1} has no name"
        raise InputError(f"{path}, line {places[0]}: {unnamed}; write one there, please")
    if len(set(names)) != len(names):
        raise InputError(f"{path}, line {places[0]}: two columns have one name")
    found = Rows(names, rows[heading:], delimiter, heading).drop(drop)
    _fill(found, f"{path}, line", places[heading:], names, missing)
    return found


def _fill(
    found: Rows, where: str, places: Sequence[int], names: list[str], missing: str | None
) -> None:
    """Put what stands for missing values into their cells; refuse them if nothing does.

    Rows are ``where`` their ``places`` tell, columns where their ``names`` are in the file.
    """
    first, count = "", 0
    for place, row in zip(places, found.rows, strict=True):
        for column, cell in enumerate(row):
            if _is_empty(cell):
                at = names.index(found.names[column]) + 1
                first = first or f"{where} {place}, column {at}: a missing value"
                count, row[column] = count + 1, missing or ""
    if first and not missing:
        level = "--missing '?' makes a level of it, or leave such rows out"
        raise InputError(f"{first}, of {count:,}; {level}")


def _is_empty(cell: Any) -> bool:
    return cell in EMPTY if isinstance(cell, str) else is_missing(cell)


def _has_names(rows: list[list[str]]) -> bool:
    """Whether a first row is unlike the others: each cell new in its column, none a number, and
    some column repeats itself below, without which every row is unlike the others."""
    first, below = rows[0], [list(column) for column in zip(*rows[1:], strict=True)]
    if not below or len(set(first)) != len(first) or None not in map(as_number, first):
        return False
    repeats = any(len(set(column)) < len(column) for column in below)
    return repeats and all(cell not in column for cell, column in zip(first, below, strict=True))


def pyarrow() -> tuple[Any, Any]:
    """The library and its Parquet part, which are installed on request."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet needs: pip install 'discrete-meanflow[parquet]'") from None
    return pyarrow, pyarrow.parquet


def parquet(path: Path, missing: str | None = None, drop: Sequence[str] = ()) -> Rows:
    """Names of the columns and rows of cells as text."""
    arrow, reader = pyarrow()
    try:
        with unpacked(path) as file:
            # In this thread alone: one that still reads ahead at an early exit ends in an abort.
            found = reader.ParquetFile(file, pre_buffer=False).read(use_threads=False)
        names = list(found.column_names)
        rows = list(map(list, zip(*(column.to_pylist() for column in found.columns), strict=True)))
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    kept = Rows(names, rows).drop(drop)
    _fill(kept, f"{path}, row", range(1, len(rows) + 1), names, missing)
    types = tuple(map(type_of, zip(*kept.rows, strict=True)))
    return kept._replace(rows=[list(map(as_text, row, types)) for row in kept.rows], types=types)


def array_named(path: Path, name: str | None = None) -> tuple[numpy.ndarray, str | None]:
    """The array of that name in a .npz; without a name the first of whole numbers along two axes
    or more, and which of several that is; or the one of a .npy."""
    source = None
    with unpacked(path) as file:
        try:
            found = numpy.load(file, allow_pickle=False)
            if isinstance(found, numpy.lib.npyio.NpzFile):
                if not found.files:
                    raise InputError(f"{path}: it holds no array")
                names = ", ".join(found.files)
                if name is not None and name not in found.files:
                    raise InputError(f"{path}: no array '{name}'; there are {names}")
                several = len(found.files) > 1
                name, found = _first_of_records(found) if name is None else (name, found[name])
                source = f"{name}, of {names}" if several else None
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
    return found, source


def _first_of_records(arrays: Mapping[str, numpy.ndarray]) -> tuple[str, numpy.ndarray]:
    """The first that has several axes and whole numbers, or at least axes; with its name."""
    first = None
    for name in arrays:
        each = arrays[name]  # read one by one
        if each.ndim > 1:
            each = _whole(each)
            if each.dtype.kind in WHOLE:
                return name, each
            first = first or (name, each)
    return first or next(iter(arrays.items()))


def array(path: Path) -> tuple[numpy.ndarray, str | None]:
    """Whole numbers from 0, records along the first axis; and which of several arrays they are."""
    found, source = array_named(path)
    return whole_numbers_from_0(found, f"{path}" + f", {source}" * bool(source)), source


def _whole(found: numpy.ndarray) -> numpy.ndarray:
    """Floats that are whole numbers, as such."""
    if found.dtype.kind != "f":
        return found
    whole = _cut_off(found)
    return whole if numpy.array_equal(found, whole) else found


def _cut_off(found: numpy.ndarray) -> numpy.ndarray:
    """Floats without what is behind the point."""
    with numpy.errstate(invalid="ignore"):  # of what is no number
        return found.astype(numpy.int64)


def whole_numbers_from_0(found: numpy.ndarray, where: str) -> numpy.ndarray:
    """The array itself, records along its first axis; another is refused."""
    if found.ndim < 2 or not found.size:
        raise InputError(f"{where}: needs records along the first axis, got shape {found.shape}")
    found = _whole(found)
    if found.dtype.kind == "f":
        place = tuple(int(i) for i in numpy.argwhere(found != _cut_off(found))[0])
        raise InputError(
            f"{where}: needs whole numbers from 0, got {found[place]:g} at {place}; round them, or "
            "number their values first"
        )
    if found.dtype.kind not in WHOLE:
        raise InputError(
            f"{where}: needs whole numbers from 0, got {found.dtype}; round them, or "
            "number their values first"
        )
    if found.min() < 0:
        place = tuple(int(i) for i in numpy.argwhere(found < 0)[0])
        raise InputError(f"{where}: {int(found[place])} at {place}: numbers must be 0 or more")
    return found
