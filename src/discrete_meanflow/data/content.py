"""What is in a file, gzipped or not: its bytes, its text, its text piece by piece."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from discrete_meanflow.errors import InputError

PIECE = 1 << 22  # bytes read at once


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, gzipped or not: its name tells, or its first bytes."""
    try:
        with open(path, "rb") as plain:
            packed = path.suffix == ".gz" or plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            yield gzip.GzipFile(fileobj=plain) if packed else plain  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"cannot read {path}: {what}") from None


def text(path: Path) -> str:
    """A whole file as UTF-8."""
    with unpacked(path) as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text") from None


def pieces(path: Path) -> Iterator[str]:
    """The text of a file, gzipped or not, some millions of characters at a time."""
    # Without the mark that some editors begin with, and new lines of one kind.
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), True)
    lines = 1
    try:
        with unpacked(path) as file:
            while content := file.read(PIECE):
                piece = decoder.decode(content)
                lines += piece.count("\n")
                yield piece
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = lines + error.object[: error.start].count(b"\n")
        raise InputError(f"{path}, line {line}: not UTF-8 text") from None


def changed(path: Path) -> InputError:
    """What is read in several passes must stay as it is."""
    return InputError(f"{path} changed while it was read")
