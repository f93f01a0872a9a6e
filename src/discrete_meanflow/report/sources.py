"""Folders that a report can show, and how they are found."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from discrete_meanflow.errors import InputError
from discrete_meanflow.report.blocks import Block, Json, Section
from discrete_meanflow.run.json_files import read_json


class Source(ABC):
    """A folder with records.

    Args:
        folder: the folder, as the user names it.
        name: its name on the page.
        anchor: of its part of the page.
    """

    heading: ClassVar[str]  # of the list of such folders
    overview_heading: ClassVar[str]

    def __init__(self, folder: Path, name: str, anchor: str) -> None:
        self.folder, self.name, self.anchor = folder, name, anchor

    @staticmethod
    @abstractmethod
    def recognises(folder: Path) -> bool:
        """Whether the folder is one of this kind."""

    @property
    def rank(self) -> int:
        """Folders of lower rank stand first."""
        return 0

    @property
    @abstractmethod
    def subtitle(self) -> str:
        """What the folder contains, in one line."""

    @abstractmethod
    def build(self) -> Iterator[Section]:
        """The sections of the page."""

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        return tuple(self.build())

    @classmethod
    def title(cls, folders: Sequence[Path]) -> str:
        """The title of a page that begins with folders of this kind."""
        return ", ".join(map(_name, folders))

    @classmethod
    def overview(cls, sources: Sequence[Self]) -> Iterator[Block]:
        """What is said about all folders of this kind together."""
        yield from ()

    def record(self, name: str) -> Json:
        """A JSON file of the folder; empty if there is none."""
        path = self.folder / name
        return read_json(path) if path.exists() else {}


def find_sources(folders: Sequence[Path], kinds: Sequence[type[Source]]) -> list[Source]:
    """The folders that a report can show: the given ones, or those one level below."""
    pairs = dict(pair for folder in folders for pair in _recognised(folder, kinds))
    names = Counter(_name(folder) for folder in pairs)
    return [
        kind(folder, _name(folder) if names[_name(folder)] == 1 else str(folder), f"part-{number}")
        for number, (folder, kind) in enumerate(pairs.items(), 1)
    ]


def _recognised(folder: Path, kinds: Sequence[type[Source]]) -> Iterator[tuple[Path, type[Source]]]:
    try:
        candidates = [folder] if _kind(folder, kinds) else sorted(folder.iterdir())
        found = [(path, kind) for path in candidates if (kind := _kind(path, kinds)) is not None]
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}") from None
    if not found:
        raise InputError(
            f"{folder} contains no run: neither it nor a folder in it has a config.json of "
            "dmf train or a results.json of dmf reproduce"
        )
    yield from found


def _kind(folder: Path, kinds: Sequence[type[Source]]) -> type[Source] | None:
    return next((kind for kind in kinds if kind.recognises(folder)), None)


def _name(folder: Path) -> str:
    return folder.resolve().name or str(folder)
