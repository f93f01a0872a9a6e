"""Tables as numbers, which the metrics of tables compare.

A table is an array ``(rows, columns)`` of floats: numbers, dates and times as they are ordered,
levels as codes, and NaN where a cell is missing. A list of bools says which columns are numeric.
"""

from typing import TypeAlias

import numpy

Array: TypeAlias = numpy.ndarray


def cell_codes(x: Array, y: Array) -> tuple[Array, Array]:
    """The values of a column of two tables as integers; a missing cell is a value of its own."""
    codes = numpy.unique(numpy.concatenate([x, y]), return_inverse=True)[1]
    return codes[: len(x)], codes[len(x) :]


def dense_ranks(x: Array, y: Array) -> tuple[Array, Array]:
    """The values of all columns as ranks among both tables, from 0; -1 where a cell is missing.

    Trees see the same order, and values of any size fit into the 32 bits of a forest.
    """
    values = numpy.concatenate([x, y])
    ranks = numpy.full(values.shape, -1.0)
    for column, rank in zip(values.T, ranks.T, strict=True):
        present = ~numpy.isnan(column)
        rank[present] = numpy.unique(column[present], return_inverse=True)[1]
    return ranks[: len(x)], ranks[len(x) :]


def random_rows(x: Array, most: int, seed: int) -> Array:
    """All rows in order, or ``most`` random ones."""
    if len(x) <= most:
        return x
    return x[numpy.random.default_rng(seed).choice(len(x), most, replace=False)]
