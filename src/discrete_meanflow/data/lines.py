"""Records in a text file. Each pass reads the file again, so it need not fit into memory."""

import itertools
import operator
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from discrete_meanflow.data.content import changed_error, text_chunks
from discrete_meanflow.errors import InputError

SMILES_END = re.compile(r"[\s,;]")  # SMILES contain none of these
MAX_LINE = 10_000_000  # characters; anything longer is not a text with lines


def iter_lines(path: Path) -> Iterator[str]:
    """The lines of a text, including empty ones."""
    partial = ""
    for text in text_chunks(path):
        *complete, partial = (partial + text).split("\n")
        yield from complete
        if len(partial) > MAX_LINE:
            raise InputError(
                f"{path}: a line has over {MAX_LINE:,} characters; use --kind windows for one text"
            )
    yield partial


class RecordFile(Collection[str]):
    """Strings in a file. Records appended after the first pass are ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count: int | None = None  # number of records, known after the first pass

    @abstractmethod
    def numbered(self) -> Iterator[tuple[int, str]]:
        """Pairs ``(line, record)`` with the number of the record's first line."""

    def line(self, number: int) -> int:
        """First line of record ``number``; records count from 1."""
        return next(itertools.islice(self.numbered(), number - 1, None))[0]

    def __iter__(self) -> Iterator[str]:
        count, records = 0, map(operator.itemgetter(1), self.numbered())
        for count, record in enumerate(itertools.islice(records, self.count), 1):  # noqa: B007
            yield record
        if not count:
            raise InputError(f"{self.path} is empty: it contains no record")
        if self.count not in (None, count):
            raise changed_error(self.path)
        self.count = count

    def __len__(self) -> int:
        if self.count is None:
            self.count = sum(1 for _ in self)
        return self.count

    def __contains__(self, record: object) -> bool:
        return any(record == other for other in self)


def location_of(records: Iterable[str], number: int) -> str:
    """Where record ``number`` is, for an error message: its line if the records are a file."""
    if isinstance(records, RecordFile):
        return f"line {records.line(number)}"
    return f"record {number}"


class LineFile(RecordFile):
    """One record per line; empty lines are skipped."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        return filter(operator.itemgetter(1), enumerate(iter_lines(self.path), 1))


class SmilesFile(RecordFile):
    """The first word of each line. A header line is skipped; names may follow the SMILES."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        words = self._first_words()
        for line, word in itertools.islice(words, 1):
            if not word.lower().endswith("smiles"):
                yield line, word
        yield from words

    def _first_words(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(iter_lines(self.path), 1):
            word = SMILES_END.split(line.strip(), 1)[0]
            if not word and line.strip():
                raise InputError(f"{self.path}, line {number}: does not begin with a molecule")
            if word:
                yield number, word


class FastaFile(RecordFile):
    """The sequences after the ``>`` lines; lines are joined, empty sequences skipped."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        return filter(operator.itemgetter(1), self._sequences())

    def _sequences(self) -> Iterator[tuple[int, str]]:
        parts: list[str] | None = None
        first = 0
        for number, line in enumerate(iter_lines(self.path), 1):
            if line.startswith(">"):
                if parts is not None:
                    yield first, "".join(parts)
                parts, first = [], number
            elif line.strip():
                if parts is None:
                    raise InputError(
                        f"{self.path}, line {number}: a sequence before its '>' line; add one"
                    )
                parts.append(line.strip())
        if parts is None:
            raise InputError(f"{self.path} has no '>' line: not a FASTA file")
        yield first, "".join(parts)
