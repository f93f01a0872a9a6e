"""A folder that is written as a whole and replaces only its own earlier versions."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from discrete_meanflow import __version__
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import digest, make_folder
from discrete_meanflow.run.json_files import read_json, write_json

MARKER = "dmf-export.json"  # the files of an export and their digests


@contextlib.contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``folder`` that replaces it on success.

    ``folder`` must be new, empty or an earlier export without changes. On failure and on Ctrl-C it
    stays as it was.
    """
    target = Path(os.path.realpath(folder))
    check_replaceable(target)
    make_folder(target.parent)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as beside:
            new = Path(beside) / "new"
            new.mkdir()  # with the permissions that the user's folders have
            yield new
            files = {name: digest(new / name) for name in _files(new)}
            write_json(new / MARKER, {"version": __version__, "files": files})
            check_replaceable(target)  # another program may have written to it meanwhile
            _swap(target, new, Path(beside) / "old")
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from None


def check_replaceable(folder: Path) -> None:
    """Raise unless the folder is new, empty or an earlier export without changes."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; choose another name")
    if Path.cwd().is_relative_to(folder):
        raise InputError(f"{folder} contains the current folder and cannot be replaced; leave it")
    marker = folder / MARKER
    listed = read_json(marker).get("files") if marker.is_file() else None
    digests = listed if isinstance(listed, dict) else {}
    for name in _files(folder):
        if name != MARKER and _digest(folder / name) != digests.get(name):
            raise InputError(
                f"{folder} contains files that dmf export did not write, such as {name}; "
                "choose another folder"
            )


def _digest(path: Path) -> str:
    """The digest of a regular file; empty for a link, a device and a pipe, which would block."""
    return "" if path.is_symlink() or not path.is_file() else digest(path)


def _files(folder: Path) -> list[str]:
    """The names of all files, links and empty folders in a folder and its subfolders."""

    def holds_others(path: Path) -> bool:
        return path.is_dir() and not path.is_symlink() and any(path.iterdir())

    paths = (path for path in folder.rglob("*") if not holds_others(path))
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _swap(target: Path, new: Path, old: Path) -> None:
    """Rename ``new`` to ``target``, whose old content moves to ``old``."""
    try:
        if target.exists():
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
