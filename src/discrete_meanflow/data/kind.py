"""Kinds of files: how each is told, read into records, and written again."""

import contextlib
import csv
import gzip
import importlib.util
import io
import itertools
import re
import string
import sys
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar, TextIO

import numpy

from discrete_meanflow.data import read
from discrete_meanflow.data.array_codec import ArrayCodec
from discrete_meanflow.data.bins import binned
from discrete_meanflow.data.chemistry import molecule, rdkit, symbol_of
from discrete_meanflow.data.codec import Codec
from discrete_meanflow.data.lines import FastaFile, LineFile, SmilesFile
from discrete_meanflow.data.subword_codec import SubwordCodec
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.data.text_codec import TextCodec
from discrete_meanflow.data.windows import token_windows, windows
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import replace_atomically
from discrete_meanflow.types import State

LONGEST_LINE = 512  # of records that are lines; beyond, a text is cut into windows
WINDOW = 64
READ = 1000  # molecules, to see whether they are any
FASTA = set(string.ascii_letters + "-.*")
# Endings of files that are no text.
NO_TEXT = (".npy", ".npz", ".parquet", ".xlsx", ".xls", ".safetensors", ".onnx", ".zip", ".pdf")
JSON_NAMES = (".json", ".jsonl", ".ndjson")
JSON = re.compile(r"""\s*(\{\s*"|\[\s*[{\["])""")  # how an object begins, or a list of them
Write = Callable[[Any], object]


@dataclass(frozen=True)
class Dataset:
    """Records of a file and the codec that turns them into tokens.

    What is too large for records comes as ``tokens``; ``records`` are then none, or some lines.
    """

    records: Any
    codec: Codec
    tokens: State | None = None
    source: str | None = None  # which of several in a file they are

    @property
    def bare(self) -> Any:
        """The records without their classes."""
        return self.records if self.codec.bare is self.codec else self.records[0]

    def encoded(self) -> State:
        return self.codec.encode(self.records) if self.tokens is None else self.tokens


class Kind(ABC):
    """A kind of file. ``name`` is what a user calls it."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    codec: ClassVar[type[Codec]]

    @abstractmethod
    def read(self, path: Path) -> Dataset: ...

    def of(self, strings: Collection[str]) -> Dataset:
        """Of records that are at hand, where they are strings."""
        raise InputError(f"data: strings are no {self.name}; they can be lines, smiles or fasta")

    @abstractmethod
    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        """Write ``count`` records, some at a time: a function that takes each lot.

        Without a path they are printed.
        """

    def valid(self, records: Any) -> list[bool] | None:
        """Whether each record is what its kind must be, where there is more to it than symbols."""
        return None

    def doubt(self, dataset: Dataset) -> str | None:
        """What seems odd about records, for one who did not mean them so."""
        return None


class Lines(Kind):
    """One record a line."""

    name = "lines"
    codec: ClassVar[type[Codec]] = TextCodec

    def read(self, path: Path) -> Dataset:
        return self.of(LineFile(path))

    def of(self, strings: Collection[str]) -> Dataset:
        return Dataset(strings, TextCodec.of(strings))

    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        with _text(path) as out:
            yield lambda records: out.writelines(f"{record}\n" for record in records)

    def doubt(self, dataset: Dataset) -> str | None:
        # Of a file they are left out; in a list, the last may be what a split left.
        empty = dataset.bare.count("") if isinstance(dataset.bare, list) else 0
        return f"{empty:,} of the records are empty; leave them out?" if empty else None


class Tokenised(Lines):
    """One record a line, in the pieces of a tokenizer."""

    name = "tokenised"
    codec = SubwordCodec

    def __init__(self, tokenizer: Path | None = None) -> None:
        self.tokenizer = tokenizer

    def of(self, strings: Collection[str]) -> Dataset:
        return Dataset(strings, SubwordCodec.of(strings, _given(self.tokenizer)))


class Smiles(Lines):
    """Molecules: the first word of each line, with or without a heading.

    An atom is one symbol with all that binds it, and what only makes sense together cannot come
    apart.
    """

    name = "smiles"
    suffixes = (".smi", ".smiles")

    def read(self, path: Path) -> Dataset:
        return self.of(SmilesFile(path))

    def of(self, strings: Collection[str]) -> Dataset:
        return Dataset(strings, TextCodec.of(strings, symbol_of(strings)))

    def valid(self, records: Sequence[str]) -> list[bool] | None:
        """What RDKit can read; nothing is said where it is not installed."""
        if importlib.util.find_spec("rdkit") is None:
            return None
        chem, _ = rdkit()
        return [molecule(chem, smiles) is not None for smiles in records]

    def doubt(self, dataset: Dataset) -> str | None:
        some = list(itertools.islice(dataset.bare, READ))
        valid = self.valid(some)
        if valid is None or 2 * sum(valid) > len(some):
            return None
        return f"of the first {len(some):,} records RDKit can read {sum(valid):,}; are they SMILES?"


class Windows(Kind):
    """Windows of one long text, new lines included."""

    name = "windows"
    codec: ClassVar[type[Codec]] = TextCodec

    def __init__(self, length: int = WINDOW) -> None:
        self.length = length

    def read(self, path: Path) -> Dataset:
        alphabet, tokens = windows(path, self.length)
        return Dataset(None, TextCodec(alphabet, self.length), tokens)

    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        with _text(path) as out:
            yield lambda records: out.writelines(f"{record}\n\n" for record in records)


class TokenisedWindows(Windows):
    """Windows of one long text, in the pieces of a tokenizer."""

    name = "tokenised-windows"
    codec = SubwordCodec

    def __init__(self, length: int = WINDOW, tokenizer: Path | None = None) -> None:
        super().__init__(length)
        self.tokenizer = tokenizer

    def read(self, path: Path) -> Dataset:
        codec = SubwordCodec.of_text(_given(self.tokenizer), self.length)
        return Dataset(read.beginning(path).splitlines(), codec, token_windows(path, codec))


def _given(tokenizer: Path | None) -> Path:
    if tokenizer is None:
        raise InputError("tokenised text needs a tokenizer: --tokenizer FILE.json")
    return tokenizer


class Fasta(Kind):
    """Sequences behind ``>`` lines."""

    name = "fasta"
    suffixes = (".fasta", ".fa", ".faa", ".fna", ".afa")
    codec = TextCodec

    def read(self, path: Path) -> Dataset:
        return self.of(FastaFile(path))

    def of(self, strings: Collection[str]) -> Dataset:
        return Dataset(strings, TextCodec.of(strings))

    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        written = 0

        def write(records: Sequence[str]) -> None:
            nonlocal written
            for record in records:
                written += 1
                out.write(f">sample_{written}\n{record}\n")

        with _text(path) as out:
            yield write

    def valid(self, records: Sequence[str]) -> list[bool]:
        """Letters, gaps and stops, and something of them."""
        return [bool(record) and set(record) <= FASTA for record in records]

    def doubt(self, dataset: Dataset) -> str | None:
        assert isinstance(dataset.codec.bare, TextCodec)
        letters = dataset.codec.bare.alphabet.symbols
        both = sorted(x for x in letters if x.islower() and x.upper() in letters)
        if not both:
            return None
        return (
            f"small and capital letters are symbols of their own, {both[0]} and {both[0].upper()}"
        )


class Table(Kind):
    """Rows of categorical columns, with commas or tabs between, with or without a heading."""

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
        """bins: values that a column of numbers is cut down to; header: whether the first row
        names the columns, None to guess; missing: what is put into empty cells; without: columns
        to leave out."""
        self.bins, self.header, self.missing, self.drop = bins, header, missing, drop

    def read(self, path: Path) -> Dataset:
        packed = ".parquet" in path.suffixes
        if packed:
            found = read.parquet(path, self.missing, self.drop)
        else:
            found = read.table(path, self.header, self.missing, self.drop)
        if len(found.rows) < 2:
            below = " below its heading" * found.heading
            raise InputError(f"{path}: a table needs 2 rows, it has {len(found.rows)}{below}")
        rows, bins = (found.rows, ()) if self.bins is None else binned(found.rows, self.bins)
        codec = TableCodec.of(found.names, rows, found.types, bins)
        return Dataset(rows, replace(codec, delimiter=found.delimiter, heading=found.heading))

    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        assert isinstance(codec, TableCodec)
        if path is not None and path.suffixes[-2:] == [".parquet", ".gz"]:
            raise InputError(f"{path}: Parquet is packed by itself; FILE.parquet, please")
        if path is not None and path.suffix == ".parquet":
            with _parquet(path, codec) as write:
                yield write
            return
        if path is not None and set(JSON_NAMES) & set(path.suffixes):
            raise InputError(f"{path}: a table is written as CSV, TSV or Parquet; FILE.csv, please")
        with _text(path) as out:
            suffixes = [] if path is None else path.suffixes
            told = {".tsv": "\t", ".csv": codec.delimiter if codec.delimiter == ";" else ","}
            delimiter = next((told[s] for s in suffixes if s in told), codec.delimiter)
            # A cell with half of a line's end in it must be quoted, which csv does not know.
            cells = {codec.names, *codec.levels} if codec.heading else set(codec.levels)
            odd = any("\r" in cell for some in cells for cell in some)
            table = csv.writer(
                out,
                delimiter=delimiter,
                lineterminator="\n",
                quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL,
            )
            if codec.heading:
                table.writerow(codec.names)
            yield table.writerows


class Array(Kind):
    """An array of whole numbers, records along its first axis."""

    name = "array"
    suffixes = (".npy", ".npz")
    codec = ArrayCodec

    def read(self, path: Path) -> Dataset:
        records, source = read.array(path)
        return Dataset(records, ArrayCodec.of(records), source=source)

    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        assert isinstance(codec, ArrayCodec)
        if path is None:  # a record a line, as a clamp is written
            with _text(None) as lines:
                yield lambda records: lines.writelines(
                    ",".join(map(str, each.ravel())) + "\n" for each in records
                )
            return
        smallest = numpy.min_scalar_type(codec.symbols - 1)
        head = {"descr": smallest.str, "fortran_order": False, "shape": (count, *codec.shape)}
        with replace_atomically(path) as partial, _array_file(partial, path.name) as out:
            numpy.lib.format.write_array_header_1_0(out, head)
            yield lambda records: out.write(records.astype(smallest).tobytes())


KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (Lines, Tokenised, Windows, TokenisedWindows, Smiles, Fasta, Table, Array)
}


def find_kind(name: str) -> Kind:
    if name not in KINDS:
        raise InputError(f"unknown kind '{name}'; known: {', '.join(KINDS)}")
    return KINDS[name]()


def detect(path: Path) -> Kind:
    """The kind that a file's name tells, or else its first lines."""
    name = path.name.lower().removesuffix(".gz")
    for kind in KINDS.values():
        if name.endswith(kind.suffixes) and kind.suffixes:
            return kind()
    start = read.beginning(path)
    if name.endswith(JSON_NAMES) or JSON.match(start):
        instead = "make it a .csv; or --kind lines, if a line is a record as it is"
        raise InputError(f"{path} is JSON, whose fields are not told apart; {instead}")
    lines = start.rstrip("\n").split("\n")
    if start.startswith(">"):
        return Fasta()
    # Paragraphs, or lines that no record would fill, make a text.
    if lines.count("") > max(1, len(lines) // 50) or max(map(len, lines)) > LONGEST_LINE:
        return Windows()
    return Table() if read.even_delimiters(lines[:50]) else Lines()


@contextmanager
def _array_file(path: Path, name: str) -> Iterator[IO[bytes]]:
    """What to write an array to, as its name tells."""
    if name.endswith(".npz"):
        with (
            zipfile.ZipFile(path, "w") as packed,
            packed.open(_dateless("samples.npy"), "w", force_zip64=True) as out,
        ):
            yield out
    elif name.endswith((".npy", ".npy.gz")):
        with _opened(path, name.endswith(".gz")) as out:
            yield out
    else:
        raise InputError(f"{name}: arrays are written to FILE.npy, FILE.npy.gz or FILE.npz")


@contextmanager
def _parquet(path: Path, codec: TableCodec) -> Iterator[Write]:
    """A Parquet file to write rows to, a row group for each lot; numbers as such."""
    arrow, parquet = read.pyarrow()
    kinds = {
        "bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64(),
        "str": arrow.string(),
    }  # fmt: skip
    schema = arrow.schema([(n, kinds[t]) for n, t in zip(codec.names, codec.types, strict=True)])

    def write(rows: Sequence[Sequence[str]]) -> None:
        columns = zip(codec.values, zip(*rows, strict=True), strict=True)
        cells = [arrow.array([value[c] for c in column]) for value, column in columns]
        out.write_table(arrow.Table.from_arrays(cells, schema=schema))

    with replace_atomically(path) as partial, parquet.ParquetWriter(partial, schema) as out:
        yield write


@contextmanager
def _text(path: Path | None) -> Iterator[TextIO]:
    """A text file to write, gzipped if its name says so; without a path, what is printed.

    An older file of that name stays until the new one is whole.
    """
    if path is None:
        try:
            with contextlib.suppress(BrokenPipeError):  # as of `dmf sample RUN | head`
                yield sys.stdout
                sys.stdout.flush()
        except OSError as error:
            raise InputError(f"cannot print: {error.strerror or error}") from None
        return
    if path.suffix.lower() in NO_TEXT:
        raise InputError(f"{path}: what is written is text, and {path.suffix} is not")
    with (
        replace_atomically(path) as partial,
        _opened(partial, path.suffix == ".gz") as out,
        io.TextIOWrapper(out, "utf-8", newline="") as text,
    ):
        yield text


def _dateless(name: str) -> zipfile.ZipInfo:
    """An entry of a packed file, without a date."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


@contextmanager
def _opened(path: Path, packed: bool) -> Iterator[IO[bytes]]:
    """A file to write to; packed without its name and date, so that a seed makes the same file."""
    with open(path, "wb") as file:
        if not packed:
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as out:
            yield out  # type: ignore[misc]
