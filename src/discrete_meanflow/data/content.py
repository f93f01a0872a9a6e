"""Contents of a file, gzipped or not: bytes, text, or text in chunks."""

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from discrete_meanflow.errors import InputError

CHUNK_BYTES = 1 << 22  # read at once
GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_decompressed(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; gzip is recognised by the suffix or the first bytes."""
    try:
        with open(path, "rb") as file:
            gzipped = path.suffix == ".gz" or file.read(2) == GZIP_MAGIC
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if gzipped else file  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"cannot read {path}: {reason}") from None


def beginning(path: Path, size: int = 100_000) -> str:
    """Text of the first ``size`` bytes, to detect the kind of a file."""
    with open_decompressed(path) as file:
        start = file.read(size).decode("utf-8-sig", errors="ignore")
    return re.sub("\r\n?", "\n", start)


def read_text(path: Path) -> str:
    """A whole file with its own line endings, decoded as UTF-8."""
    return "".join(text_chunks(path, translate=False))


def text_chunks(path: Path, translate: bool = True) -> Iterator[str]:
    """The text of a file without a byte-order mark, a few million characters at a time.

    Args:
        translate: whether every line ending becomes ``\\n``.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate)
    lines = 1
    try:
        with open_decompressed(path) as file:
            while content := file.read(CHUNK_BYTES):
                chunk = decoder.decode(content)
                lines += chunk.count("\n")
                yield chunk
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = lines + error.object[: error.start].count(b"\n")
        raise InputError(f"{path}, line {line}: not UTF-8 text") from None


def changed_error(path: Path) -> InputError:
    """The error for a file that differs between two passes over it."""
    return InputError(f"{path} changed while it was read; run the command again")
