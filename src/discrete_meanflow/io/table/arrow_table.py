"""Tables of Arrow, in memory or in a Parquet file."""

import re
from collections.abc import Mapping
from typing import Any

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.frame import Dtype, FrameLibrary, moments, unsupported
from discrete_meanflow.io.table.rows import Cells

INDEX = re.compile(r"__index_level_\d+__")  # pandas writes its index under such a name
TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns), tz=([\w/+:-]+)\]")
DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
DICTIONARY = re.compile(r"dictionary<values=(.*), indices=(\w+), ordered=([01])>")


def import_pyarrow() -> tuple[Any, Any]:
    """The modules ``pyarrow`` and ``pyarrow.parquet``, an optional dependency."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet needs: pip install 'discrete-meanflow[parquet]'") from None
    return pyarrow, pyarrow.parquet


class ArrowTables(FrameLibrary):
    """A dictionary is a column of categories. The index of pandas is dropped."""

    name = "pyarrow"

    def columns(self, frame: Any) -> list[tuple[str, Any]]:
        pairs = zip(frame.column_names, frame.columns, strict=True)
        return [(name, column) for name, column in pairs if not INDEX.fullmatch(name)]

    def type_name(self, column: Any) -> str:
        arrow, _ = import_pyarrow()
        kinds, kind = arrow.types, column.type
        kind = kind.value_type if kinds.is_dictionary(kind) else kind
        scalar = kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind)
        text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
        moment = kinds.is_date(kind) or kinds.is_time(kind) or kinds.is_timestamp(kind)
        if not (scalar or text or moment or kinds.is_decimal(kind) or kinds.is_null(kind)):
            raise unsupported(kind)
        return str(column.type)

    def is_ordered(self, column: Any) -> bool | None:
        arrow, _ = import_pyarrow()
        is_categorical = arrow.types.is_dictionary(column.type)
        return bool(column.type.ordered) if is_categorical else None

    def distinct(self, column: Any) -> tuple[list[Any], numpy.ndarray]:
        arrow, _ = import_pyarrow()
        if not arrow.types.is_dictionary(column.type):
            if arrow.types.is_string_view(column.type):
                column = column.cast(arrow.large_string())
            column = column.dictionary_encode()
        array = column.combine_chunks()
        codes = array.indices.cast(arrow.int32()).fill_null(-1).to_numpy()
        return _values(array.dictionary, codes), codes

    def column(self, cells: Cells, dtype: Dtype) -> Any:
        arrow, _ = import_pyarrow()
        kind = arrow_type(dtype.name)
        if dtype.categories is None:
            return arrow.array(dtype.values(cells.levels), kind).take(arrow.array(cells.codes))
        codes = dtype.category_codes(cells)
        indices = arrow.array(codes, mask=codes < 0).cast(kind.index_type)
        categories = arrow.array(dtype.values(dtype.categories), kind.value_type)
        return arrow.DictionaryArray.from_arrays(indices, categories, ordered=dtype.ordered)

    def frame(self, columns: Mapping[str, Any]) -> Any:
        return import_pyarrow()[0].table(dict(columns))


def _values(array: Any, codes: numpy.ndarray) -> list[Any]:
    """The values of distinct scalars."""
    arrow, _ = import_pyarrow()
    try:
        if arrow.types.is_date64(array.type):
            array = array.cast(arrow.date32())
        if arrow.types.is_date(array.type) or arrow.types.is_timestamp(array.type):
            return moments(array.to_numpy(zero_copy_only=False), codes)
        if arrow.types.is_floating(array.type):
            return list(array.to_numpy(zero_copy_only=False))
        return list(array.to_pylist())
    except InputError:
        raise
    except ValueError as error:  # times with nanoseconds, dates that are out of range
        raise InputError(str(error)) from None


def arrow_type(name: str) -> Any:
    """The type with this name."""
    arrow, _ = import_pyarrow()
    if match := TIMESTAMP.fullmatch(name):
        return arrow.timestamp(*match.groups())
    if match := DECIMAL.fullmatch(name):
        bits, precision, scale = map(int, match.groups())
        return getattr(arrow, f"decimal{bits}")(precision, scale)
    if match := DICTIONARY.fullmatch(name):
        values, indices, ordered = match.groups()
        return arrow.dictionary(arrow_type(indices), arrow_type(values), ordered == "1")
    return arrow.type_for_alias(name)
