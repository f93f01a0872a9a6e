"""Quantile bins for numeric columns of a table."""

import math
from collections.abc import Collection, Sequence

import numpy

from discrete_meanflow.data.cells import as_number
from discrete_meanflow.errors import InputError

# (upper bound, level) of each bin in increasing order. The first entry is not a bin: it holds the
# minimum of the column and the level of the first bin.
Bins = tuple[tuple[float, str], ...]
MAX_WORDS = 3  # levels of a numeric column that are not numbers, such as "?"


def bin_columns(
    rows: Sequence[Sequence[str]], bins: int
) -> tuple[list[list[str]], tuple[Bins, ...]]:
    """Cut each numeric column of more than ``bins`` values into at most ``bins`` quantile bins.

    A number becomes the median of its bin. A few words in a numeric column, such as ``?`` for a
    missing value, stay as they are, and so do all other columns.

    Returns:
        The new rows, and the bins of each column (empty if the column was not cut).
    """
    if bins < 2:
        raise InputError(f"--bins: at least 2, got {bins}")
    columns, cuts = zip(*(_bin(column, bins) for column in zip(*rows, strict=True)), strict=True)
    return [list(row) for row in zip(*columns, strict=True)], cuts


def _bin(column: Sequence[str], bins: int) -> tuple[Sequence[str], Bins]:
    numbers = numeric_levels(set(column))
    if len(numbers) <= bins:
        return column, ()
    level_of, cuts = _quantile_bins([cell for cell in column if cell in numbers], bins)
    return [level_of.get(cell, cell) for cell in column], cuts


def numeric_levels(levels: Collection[str]) -> set[str]:
    """The levels that are numbers, if at most ``MAX_WORDS`` are not; else the empty set."""
    values = {level: as_number(level) for level in levels}
    numbers = {level for level, x in values.items() if x is not None and math.isfinite(x)}
    return numbers if len(levels) - len(numbers) <= MAX_WORDS else set()


def _quantile_bins(column: Sequence[str], bins: int) -> tuple[dict[str, str], Bins]:
    """The level of each number, and the bins."""
    numbers = numpy.array([float(cell) for cell in column])
    _, value_index, counts = numpy.unique(numbers, return_inverse=True, return_counts=True)
    # A value belongs to the bin of its mid-rank, so one frequent value does not fill several bins.
    midrank = (counts.cumsum() - counts / 2) / len(numbers)
    bin_index = numpy.minimum((bins * midrank).astype(int), bins - 1)[value_index]
    # The level is the median cell as written, with all its digits.
    order = numpy.argsort(numbers, kind="stable")
    members = {int(i): order[bin_index[order] == i] for i in numpy.unique(bin_index)}
    levels = {i: column[cells[len(cells) // 2]] for i, cells in members.items()}
    cuts = tuple((float(numbers[cells[-1]]), levels[i]) for i, cells in members.items())
    level_of = {cell: levels[int(i)] for cell, i in zip(column, bin_index, strict=True)}
    return level_of, ((float(numbers.min()), cuts[0][1]), *cuts)
