"""Rows of a table as numbers, for the metrics of tables."""

from collections.abc import Sequence

import numpy

from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.number_column import NumberColumn
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.types import State


def table_codec(codec: Codec) -> TableCodec | None:
    """The codec of the rows without their classes; None if the records are no rows of a table."""
    return bare if isinstance(bare := codec.bare, TableCodec) else None


def is_numeric(column: Column) -> bool:
    """Whether a column has numbers, dates or times, and not levels."""
    return isinstance(column, NumberColumn)


def row_values(codec: TableCodec, tokens: State) -> numpy.ndarray:
    """The cells of rows as numbers ``(rows, columns)``, see ``metric/table_values.py``."""
    columns = zip(*codec.decode(tokens[:, : codec.length]), strict=True)
    values = [_values(column, cells) for column, cells in zip(codec.columns, columns, strict=True)]
    return numpy.stack(values, 1)


def _values(column: Column, cells: Sequence[str]) -> numpy.ndarray:
    value = {cell: column.ordinal(cell) for cell in set(cells)}
    return numpy.array([value[cell] for cell in cells])
