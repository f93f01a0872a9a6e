"""Atomic writes, folder locks, and reads that cannot block."""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from discrete_meanflow.errors import InputError

MOST_BYTES = 2**30  # of a file that is read into memory at once


@contextlib.contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path`` that replaces it on success.

    On failure the old file stays. A reader sees the old content or the new one, never a mixture.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())  # before the rename, which may reach the disk first
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to a temporary file, flush it to disk and rename it to ``path``."""
    with replace_atomically(path) as temporary, open(temporary, "wb") as file:
        file.write(content)


def check_regular_file(path: Path, remedy: str = "replace it with a file, or remove it") -> None:
    """Raise unless ``path`` is a regular file: a pipe would block, a device may never end."""
    if not path.is_file():
        state = "is not a regular file" if os.path.lexists(path) else "does not exist"
        raise InputError(f"{path} {state}; {remedy}")


def read_regular_file(path: Path) -> bytes:
    """Return the content of a regular file of at most ``MOST_BYTES``."""
    check_regular_file(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} is larger than {MOST_BYTES:,} bytes; move it away")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def make_folder(folder: Path) -> list[str]:
    """Create a folder if it does not exist; return the names of its entries."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.listdir(folder)
    except OSError as error:
        raise InputError(f"cannot make {folder}: {error.strerror}") from None


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes. The lock ends with its process."""
    try:
        import fcntl
    except ImportError:  # not available on this system
        yield
        return
    try:
        lock = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot open {folder}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InputError(f"{folder} is being trained by another process") from None
    except OSError:
        pass  # a file system without locks
    try:
        yield
    finally:
        os.close(lock)


def remove_temporary_files(folder: Path) -> None:
    """Remove what killed writers left behind. The caller must hold the lock of the folder."""
    for temporary in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            temporary.unlink()
