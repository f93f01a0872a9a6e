"""Base class of the kinds of data."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from discrete_meanflow.data.codec import Codec, Dataset
from discrete_meanflow.data.write import Write
from discrete_meanflow.errors import InputError


class Kind(ABC):
    """A kind of data. ``name`` is its word on the command line."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    codec: ClassVar[type[Codec]]

    @abstractmethod
    def read(self, path: Path) -> Dataset: ...

    def of(self, strings: Collection[str]) -> Dataset:
        """Dataset of strings in memory, for the kinds whose records are strings."""
        raise InputError(
            f"data: kind '{self.name}' does not take strings; choose lines, smiles or fasta"
        )

    @abstractmethod
    def writer(self, path: Path | None, codec: Any, count: int) -> AbstractContextManager[Write]:
        """A function that writes one chunk of records per call, ``count`` records in all.

        Without a path, the records are printed.
        """

    def valid(self, records: Any) -> list[bool] | None:
        """Whether each record is well-formed; None if this kind has no such notion."""
        return None

    def warning(self, dataset: Dataset) -> str | None:
        """A warning about records that the user may not have intended."""
        return None
