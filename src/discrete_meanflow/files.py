"""Atomic writes, outputs, folder locks, and reads that cannot block.

A write replaces plain files and nothing else. Files of a run folder may not be anything else
(``replace_atomically``). An output that the user names may be a link, a device or a pipe
(``open_output``, ``output_path``).
"""

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.printable import shown

MOST_BYTES = 2**30  # of a file that is read into memory at once
MOST_LINKS = 40  # followed one after the other, as in Linux


def check_path(path: Any) -> Path:
    """A path that a program gives, which may not exist. Raise if no file can have it."""
    try:
        checked = Path(path)
        with contextlib.suppress(FileNotFoundError):
            os.lstat(checked)
    except (OSError, ValueError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{shown(path)} cannot be the path of a file: {reason}") from None
    return checked


@contextlib.contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path`` that replaces it on success.

    On failure the old file stays. A reader sees the old content or the new one, never a mixture.
    Links, devices and pipes are not replaced: they are an error.
    """
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise InputError(f"cannot write {path}: it is a link or not a regular file; remove it")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with _reported(path):
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())  # before the rename, which may reach the disk first
            with contextlib.suppress(OSError):  # a new file, or a file system without permissions
                shutil.copymode(path, temporary)
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Open an output that the user names, to be written from its beginning to its end.

    A plain file is replaced atomically, a link stays and its target is replaced. Devices and pipes
    are written into; a pipe whose reader has gone ends the body without an error.
    """
    target = _plain_target(path)
    if target is not None:
        with replace_atomically(target) as partial, open(partial, "wb") as file:
            yield file
        return
    stream = _follow_links(path)
    with (
        _reported(path),
        contextlib.suppress(BrokenPipeError),
        open(os.dup(stream) if isinstance(stream, int) else stream, "wb") as file,
    ):
        yield file


@contextlib.contextmanager
def output_path(path: Path) -> Iterator[Path]:
    """Yield a temporary file that becomes the output ``path``, for formats that need to seek.

    As ``open_output``, but the content of a device or pipe is first built in a temporary folder.
    """
    target = _plain_target(path)
    if target is not None:
        with replace_atomically(target) as partial:
            yield partial
        return
    with open_output(path) as out, tempfile.TemporaryDirectory(prefix="dmf-") as folder:
        partial = Path(folder) / "output"
        yield partial
        with open(partial, "rb") as file:
            shutil.copyfileobj(file, out)


def is_stream(path: Path) -> bool:
    """Whether an output is written into, as a device or a pipe, instead of replaced."""
    return _plain_target(path) is None


def _plain_target(path: Path) -> Path | None:
    """The plain file that an output replaces or creates; None for a device or a pipe."""
    target = _follow_links(path)
    if isinstance(target, int):
        return None
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return target  # a new file, or opening it says why not
    if stat.S_ISDIR(mode):
        raise InputError(f"cannot write {path}: it is a folder; choose the name of a file")
    return target if stat.S_ISREG(mode) else None


def _follow_links(path: Path) -> Path | int:
    """The path that the links of ``path`` lead to.

    A number is an open file of this process, for ``/dev/stdout`` and ``/dev/fd/N``: opening these
    again would truncate a file that the shell has open, and write at its beginning.
    """
    descriptors, name = os.path.realpath("/proc/self/fd"), os.fspath(path)
    for _ in range(MOST_LINKS):
        folder, base = os.path.split(name)
        if base.isdecimal() and os.path.realpath(folder) == descriptors:
            if base == "1" and sys.stdout is None:  # another file may have its number by now
                raise InputError(f"cannot write {path}: standard output is closed")
            return int(base)
        if not os.path.islink(name):
            return Path(name)
        name = os.path.join(folder, os.readlink(name))
    raise InputError(f"cannot write {path}: its links form a loop; choose another name")


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turn errors of the system into one line that names the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


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
