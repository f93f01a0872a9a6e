"""The kind of tables."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Dataset
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.table.read_table import TableFile, read_parquet, read_table
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.io.table.write_table import table_writer
from discrete_meanflow.io.write import Write


@dataclass
class Table(Kind):
    """Rows of levels, numbers, dates and times: delimited text or Parquet.

    Args:
        header: whether the first row names the columns; None guesses.
        drop: columns to leave out.
        column_kinds: ``levels`` or ``number`` for columns that are not what their cells look like.
        constraints: that hold in all generated rows.
    """

    header: bool | None = None
    drop: Sequence[str] = ()
    column_kinds: Mapping[str, str] = field(default_factory=dict)
    constraints: Sequence[str] = ()

    name = "table"
    suffixes = (".csv", ".tsv", ".data", ".parquet")
    codec = TableCodec
    known_pairs = True

    def rows(self, path: Path) -> TableFile:
        """The rows of a file."""
        if ".parquet" in path.suffixes:
            return read_parquet(path, self.drop)
        return read_table(path, self.header, self.drop)

    def read(self, path: Path) -> Dataset:
        table = self.rows(path)
        if len(table.rows) < 2:
            below = " below its header" * table.header
            raise InputError(f"{path}: a table needs 2 rows, it has {len(table.rows)}{below}")
        names, rows, delimiter, header, dtypes = table
        codec = TableCodec.of(
            names, rows, self.column_kinds, dtypes, delimiter=delimiter, header=header
        )
        return Dataset(rows, codec.with_constraints(self.constraints))

    def hints(self, dataset: Dataset) -> dict[str, str]:
        assert isinstance(dataset.codec, TableCodec)
        hints = super().hints(dataset)
        if self.header is None and not dataset.codec.header:
            hints["header"] = "none found; use --header yes if the first row names the columns"
        return hints

    def writer(self, path: Path | None, codec: Any, count: int) -> AbstractContextManager[Write]:
        return table_writer(path, codec)
