"""Large temporary arrays: in memory up to a limit, beyond it in a temporary file."""

import os
import tempfile

import numpy

from discrete_meanflow.errors import InputError

MAX_IN_MEMORY = 1 << 26  # bytes
DISK_FOLDER = "/var/tmp"  # on disk, whereas /tmp may be in memory


def scratch_array(shape: tuple[int, ...], dtype: numpy.dtype) -> numpy.ndarray:
    """Uninitialised writable array; a large one is a memory-mapped file without a name.

    The file is allocated at once: a disk that fills up later would kill the process silently.
    """
    size = dtype.itemsize * int(numpy.prod(shape, dtype=numpy.int64))
    if size <= MAX_IN_MEMORY:
        return numpy.empty(shape, dtype)
    on_disk = "TMPDIR" not in os.environ and os.access(DISK_FOLDER, os.W_OK)
    folder = DISK_FOLDER if on_disk else tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(prefix="dmf-", dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            return numpy.memmap(file, dtype, "r+", shape=shape)
    except OSError as error:
        raise InputError(
            f"cannot allocate {size:,} bytes in {folder}: {error.strerror or error}; set TMPDIR "
            "to a folder with more space"
        ) from None
