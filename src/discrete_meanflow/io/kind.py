"""The base class of kinds of data: how records are read and written."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec, Dataset
from discrete_meanflow.io.write import Write


class Kind(ABC):
    """A kind of data. ``name`` is its word on the command line."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    codec: ClassVar[type[Codec]]
    one_text: ClassVar[bool] = False  # records are windows of one text
    aligned: ClassVar[bool] = False  # records of one length are an alignment
    known_pairs: ClassVar[bool] = False  # a record is valid if all its pairs occur in training

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

    def drawings(self, records: Any) -> list[str] | None:
        """An SVG drawing of each record; None if this kind has none."""
        return None

    def warning(self, dataset: Dataset) -> str | None:
        """A warning about records that the user may not have intended."""
        return None

    def hints(self, dataset: Dataset) -> dict[str, str]:
        """Where the records may have been read differently than intended."""
        hints = {} if dataset.source is None else {"array": dataset.source}
        if warning := self.warning(dataset):
            hints["warning"] = warning
        return hints
