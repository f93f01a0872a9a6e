"""Frames of pandas."""

from collections.abc import Mapping
from typing import Any

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.cells import type_of
from discrete_meanflow.io.table.frame import Dtype, FrameLibrary, moments, unsupported
from discrete_meanflow.io.table.rows import Cells

KINDS = "biufM"  # NumPy's kinds of bool, integers, floats and moments


class PandasFrames(FrameLibrary):
    """Column names become strings, and the index is dropped."""

    name = "pandas"

    def columns(self, frame: Any) -> list[tuple[str, Any]]:
        if frame.columns.nlevels > 1:
            raise InputError(
                "data: the columns of the frame have several levels; give each one name, as in "
                "frame.columns = frame.columns.map('_'.join)"
            )
        return [(str(name), frame.iloc[:, i]) for i, name in enumerate(frame.columns)]

    def type_name(self, column: Any) -> str:
        import pandas

        dtype = column.dtype
        if isinstance(dtype, pandas.CategoricalDtype):
            dtype = dtype.categories.dtype
        texts = isinstance(dtype, pandas.StringDtype) or dtype == numpy.dtype(object)
        try:
            named = pandas.api.types.pandas_dtype(str(dtype)) == dtype
        except (TypeError, NotImplementedError):
            named = False
        if not named or not (texts or dtype.kind in KINDS):
            raise unsupported(dtype)
        return str(dtype)

    def is_ordered(self, column: Any) -> bool | None:
        import pandas

        is_categorical = isinstance(column.dtype, pandas.CategoricalDtype)
        return bool(column.cat.ordered) if is_categorical else None

    def distinct(self, column: Any) -> tuple[list[Any], numpy.ndarray]:
        import pandas

        if isinstance(column.dtype, pandas.CategoricalDtype):
            values, _ = self.distinct(_values(column.cat.categories))
            return values, column.cat.codes.to_numpy()
        if column.dtype == numpy.dtype(object):
            type_of(column.tolist())  # raises for a row of another type
        elif column.dtype.kind == "M":
            column = _in_utc(column)
            codes, values = pandas.factorize(column)
            return moments(numpy.asarray(values), codes), codes
        codes, values = pandas.factorize(column)
        return list(values), codes

    def column(self, cells: Cells, dtype: Dtype) -> Any:
        import pandas

        if dtype.categories is None:
            distinct = _series(dtype.values(cells.levels), dtype.name)
            return distinct.take(cells.codes).reset_index(drop=True)
        categories = pandas.Index(_series(dtype.values(dtype.categories), dtype.name))
        codes = dtype.category_codes(cells)
        return pandas.Categorical.from_codes(codes, categories, ordered=dtype.ordered)

    def frame(self, columns: Mapping[str, Any]) -> Any:
        import pandas

        return pandas.DataFrame(columns)


def _values(categories: Any) -> Any:
    """Categories as a column."""
    try:
        return categories.to_series()
    except UnicodeEncodeError:
        raise InputError("has a category with a lone surrogate; rename it") from None


def _in_utc(column: Any) -> Any:
    """Moments without a time zone; those with one in UTC."""
    zoned = column.dt.tz is not None
    return column.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else column


def _series(values: list[Any], name: str) -> Any:
    import pandas

    dtype = pandas.api.types.pandas_dtype(name)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        utc = pandas.Series(values, dtype=f"datetime64[{dtype.unit}]").dt.tz_localize("UTC")
        return utc.astype(dtype)
    return pandas.Series(values, dtype=dtype)
