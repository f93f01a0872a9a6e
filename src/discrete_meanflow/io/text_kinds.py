"""Kinds of data whose records are strings."""

import importlib.util
import itertools
import string
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from discrete_meanflow.io.chemistry import choose_symbols, draw_molecule, parse_molecule
from discrete_meanflow.io.codec import Codec, Dataset
from discrete_meanflow.io.content import FastaFile, LineFile, RecordFile, SmilesFile, beginning
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.subword_codec import SubwordCodec
from discrete_meanflow.io.text_codec import TextCodec
from discrete_meanflow.io.windows import subword_windows, windows
from discrete_meanflow.io.write import Write, text_writer

WINDOW = 64  # default length of windows
MOLECULES_CHECKED = 1000
FASTA_SYMBOLS = set(string.ascii_letters + "-.*")


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
    aligned = True
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
    one_text = True
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
