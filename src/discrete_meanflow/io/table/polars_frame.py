"""Frames of polars."""

import re
from collections.abc import Mapping
from typing import Any

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.frame import Dtype, FrameLibrary, moments, unsupported
from discrete_meanflow.io.table.rows import Cells

SIMPLE = (
    "Boolean", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32",
    "Float64", "String", "Categorical", "Enum", "Date", "Time",
)  # fmt: skip
DATETIME = re.compile(r"Datetime\(time_unit='(ms|us|ns)', time_zone=(?:None|'([\w/+-]+)')\)")
DECIMAL = re.compile(r"Decimal\(precision=(\d+), scale=(\d+)\)")


class PolarsFrames(FrameLibrary):
    """A ``Categorical`` has no order of its own; an ``Enum`` has."""

    name = "polars"

    def columns(self, frame: Any) -> list[tuple[str, Any]]:
        if not hasattr(frame, "get_columns"):
            raise InputError("data: a lazy frame has no rows; pass frame.collect()")
        return list(zip(frame.columns, frame.get_columns(), strict=True))

    def type_name(self, column: Any) -> str:
        name = "Enum" if _is_enum(column) else str(column.dtype)
        if name in SIMPLE or DATETIME.fullmatch(name) or DECIMAL.fullmatch(name):
            return name
        raise unsupported(column.dtype)

    def is_ordered(self, column: Any) -> bool | None:
        return True if _is_enum(column) else None

    def distinct(self, column: Any) -> tuple[list[Any], numpy.ndarray]:
        import polars

        if _is_enum(column):
            codes = column.to_physical().cast(polars.Int32).fill_null(-1).to_numpy()
            return column.dtype.categories.to_list(), codes
        if column.dtype == polars.Categorical:
            column = column.cast(polars.String)
        elif isinstance(column.dtype, polars.Datetime) and column.dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        values = column.drop_nulls().unique(maintain_order=True)
        numbers = values.alias("value").to_frame().with_row_index("number")
        rows = column.alias("value").to_frame()
        joined = rows.join(numbers, on="value", how="left", maintain_order="left")["number"]
        codes = joined.cast(polars.Int32).fill_null(-1).to_numpy()
        if column.dtype in (polars.Date, polars.Datetime):
            return moments(values.to_numpy(), codes), codes
        return list(values.to_numpy() if column.dtype == polars.Float32 else values), codes

    def column(self, cells: Cells, dtype: Dtype) -> Any:
        import polars

        if dtype.categories is not None:
            texts = [text or None for text in cells.levels]
            return polars.Series(texts, dtype=polars.Enum(dtype.categories))[cells.codes]
        return _series(dtype.values(cells.levels), dtype.name)[cells.codes]

    def frame(self, columns: Mapping[str, Any]) -> Any:
        import polars

        return polars.DataFrame(dict(columns))


def _is_enum(column: Any) -> bool:
    import polars

    return isinstance(column.dtype, polars.Enum)


def _series(values: list[Any], name: str) -> Any:
    import polars

    if match := DATETIME.fullmatch(name):
        unit: Any = match[1]
        zone = match[2]
        column = polars.Series(values, dtype=polars.Datetime(unit))
        if zone is None:
            return column
        return column.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    if match := DECIMAL.fullmatch(name):
        return polars.Series(values, dtype=polars.Decimal(*map(int, match.groups())))
    if name not in SIMPLE:
        raise ValueError("unknown type")
    return polars.Series(values, dtype=getattr(polars, name))
