"""Datasets from records in Python: strings, rows, arrays, data frames, PyTorch datasets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.io.array_codec import ArrayCodec, check_integers
from discrete_meanflow.io.array_kind import Array
from discrete_meanflow.io.codec import Dataset
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.table.cells import (
    MISSING,
    as_text,
    is_missing,
    kept_columns,
    type_of_value,
)
from discrete_meanflow.io.table.frames import library_of
from discrete_meanflow.io.table.rows import Cells, Rows
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.io.table.table_kind import Table
from discrete_meanflow.io.text_kinds import Lines
from discrete_meanflow.printable import shown


def dataset_from_python(
    records: Any,
    string_kind: Kind | None = None,
    column_kinds: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
) -> tuple[Kind, Dataset]:
    """Find the kind of records in Python, and their codec.

    Args:
        records: strings, rows, arrays of whole numbers, a pandas or polars frame, an Arrow
            table, or a PyTorch dataset.
        string_kind: the kind of records that are strings; lines by default.
        column_kinds: ``levels`` or ``number`` for columns of a table or frame that are not what
            their cells look like.
        drop: columns of a table or frame to leave out.
    """
    if isinstance(records, str | bytes | Path):
        one = "a file name" if isinstance(records, Path) else "one string"
        raise InputError(f"data: needs a list of records, not {one}; for a file use dmf train")
    if (library := library_of(records)) is not None:
        if string_kind is not None:
            raise InputError("data: kind is for a list of strings; pass one column of the frame")
        names, rows, dtypes = library.read(records, drop)
        return Table(), _table(names, rows, column_kinds, dtypes=dtypes, frame=library.name)
    if isinstance(records, Mapping):
        raise InputError("data: a dict has no order of records; pass a frame or a list of rows")
    records = _as_sequence(records)
    if len(records) < 2:
        raise InputError(f"data: needs at least 2 records, got {len(records)}")
    if all(_is_row(record) for record in records) and string_kind is None:
        names = [f"c{i + 1}" for i in range(len(records[0]))]
        kept = kept_columns(names, drop)
        rows = _rows(records, len(names), kept)
        return Table(), _table([names[i] for i in kept], rows, column_kinds)
    if column_kinds is not None or drop:
        option = "drop is" if drop else "columns are"
        raise InputError(f"data: {option} for rows of a table or a frame")
    if all(isinstance(record, str) for record in records):
        kind = string_kind or Lines()
        return kind, kind.of(list(records))
    if string_kind is not None:
        raise InputError(f"data: kind '{string_kind.name}' is for a list of strings only")
    if isinstance(records, list):
        _check_alike(records)
    return Array(), _array(records)


def _as_sequence(records: Any) -> Any:
    """An array or tensor, or a list of anything else, without the labels of a PyTorch dataset."""
    if isinstance(records, numpy.ndarray | torch.Tensor):
        if not records.ndim:
            raise InputError("data: needs records, got a single number")
        return records
    is_dataset = isinstance(records, torch.utils.data.Dataset)
    if is_dataset and not isinstance(records, torch.utils.data.IterableDataset):
        records = [records[i] for i in range(len(records))]
    if not isinstance(records, Iterable):
        raise InputError(f"data: needs records, got {type(records).__name__}")
    return [item[0] if is_dataset and isinstance(item, tuple) else item for item in records]


def _check_alike(records: list[Any]) -> None:
    """Raise unless all records are of one type."""
    strings, rows = isinstance(records[0], str), _is_row(records[0])
    for number, record in enumerate(records, 1):
        differs = isinstance(record, str) != strings or _is_row(record) != rows
        if differs or record is None or isinstance(record, Mapping | bytes):
            value = "None" if record is None else f"{shown(record):.40}"
            raise InputError(
                f"data: record {number} is {value}; records must all be strings, rows (lists with "
                "at least one string) or arrays of whole numbers; a table can also be a frame"
            )


def rows_from_python(records: Any, names: Sequence[str]) -> tuple[Sequence[str], Rows]:
    """The column names and the rows of text of a frame, or of rows with columns ``names``."""
    if (library := library_of(records)) is not None:
        return library.read(records)[:2]
    return names, _rows(_as_sequence(records), len(names), range(len(names)))


def _rows(records: Sequence[Sequence[Any]], width: int, kept: Iterable[int]) -> Rows:
    """Rows of text from the kept values of rows of ``width`` values."""
    for number, row in enumerate(records, 1):
        if not isinstance(row, list | tuple | numpy.ndarray):
            raise InputError(f"data: row {number} is {shown(row):.40}; a row is a list of cells")
        if len(row) != width:
            raise InputError(f"data: row {number} has {len(row)} cells, not {width}")
    return Rows(tuple(Cells.of(_texts(records, column)) for column in kept))


def patterns_from_python(conditions: Any) -> list[Any]:
    """A pattern for each row of a frame, or each of a list; missing cells are unknown."""
    if (library := library_of(conditions)) is not None:
        names, rows, _ = library.read(conditions)
        conditions = [dict(zip(names, row, strict=True)) for row in rows]
    if not isinstance(conditions, list | tuple):
        raise InputError("conditions must be a frame or a list of patterns, one for each row")
    if not conditions:
        raise InputError("conditions: there are no rows")
    return [_known_part(row) if isinstance(row, Mapping) else row for row in conditions]


def _known_part(row: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: cell for name, cell in row.items() if cell != MISSING and not is_missing(cell)}


def _texts(records: Sequence[Sequence[Any]], column: int) -> Iterator[str]:
    for number, row in enumerate(records, 1):
        if not is_missing(row[column]):
            with error_context(f"data: column c{column + 1}"):
                type_of_value(row[column], number)  # raises for a list, for example
        yield as_text(row[column], "str")


def _is_row(record: Any) -> bool:
    """Whether a record is a row of a table: cells of which at least one is a string."""
    if isinstance(record, numpy.ndarray):
        return record.ndim == 1 and record.dtype.kind in "UO"
    return isinstance(record, list | tuple) and any(isinstance(cell, str) for cell in record)


def _table(
    names: list[str], rows: Rows, kinds: Mapping[str, str] | None, **options: Any
) -> Dataset:
    if len(rows) < 2:
        raise InputError(f"data: a table needs at least 2 rows, it has {len(rows)}")
    return Dataset(rows, TableCodec.of(names, rows, kinds=kinds, **options))


def _array(records: Any) -> Dataset:
    try:
        if not isinstance(records, numpy.ndarray | torch.Tensor):
            records = [numpy.asarray(record) for record in records]
        array = numpy.asarray(records)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"data: records must have one shape ({error})") from None
    return Dataset(array, ArrayCodec.of(check_integers(array, "data")))
