"""Write records to a file or to standard output.

An existing file is replaced only when the new one is complete. Into a device or a pipe, text and
``.npy`` are written as they are generated; other formats, when complete. Archives contain neither
names nor dates, so the same seed gives the same bytes.
"""

import gzip
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, TextIO

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import open_output

BINARY_SUFFIXES = (
    ".npy", ".npz", ".parquet", ".xlsx", ".xls", ".safetensors", ".onnx", ".zip", ".pdf"
)  # fmt: skip
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
        compressed(file, path.suffix == ".gz") as out,
        io.TextIOWrapper(out, "utf-8", newline="") as text,
    ):
        yield text


def compressed(file: IO[bytes], gzipped: bool) -> AbstractContextManager[Any]:
    """The file, or gzip on top of it."""
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0) if gzipped else nullcontext(file)
