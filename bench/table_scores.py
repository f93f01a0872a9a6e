"""Data frames as numbers, for the scores of tables; see ``discrete_meanflow.metric``."""

from typing import TypeAlias

import numpy
import pandas

from discrete_meanflow.metric.privacy import PrivacyTest
from discrete_meanflow.metric.table_comparison import TableComparison
from discrete_meanflow.metric.table_values import Array

Frame: TypeAlias = pandas.DataFrame
NUMBERS = 64  # distinct numbers above which a column is one of numbers


def scores(train: Frame, real: Frame, rows: Frame, target: str, seed: int) -> dict[str, float]:
    """Quality of rows beside real ones, and privacy of the rows of training."""
    rows, names = rows[list(real.columns)], list(real.columns)
    numeric = [is_number(real[name]) for name in names]
    held_out, samples, known = values([real, rows, train[names]], numeric)
    quality = TableComparison.of(held_out, samples, numeric, names.index(target), seed).scores
    privacy, _ = PrivacyTest(known, held_out, numeric, seed)(samples)
    return quality | privacy


def is_number(column: pandas.Series) -> bool:
    return pandas.api.types.is_numeric_dtype(column) and column.nunique() > NUMBERS


def values(frames: list[Frame], numeric: list[bool]) -> list[Array]:
    """The cells of frames with the same columns as numbers, and levels as codes."""
    both = pandas.concat(frames, ignore_index=True)
    columns = [_values(both[name], number) for name, number in zip(both, numeric, strict=True)]
    ends = numpy.cumsum([len(frame) for frame in frames])[:-1]
    return numpy.split(numpy.stack(columns, 1), ends)


def _values(column: pandas.Series, number: bool) -> Array:
    if number:
        return pandas.to_numeric(column, errors="coerce").to_numpy(float)
    codes = pandas.factorize(column.astype("string"), sort=True)[0].astype(float)
    codes[codes < 0] = numpy.nan
    return codes
