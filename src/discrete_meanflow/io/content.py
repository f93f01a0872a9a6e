"""Contents of a file, gzipped or not: bytes, text, records.

Each pass over the records reads the file again, so it need not fit into memory.
"""

import codecs
import io
import itertools
import operator
import re
import zlib
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.unpacking import UnpackedFile

CHUNK_BYTES = 1 << 22  # read at once
GZIP_MAGIC = b"\x1f\x8b"
SMILES_END = re.compile(r"[\s,;]")  # SMILES contain none of these
UNREAD = {
    **dict.fromkeys(
        ("xlsx", "xls", "ods"),
        "a workbook; save its sheet as .csv, or use OneStepModel.fit(pandas.read_excel(...))",
    ),
    **dict.fromkeys(("zip", "tar", "tgz", "7z"), "an archive; unpack it and pass one file"),
    **dict.fromkeys(
        ("png", "jpg", "jpeg"), "a picture; collect the pictures of a data set in one .npy array"
    ),
    **dict.fromkeys(("pkl", "pickle"), "a pickle, which may run code; save it as .parquet or .npy"),
}  # what files of other formats are, and what to do
MAX_LINE = 10_000_000  # characters; anything longer is not a text with lines


@contextmanager
def open_decompressed(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; gzip is recognised by the suffix or the first bytes."""
    try:
        with open(path, "rb") as file:
            gzipped = path.suffix == ".gz" or file.read(2) == GZIP_MAGIC
            file.seek(0)
            yield UnpackedFile(path, file) if gzipped else file  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"cannot read {path}: {reason}") from None


def beginning(path: Path, size: int = 100_000) -> str:
    """Text of the first ``size`` bytes, to detect the kind of a file."""
    with open_decompressed(path) as file:
        start = file.read(size)
        text = start.decode(_encoding(start), errors="ignore")
    return re.sub("\r\n?", "\n", text)


def _encoding(start: bytes) -> str:
    """The encoding of a text with these first bytes: UTF-16 if it has that byte-order mark."""
    is_utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if is_utf16 else "utf-8-sig"


def check_readable(path: Path) -> None:
    """Raise for a folder, and for a file of a format that is not read, with what to do."""
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if path.is_dir():
        run = (path / "config.json").exists()
        advice = f"use dmf sample {path}" if run else "pass one of its files"
        raise InputError(f"{path} is a {'run folder' if run else 'folder'}, not a file; {advice}")
    suffix = path.name.lower().rpartition(".")[2]
    if suffix in UNREAD:
        raise InputError(f"{path} is {UNREAD[suffix]}")


def read_text(path: Path) -> str:
    """A whole file with its own line endings, decoded as UTF-8."""
    return "".join(text_chunks(path, translate=False))


def text_chunks(path: Path, translate: bool = True) -> Iterator[str]:
    """The text of a file without a byte-order mark, a few million characters at a time.

    Args:
        translate: whether every line ending becomes ``\\n``.
    """
    lines = 1
    try:
        with open_decompressed(path) as file:
            encoding = _encoding(file.read(2))
            file.seek(0)
            text = codecs.getincrementaldecoder(encoding)()
            decoder = io.IncrementalNewlineDecoder(text, translate)
            while content := file.read(CHUNK_BYTES):
                chunk = decoder.decode(content)
                lines += chunk.count("\n")
                yield chunk
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = lines + error.object[: error.start].count(b"\n")
        raise InputError(
            f"{path}, line {line}: not {error.encoding[:6].upper()} text; convert the file, as "
            "with iconv -f LATIN1 -t UTF-8 FILE"
        ) from None


def changed_error(path: Path) -> InputError:
    """The error for a file that differs between two passes over it."""
    return InputError(f"{path} changed while it was read; run the command again")


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


def iter_line_ends(path: Path) -> Iterator[str]:
    """The lines of a text with their own line endings, a few million characters at a time."""
    partial = ""
    for text in text_chunks(path, translate=False):
        lines = io.StringIO(partial + text, newline="").readlines()
        partial = lines.pop() if lines else ""
        yield from lines
        if len(partial) > MAX_LINE:
            raise InputError(f"{path}: a line has over {MAX_LINE:,} characters")
    if partial:
        yield partial


class RecordFile(Collection[str]):
    """Strings in a file. Records appended after the first pass are ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count: int | None = None  # number of records, known after the first pass

    @abstractmethod
    def parse(self) -> Iterator[tuple[int, str]]:
        """Pairs ``(line, record)`` with the number of the record's first line."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        """``parse`` without empty records."""
        return filter(operator.itemgetter(1), self.parse())

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

    def parse(self) -> Iterator[tuple[int, str]]:
        return enumerate(iter_lines(self.path), 1)


class SmilesFile(RecordFile):
    """The first word of each line. A header line is skipped; names may follow the SMILES."""

    def parse(self) -> Iterator[tuple[int, str]]:
        before_first = True
        for number, line in enumerate(iter_lines(self.path), 1):
            word = SMILES_END.split(line.strip(), 1)[0]
            if not word and line.strip():
                raise InputError(f"{self.path}, line {number}: does not begin with a molecule")
            if not (before_first and word.lower().endswith("smiles")):
                yield number, word
            before_first = before_first and not word


class FastaFile(RecordFile):
    """The sequences after the ``>`` lines; lines are joined, empty sequences skipped."""

    def parse(self) -> Iterator[tuple[int, str]]:
        first, parts = 0, [""]
        for number, line in enumerate(iter_lines(self.path), 1):
            if line.startswith(">"):
                yield first, "".join(parts)
                first, parts = number, []
            elif line.strip() and not first:
                raise InputError(
                    f"{self.path}, line {number}: a sequence before its '>' line; add one"
                )
            else:
                parts.append(line.strip())
        if not first:
            raise InputError(f"{self.path} has no '>' line: not a FASTA file")
        yield first, "".join(parts)
