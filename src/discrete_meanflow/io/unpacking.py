"""A limit on what a compressed file unpacks to: a few megabytes may hold terabytes."""

import gzip
from pathlib import Path
from typing import BinaryIO

from discrete_meanflow.errors import InputError

MOST_TIMES = 50  # its size; gzip reaches a thousand, text and tables of records 3 to 20
ALWAYS_READ = 2**27  # bytes that a file of any size may unpack to


def check_unpacked(path: Path, unpacked: int) -> None:
    """Raise if a file unpacks to more bytes than its size lets expect."""
    if unpacked > most_unpacked(path):
        raise InputError(
            f"{path} unpacks to over {MOST_TIMES} times its size; if you trust it, convert it to a "
            "file without compression"
        )


def most_unpacked(path: Path) -> int:
    """Bytes that a compressed file may unpack to."""
    return max(ALWAYS_READ, MOST_TIMES * path.stat().st_size)


class UnpackedFile(gzip.GzipFile):
    """A gzipped file that is read up to the limit, however much it unpacks to."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        super().__init__(fileobj=file)
        self.path, self.limit = path, most_unpacked(path)

    def read(self, size: int | None = -1) -> bytes:
        check_unpacked(self.path, self.tell())
        left = self.limit + 1 - self.tell()
        content = super().read(left if size is None or size < 0 else min(size, left))
        check_unpacked(self.path, self.tell())
        return content
