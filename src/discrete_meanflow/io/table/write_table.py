"""Write the rows of a table."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import output_path
from discrete_meanflow.io.table.arrow_table import ArrowTables, arrow_type, import_pyarrow
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.frame import Dtype
from discrete_meanflow.io.table.rows import Rows
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.io.write import Write, text_writer

JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
TYPES = {
    "bool": "bool", "int": "int64", "float": "float64", "date": "date32",
    "datetime": "timestamp[us]", "time": "time64[us]", "str": "string",
}  # fmt: skip


@contextmanager
def table_writer(path: Path | None, codec: TableCodec) -> Iterator[Write]:
    """A function that writes rows as CSV, TSV or Parquet."""
    suffixes = [] if path is None else path.suffixes
    if suffixes[-2:] == [".parquet", ".gz"]:
        raise InputError(f"{path}: Parquet is compressed already; write to FILE.parquet")
    if path is not None and path.suffix == ".parquet":
        with _parquet_writer(path, codec) as write:
            yield write
        return
    if set(JSON_SUFFIXES) & set(suffixes):
        raise InputError(
            f"{path}: a table is written as CSV, TSV or Parquet; write to FILE.csv, for example"
        )
    with text_writer(path) as out:
        by_suffix = {".tsv": "\t", ".csv": codec.delimiter if codec.delimiter == ";" else ","}
        delimiter = next((by_suffix[s] for s in suffixes if s in by_suffix), codec.delimiter)
        # The csv module does not quote a lone carriage return; the dialect unix quotes all cells.
        texts = [*codec.names * codec.header, *(x for c in codec.columns for x in c.leaf_names())]
        dialect = "unix" if any("\r" in text for text in texts) else "excel"
        table = csv.writer(out, dialect, delimiter=delimiter, lineterminator="\n")
        if codec.header:
            table.writerow(codec.names)
        yield table.writerows


@contextmanager
def _parquet_writer(path: Path, codec: TableCodec) -> Iterator[Write]:
    """A function that writes rows to a Parquet file, one row group per call."""
    arrow, parquet = import_pyarrow()
    in_file = codec.frame in (None, ArrowTables.name) and codec.dtypes
    dtypes = codec.dtypes if in_file else tuple(map(_arrow_dtype, codec.columns))
    types = [arrow_type(dtype.name) for dtype in dtypes]
    schema = arrow.schema(list(zip(codec.names, types, strict=True)))

    def write(rows: Iterable[Sequence[str]]) -> None:
        out.write_table(ArrowTables().made(codec.names, Rows.of(rows), dtypes))

    with output_path(path) as partial, parquet.ParquetWriter(partial, schema) as out:
        yield write


def _arrow_dtype(column: Column) -> Dtype:
    """The type in Arrow of a column of text."""
    return Dtype(TYPES[column.type], column.type)
