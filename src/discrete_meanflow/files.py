"""Writing a file so that whoever reads it finds the old one or the new one, whole."""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from discrete_meanflow.errors import InputError

MOST_TEXT = 2**30  # bytes of a text that is read at once


@contextlib.contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to, which takes its place at the end.

    Until then, and if anything goes wrong, what was there before stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())  # before its name is: a rename may reach the disk first
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file beside ``path``, flush it to disk and rename it to ``path``."""
    with replace_atomically(path) as temporary, open(temporary, "wb") as file:
        file.write(content)


def read_regular_file(path: Path) -> bytes:
    """A text of a run, if it is a file: a pipe would be waited for, and a device may never end."""
    if not path.is_file():
        raise InputError(f"{path} is no file: put the file in its place, or remove it")
    try:
        if path.stat().st_size > MOST_TEXT:
            raise InputError(f"{path} has more than {MOST_TEXT:,} bytes: move it away")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def make_folder(folder: Path) -> list[str]:
    """If it is not there; the names of what it holds."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.listdir(folder)
    except OSError as error:
        raise InputError(f"cannot make {folder}: {error.strerror}") from None


def digest(path: Path) -> str:
    """SHA-256 of a file, by which it is known again."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """While inside, no other process may be: it is refused. A lock ends with its process."""
    try:
        import fcntl
    except ImportError:  # not on this system
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
    """Of writers that were killed in the middle: no one else may be writing there."""
    for left in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            left.unlink()
