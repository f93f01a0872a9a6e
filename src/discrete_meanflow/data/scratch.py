"""Room for many numbers: in memory where they are few, else in a file that is gone with them."""

import os
import tempfile

import numpy

from discrete_meanflow.errors import InputError

FEW = 1 << 26  # bytes


def room(shape: tuple[int, ...], kind: numpy.dtype) -> numpy.ndarray:
    """An array to be written to. A file's room is taken at once: a disk that is full later would
    end the program without a word."""
    size = kind.itemsize * int(numpy.prod(shape, dtype=numpy.int64))
    if size <= FEW:
        return numpy.empty(shape, kind)
    lasting = "/var/tmp"  # on a disk, where /tmp may be memory
    told = "TMPDIR" in os.environ
    folder = lasting if not told and os.access(lasting, os.W_OK) else tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(prefix="dmf-", dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            return numpy.memmap(file, kind, "r+", shape=shape)
    except OSError as error:
        raise InputError(
            f"no room for {size:,} bytes in {folder}: {error.strerror or error}; another folder "
            "can be named in TMPDIR"
        ) from None
