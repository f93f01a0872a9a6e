"""Conversion between a user's records and tokens."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.infill import text_of
from discrete_meanflow.io.layout import Layout
from discrete_meanflow.io.requirements import NO_REQUIREMENTS, Requirements, Restriction
from discrete_meanflow.types import State

Json = dict[str, Any]
MAX_LENGTH = 1_000_000  # positions; a larger value in a run folder is damage or an attack
NO_CLASSES = (
    "this run was trained without classes; train with dmf train --label or fit(..., labels=...)"
)


class Codec(ABC):
    """Maps records to sequences of ``length`` tokens ``0 .. vocabulary - 1`` and back."""

    @property
    @abstractmethod
    def vocabulary(self) -> int: ...

    @property
    @abstractmethod
    def length(self) -> int: ...

    @abstractmethod
    def encode(self, records: Any) -> State:
        """Tokens of shape ``(records, length)``."""

    @abstractmethod
    def decode(self, tokens: State) -> Any:
        """Records, exactly as the tokens spell them: invalid ones are not repaired."""

    def as_given(self, records: Any) -> Any:
        """Decoded records in the Python type that the user trained on."""
        return records

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """How pages show the positions of a record, without its class."""

    @abstractmethod
    def card(self, dataset: "Dataset") -> Json:
        """Summary of the data, shown before training."""

    @abstractmethod
    def parse_infill(self, pattern: Any) -> dict[int, int]:
        """The token of each position that an infilling pattern fixes."""

    @abstractmethod
    def describe(self) -> Json:
        """The codec as JSON, for ``from_json``."""

    @classmethod
    @abstractmethod
    def from_json(cls, description: Json) -> "Codec":
        """The codec that ``describe`` wrote."""

    def fix(self, patterns: Sequence[Any], label: str | None = None) -> dict[int, int]:
        """The token of each position that infilling patterns and a class fix together.

        Args:
            patterns: see ``parse_infill`` of the codec; all of them hold.
            label: a class, or None.
        """
        parts = [(f"'{text_of(pattern)}'", self.parse_infill(pattern)) for pattern in patterns]
        if label is not None:
            parts.append((f"class '{label}'", self.class_tokens(label)))
        fixed: dict[int, int] = {}
        fixed_by: dict[int, str] = {}
        for name, part in parts:
            for position, token in part.items():
                first = fixed_by.setdefault(position, name)
                if fixed.setdefault(position, token) != token:
                    raise InputError(f"infill: {first} and {name} contradict each other")
        return fixed

    def known_cells(self, patterns: Sequence[Any]) -> dict[int, str]:
        """Cells that patterns fix and tokens determine only in part, by number of their column."""
        return {}

    def restrictions(self, patterns: Sequence[Any]) -> tuple[Restriction, ...]:
        """What patterns ask of records beyond the tokens that they fix."""
        return ()

    def with_constraints(self, constraints: Sequence[str]) -> "Codec":
        """The codec with more constraints on all records."""
        if constraints:
            raise InputError("constraints are for tables")
        return self

    def requirements(self, train: Callable[[], State]) -> Requirements:
        """What the constraints require of records, given the tokens of the training records."""
        return NO_REQUIREMENTS

    def positions_of(self, columns: Sequence[int]) -> list[int]:
        """The positions of the columns with these numbers."""
        return list(columns)

    def restore(self, records: Any, known: Sequence[dict[int, str]]) -> Any:
        """Decoded records with the known cells of each."""
        return records

    def infill(self, pattern: Any, label: str | None = None) -> tuple[State, Tensor]:
        """What a user fixes when sampling: tokens and ``observed`` (bool), both ``(length,)``.

        Args:
            pattern: see ``parse_infill`` of the codec; None fixes nothing.
            label: a class, or None.
        """
        tokens = torch.zeros(self.length, dtype=torch.long)
        observed = torch.zeros(self.length, dtype=torch.bool)
        for position, token in self.fix(() if pattern is None else (pattern,), label).items():
            tokens[position], observed[position] = token, True
        return tokens, observed

    @property
    def allowed(self) -> Tensor | None:
        """Symbols each position may have: bool ``(length, vocabulary)``; None allows all."""
        return None

    @property
    def sequential(self) -> bool:
        """Whether neighbouring positions are neighbours in the record, as in text."""
        return False

    @property
    def pad(self) -> int | None:
        """The padding token, or None if all records have the same length."""
        return None

    def count(self, record: Any) -> int:
        """Number of positions that a record takes, without padding."""
        return self.length

    @property
    def main_positions(self) -> list[int]:
        """The positions whose pairs are compared in an evaluation."""
        return list(range(self.length))

    @property
    def repeats(self) -> bool:
        """Whether equal records are separate samples; else they count once."""
        return True

    def with_class_column(self, name: str) -> "Codec | None":
        """The codec whose class is column ``name``; None if its records have no columns."""
        return None

    @property
    def ordered(self) -> tuple[int, ...]:
        """How many symbols of each position, from the first on, are ordered; () if none are."""
        return ()

    @property
    def bare(self) -> "Codec":
        """The codec of the records without their classes."""
        return self

    @property
    def class_positions(self) -> list[int]:
        """Positions that encode the class; empty without classes."""
        return []

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes; empty without classes."""
        return ()

    def class_tokens(self, name: str) -> dict[int, int]:
        """The token of each class position for class ``name``."""
        raise InputError(f"class '{name}': {NO_CLASSES}")

    def classes_in(self, tokens: State) -> list[str]:
        """The class of each record."""
        raise InputError(f"classes: {NO_CLASSES}")


@dataclass(frozen=True)
class Dataset:
    """Records and the codec that turns them into tokens.

    Args:
        records: strings, rows or an array; a pair of these and their classes if the codec is a
            ``LabelledCodec``. None, or the first lines of the text, if ``tokens`` are set.
        codec: encodes the records.
        tokens: windows of one text, encoded already.
        source: which of several arrays of a file the records are.
    """

    records: Any
    codec: Codec
    tokens: State | None = None
    source: str | None = None

    @property
    def bare(self) -> Any:
        """The records without their classes."""
        return self.records if self.codec.bare is self.codec else self.records[0]

    def encoded(self) -> State:
        return self.codec.encode(self.records) if self.tokens is None else self.tokens
