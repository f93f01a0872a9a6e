"""Kinds of data whose records are rows or arrays."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from discrete_meanflow.data.array_codec import ArrayCodec
from discrete_meanflow.data.bins import bin_columns
from discrete_meanflow.data.codec import Codec, Dataset
from discrete_meanflow.data.kind.base import Kind
from discrete_meanflow.data.read_array import read_array
from discrete_meanflow.data.read_table import read_parquet, read_table
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.data.write import Write, array_writer, table_writer
from discrete_meanflow.errors import InputError


class Table(Kind):
    """Rows of categorical columns: delimited text or Parquet.

    Args:
        bins: number of bins for numeric columns with more values; None keeps all values.
        header: whether the first row names the columns; None guesses.
        missing: replaces empty cells; if None, an empty cell is an error.
        drop: columns to leave out.
    """

    name = "table"
    suffixes = (".csv", ".tsv", ".data", ".parquet")
    codec = TableCodec

    def __init__(
        self,
        bins: int | None = None,
        header: bool | None = None,
        missing: str | None = None,
        drop: Sequence[str] = (),
    ) -> None:
        self.bins, self.header, self.missing, self.drop = bins, header, missing, drop

    def read(self, path: Path) -> Dataset:
        if ".parquet" in path.suffixes:
            table = read_parquet(path, self.missing, self.drop)
        else:
            table = read_table(path, self.header, self.missing, self.drop)
        if len(table.rows) < 2:
            below = " below its header" * table.header
            raise InputError(f"{path}: a table needs 2 rows, it has {len(table.rows)}{below}")
        rows, bins = (table.rows, ()) if self.bins is None else bin_columns(table.rows, self.bins)
        codec = TableCodec.of(table.names, rows, table.types, bins)
        return Dataset(rows, replace(codec, delimiter=table.delimiter, header=table.header))

    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        assert isinstance(codec, TableCodec)
        with table_writer(path, codec) as write:
            yield write


class Array(Kind):
    """An array of non-negative integers, records along its first axis."""

    name = "array"
    suffixes = (".npy", ".npz")
    codec = ArrayCodec

    def read(self, path: Path) -> Dataset:
        records, source = read_array(path)
        return Dataset(records, ArrayCodec.of(records), source=source)

    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        assert isinstance(codec, ArrayCodec)
        with array_writer(path, codec, count) as write:
            yield write
