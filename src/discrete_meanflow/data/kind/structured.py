"""Kinds of data whose records are rows or arrays."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from discrete_meanflow.data.array_codec import ArrayCodec, read_array
from discrete_meanflow.data.cells import bin_columns
from discrete_meanflow.data.codec import Dataset
from discrete_meanflow.data.kind.base import Kind
from discrete_meanflow.data.read_table import read_parquet, read_table
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.data.write import Write, array_writer, table_writer
from discrete_meanflow.errors import InputError


@dataclass
class Table(Kind):
    """Rows of categorical columns: delimited text or Parquet.

    Args:
        bins: number of bins for numeric columns with more values; None keeps all values.
        header: whether the first row names the columns; None guesses.
        missing: replaces empty cells; if None, an empty cell is an error.
        drop: columns to leave out.
    """

    bins: int | None = None
    header: bool | None = None
    missing: str | None = None
    drop: Sequence[str] = ()

    name = "table"
    suffixes = (".csv", ".tsv", ".data", ".parquet")
    codec = TableCodec

    def read(self, path: Path) -> Dataset:
        if ".parquet" in path.suffixes:
            table = read_parquet(path, self.missing, self.drop)
        else:
            table = read_table(path, self.header, self.missing, self.drop)
        if len(table.rows) < 2:
            below = " below its header" * table.header
            raise InputError(f"{path}: a table needs 2 rows, it has {len(table.rows)}{below}")
        rows, bins = bin_columns(table.rows, self.bins)
        codec = TableCodec.of(table.names, rows, table.types, bins)
        return Dataset(rows, replace(codec, delimiter=table.delimiter, header=table.header))

    def writer(
        self, path: Path | None, codec: TableCodec, count: int
    ) -> AbstractContextManager[Write]:
        return table_writer(path, codec)


class Array(Kind):
    """An array of non-negative integers, records along its first axis."""

    name = "array"
    suffixes = (".npy", ".npz")
    codec = ArrayCodec

    def read(self, path: Path) -> Dataset:
        records, source = read_array(path)
        return Dataset(records, ArrayCodec.of(records), source=source)

    def writer(
        self, path: Path | None, codec: ArrayCodec, count: int
    ) -> AbstractContextManager[Write]:
        return array_writer(path, codec, count)
