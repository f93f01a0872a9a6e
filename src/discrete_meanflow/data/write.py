"""Write records to a file or to standard output.

An existing file is replaced only when the new one is complete. Into a device or a pipe, text and
``.npy`` are written as they are generated; other formats, when complete. Archives contain neither
names nor dates, so the same seed gives the same bytes.
"""

import csv
import gzip
import io
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, TextIO

import numpy

from discrete_meanflow.data.array_codec import ArrayCodec
from discrete_meanflow.data.read_table import import_pyarrow
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import is_stream, open_output, output_path

BINARY_SUFFIXES = (
    ".npy", ".npz", ".parquet", ".xlsx", ".xls", ".safetensors", ".onnx", ".zip", ".pdf"
)  # fmt: skip
ARRAY_SUFFIXES = (".npy", ".npy.gz", ".npz")
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
Write = Callable[[Any], object]


@contextmanager
def text_writer(path: Path | None) -> Iterator[TextIO]:
    """A text file to write, gzipped if its name ends in .gz; standard output without a path."""
    if path is None:
        if sys.stdout is None:
            raise InputError("cannot print: standard output is closed; use --out FILE")
        try:
            with suppress(BrokenPipeError):  # as in `dmf sample RUN | head`
                yield sys.stdout
                sys.stdout.flush()
        except OSError as error:
            raise InputError(f"cannot print: {error.strerror or error}") from None
        return
    if path.suffix.lower() in BINARY_SUFFIXES:
        raise InputError(
            f"{path}: these records are written as text; choose a name without {path.suffix}"
        )
    with (
        open_output(path) as file,
        _compressed(file, path.suffix == ".gz") as out,
        io.TextIOWrapper(out, "utf-8", newline="") as text,
    ):
        yield text


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
    types = {
        "bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64(),
        "date": arrow.date32(), "datetime": arrow.timestamp("us"), "time": arrow.time64("us"),
        "str": arrow.string(),
    }  # fmt: skip
    schema = arrow.schema([(column.name, types[column.type]) for column in codec.columns])

    def write(rows: Sequence[Sequence[str]]) -> None:
        cells = zip(codec.columns, schema.types, zip(*rows, strict=True), strict=True)
        arrays = [arrow.array([c.value(x) for x in texts], kind) for c, kind, texts in cells]
        out.write_table(arrow.Table.from_arrays(arrays, schema=schema))

    with output_path(path) as partial, parquet.ParquetWriter(partial, schema) as out:
        yield write


@contextmanager
def array_writer(path: Path | None, codec: ArrayCodec, count: int) -> Iterator[Write]:
    """A function that writes ``count`` arrays in all.

    Without a path it prints them; a device or a pipe without a suffix gets the same.
    """
    if path is None or (not path.name.endswith(ARRAY_SUFFIXES) and is_stream(path)):
        # One record per line, in the notation of an infilling pattern.
        with text_writer(path) as text:
            yield lambda records: text.writelines(
                ",".join(map(str, record.ravel())) + "\n" for record in records
            )
        return
    dtype = numpy.min_scalar_type(codec.symbols - 1)
    header = {"descr": dtype.str, "fortran_order": False, "shape": (count, *codec.shape)}
    with _open_array_file(path) as out:
        numpy.lib.format.write_array_header_1_0(out, header)
        yield lambda records: out.write(records.astype(dtype).tobytes())


@contextmanager
def _open_array_file(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for one array in the format that its suffix selects."""
    if path.name.endswith(".npz"):
        entry = zipfile.ZipInfo("samples.npy")
        entry.compress_type = zipfile.ZIP_DEFLATED
        with (
            output_path(path) as partial,
            zipfile.ZipFile(partial, "w") as archive,
            archive.open(entry, "w", force_zip64=True) as out,
        ):
            yield out
    elif path.name.endswith(ARRAY_SUFFIXES):
        with open_output(path) as file, _compressed(file, path.name.endswith(".gz")) as out:
            yield out
    else:
        raise InputError(f"{path.name}: arrays are written to FILE.npy, FILE.npy.gz or FILE.npz")


def _compressed(file: IO[bytes], gzipped: bool) -> AbstractContextManager[Any]:
    """The file, or gzip on top of it."""
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0) if gzipped else nullcontext(file)
