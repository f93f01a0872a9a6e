"""Kinds of data: how each is read and written."""

import importlib.util
import itertools
import string
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from discrete_meanflow.data.array_codec import ArrayCodec, read_array
from discrete_meanflow.data.chemistry import choose_symbols, draw_molecule, parse_molecule
from discrete_meanflow.data.codec import Codec, Dataset
from discrete_meanflow.data.content import FastaFile, LineFile, RecordFile, SmilesFile, beginning
from discrete_meanflow.data.read_table import Rows, read_parquet, read_table
from discrete_meanflow.data.subword_codec import SubwordCodec
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.data.text_codec import TextCodec
from discrete_meanflow.data.windows import subword_windows, windows
from discrete_meanflow.data.write import Write, array_writer, table_writer, text_writer
from discrete_meanflow.errors import InputError

WINDOW = 64  # default length of windows
MOLECULES_CHECKED = 1000
FASTA_SYMBOLS = set(string.ascii_letters + "-.*")


class Kind(ABC):
    """A kind of data. ``name`` is its word on the command line."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    codec: ClassVar[type[Codec]]

    @abstractmethod
    def read(self, path: Path) -> Dataset: ...

    def of(self, strings: Collection[str]) -> Dataset:
        """Dataset of strings in memory, for the kinds whose records are strings."""
        raise InputError(
            f"data: kind '{self.name}' does not take strings; choose lines, smiles or fasta"
        )

    @abstractmethod
    def writer(self, path: Path | None, codec: Any, count: int) -> AbstractContextManager[Write]:
        """A function that writes one chunk of records per call, ``count`` records in all.

        Without a path, the records are printed.
        """

    def valid(self, records: Any) -> list[bool] | None:
        """Whether each record is well-formed; None if this kind has no such notion."""
        return None

    def drawings(self, records: Any) -> list[str] | None:
        """An SVG drawing of each record; None if this kind has none."""
        return None

    def warning(self, dataset: Dataset) -> str | None:
        """A warning about records that the user may not have intended."""
        return None


class TextKind(Kind):
    """Strings; ``template`` formats each record in the file that is written."""

    codec: ClassVar[type[Codec]] = TextCodec
    template: ClassVar[str] = "{record}\n"

    @contextmanager
    def writer(self, path: Path | None, codec: Codec, count: int) -> Iterator[Write]:
        numbers = itertools.count(1)
        with text_writer(path) as out:
            yield lambda records: out.writelines(
                self.template.format(record=record, number=next(numbers)) for record in records
            )


class Lines(TextKind):
    """One record per line."""

    name = "lines"
    file: ClassVar[type[RecordFile]] = LineFile

    def read(self, path: Path) -> Dataset:
        return self.of(self.file(path))

    def of(self, strings: Collection[str]) -> Dataset:
        return Dataset(strings, TextCodec.of(strings))

    def warning(self, dataset: Dataset) -> str | None:
        # A file skips empty lines; a list from str.split may end with an empty string.
        empty = dataset.bare.count("") if isinstance(dataset.bare, list) else 0
        return f"{empty:,} of the records are empty; remove them?" if empty else None


@dataclass
class Tokenised(Lines):
    """One record per line, in the subwords of a tokenizer."""

    tokenizer: Path | None = None

    name = "tokenised"
    codec = SubwordCodec

    def of(self, strings: Collection[str]) -> Dataset:
        return Dataset(strings, SubwordCodec.of(strings, self.tokenizer))


class Smiles(Lines):
    """Molecules as SMILES: the first word of each line, with or without a header line.

    A symbol is an atom with its bonds, ring closures and branches (see ``choose_symbols``).
    """

    name = "smiles"
    suffixes = (".smi", ".smiles")
    file = SmilesFile

    def of(self, strings: Collection[str]) -> Dataset:
        return Dataset(strings, TextCodec.of(strings, choose_symbols(strings)))

    def valid(self, records: Sequence[str]) -> list[bool] | None:
        """Whether RDKit can parse each record; None without RDKit."""
        if importlib.util.find_spec("rdkit") is None:
            return None
        return [parse_molecule(smiles) is not None for smiles in records]

    def drawings(self, records: Sequence[str]) -> list[str] | None:
        """Structural formulas, empty for invalid molecules; None without RDKit."""
        if importlib.util.find_spec("rdkit") is None:
            return None
        return [draw_molecule(smiles) for smiles in records]

    def warning(self, dataset: Dataset) -> str | None:
        records = list(itertools.islice(dataset.bare, MOLECULES_CHECKED))
        valid = self.valid(records)
        if valid is None or 2 * sum(valid) > len(records):
            return None
        return f"RDKit can parse {sum(valid):,} of the first {len(records):,} records: not SMILES?"


class Fasta(Lines):
    """Sequences after ``>`` lines."""

    name = "fasta"
    suffixes = (".fasta", ".fa", ".faa", ".fna", ".afa")
    file = FastaFile
    template = ">sample_{number}\n{record}\n"

    def valid(self, records: Sequence[str]) -> list[bool]:
        """Whether each record is not empty and has only letters, gaps and stops."""
        return [bool(record) and set(record) <= FASTA_SYMBOLS for record in records]

    def warning(self, dataset: Dataset) -> str | None:
        assert isinstance(dataset.codec.bare, TextCodec)
        symbols = dataset.codec.bare.alphabet.symbols
        both = sorted(s for s in symbols if s.islower() and s.upper() in symbols)
        if not both:
            return None
        return f"lower and upper case are distinct symbols, such as {both[0]} and {both[0].upper()}"


@dataclass
class Windows(TextKind):
    """Windows of one long text, including line breaks."""

    length: int = WINDOW

    name = "windows"
    template = "{record}\n\n"

    def read(self, path: Path) -> Dataset:
        alphabet, tokens = windows(path, self.length)
        return Dataset(None, TextCodec(alphabet, self.length), tokens)


@dataclass
class TokenisedWindows(Windows):
    """Windows of one long text, in the subwords of a tokenizer."""

    tokenizer: Path | None = None

    name = "tokenised-windows"
    codec = SubwordCodec

    def read(self, path: Path) -> Dataset:
        codec = SubwordCodec.of_text(self.tokenizer, self.length)
        return Dataset(beginning(path).splitlines(), codec, subword_windows(path, codec))


@dataclass
class Table(Kind):
    """Rows of levels, numbers, dates and times: delimited text or Parquet.

    Args:
        header: whether the first row names the columns; None guesses.
        drop: columns to leave out.
        column_kinds: ``levels`` or ``number`` for columns that are not what their cells look like.
    """

    header: bool | None = None
    drop: Sequence[str] = ()
    column_kinds: Mapping[str, str] = field(default_factory=dict)

    name = "table"
    suffixes = (".csv", ".tsv", ".data", ".parquet")
    codec = TableCodec

    def rows(self, path: Path) -> Rows:
        """The rows of a file."""
        if ".parquet" in path.suffixes:
            return read_parquet(path, self.drop)
        return read_table(path, self.header, self.drop)

    def read(self, path: Path) -> Dataset:
        table = self.rows(path)
        if len(table.rows) < 2:
            below = " below its header" * table.header
            raise InputError(f"{path}: a table needs 2 rows, it has {len(table.rows)}{below}")
        names, rows, delimiter, header, types = table
        codec = TableCodec.of(
            names, rows, types, self.column_kinds, delimiter=delimiter, header=header
        )
        return Dataset(rows, codec)

    def writer(self, path: Path | None, codec: Any, count: int) -> AbstractContextManager[Write]:
        return table_writer(path, codec)


class Array(Kind):
    """An array of non-negative integers, records along its first axis."""

    name = "array"
    suffixes = (".npy", ".npz")
    codec = ArrayCodec

    def read(self, path: Path) -> Dataset:
        records, source = read_array(path)
        return Dataset(records, ArrayCodec.of(records), source=source)

    def writer(self, path: Path | None, codec: Any, count: int) -> AbstractContextManager[Write]:
        return array_writer(path, codec, count)


KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (Lines, Tokenised, Windows, TokenisedWindows, Smiles, Fasta, Table, Array)
}


def find_kind(name: str) -> Kind:
    if name not in KINDS:
        raise InputError(f"unknown kind '{name}'; choose one of {', '.join(KINDS)}")
    return KINDS[name]()
