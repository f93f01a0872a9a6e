"""Records in a file of text, read anew at every pass: they need not fit into memory."""

import itertools
import operator
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from discrete_meanflow.data.content import changed, pieces
from discrete_meanflow.errors import InputError

BEHIND = re.compile(r"[\s,;]")  # a molecule, which has none of these
LONGEST_LINE = 10_000_000  # letters; more are no line


def lines(path: Path) -> Iterator[str]:
    """Those of a text, empty ones too."""
    begun = ""
    for text in pieces(path):
        *whole, begun = (begun + text).split("\n")
        yield from whole
        if len(begun) > LONGEST_LINE:
            raise InputError(f"{path}: a line of over {LONGEST_LINE:,} letters")
    yield begun


class RecordFile(Collection[str]):
    """Strings in a file. What is added to it after the first pass is not seen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count: int | None = None  # of records, once they have been read

    @abstractmethod
    def numbered(self) -> Iterator[tuple[int, str]]:
        """The records, each with the line at which it begins."""

    def line(self, number: int) -> int:
        """That of a record, the first of which has number 1."""
        return next(itertools.islice(self.numbered(), number - 1, None))[0]

    def __iter__(self) -> Iterator[str]:
        count, records = 0, map(operator.itemgetter(1), self.numbered())
        for count, each in enumerate(itertools.islice(records, self.count), 1):  # noqa: B007
            yield each
        if not count:
            raise InputError(f"{self.path} is empty: it holds no record")
        if self.count not in (None, count):
            raise changed(self.path)
        self.count = count

    def __len__(self) -> int:
        if self.count is None:
            self.count = sum(1 for _ in self)
        return self.count

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)


def place_of(records: Iterable[str], number: int) -> str:
    """Where a record is, in words: its line, if it is in a file."""
    if isinstance(records, RecordFile):
        return f"line {records.line(number)}"
    return f"record {number}"


class LineFile(RecordFile):
    """One record a line; empty lines are none."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        return filter(operator.itemgetter(1), enumerate(lines(self.path), 1))


class SmilesFile(RecordFile):
    """The first word of each line, with or without a heading; names may follow it."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        words = self._words()
        for line, first in itertools.islice(words, 1):
            if not first.lower().endswith("smiles"):
                yield line, first
        yield from words

    def _words(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(lines(self.path), 1):
            word = BEHIND.split(line.strip(), 1)[0]
            if not word and line.strip():
                raise InputError(f"{self.path}, line {number}: begins with no molecule")
            if word:
                yield number, word


class FastaFile(RecordFile):
    """The sequences behind the ``>`` lines, each joined from its lines; empty ones are none."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        return filter(operator.itemgetter(1), self._sequences())

    def _sequences(self) -> Iterator[tuple[int, str]]:
        parts: list[str] | None = None
        begun = 0
        for number, line in enumerate(lines(self.path), 1):
            if line.startswith(">"):
                if parts is not None:
                    yield begun, "".join(parts)
                parts, begun = [], number
            elif line.strip():
                if parts is None:
                    text = f"{self.path}, line {number}: a sequence before its '>' line"
                    raise InputError(text)
                parts.append(line.strip())
        if parts is None:
            raise InputError(f"{self.path} has no '>' line: not a FASTA file")
        yield begun, "".join(parts)
