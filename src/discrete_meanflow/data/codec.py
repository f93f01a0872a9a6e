"""Between records as users have them and tokens as kernels do."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

Json = dict[str, Any]
UNKNOWN = "?"
LONGEST = 1_000_000  # positions; more are no record, or mischief


class Codec(ABC):
    """``length`` positions over ``vocabulary`` symbols, and what they stand for."""

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
        """Records, raw: nothing is mended."""

    def as_given(self, records: Any) -> Any:
        """Decoded records in the form in which they were given, in Python."""
        return records

    @abstractmethod
    def known(self, pattern: Any) -> dict[int, int]:
        """What a pattern says: tokens by position."""

    @abstractmethod
    def describe(self) -> Json:
        """All that ``made_from`` needs to make it again."""

    @classmethod
    @abstractmethod
    def from_json(cls, words: Json) -> "Codec":
        """The codec that described itself so."""

    def clamp(self, pattern: Any, label: str | None = None) -> tuple[State, Tensor]:
        """Tokens, and whether a pattern or class gives each of them: both ``(length,)``."""
        tokens = torch.zeros(self.length, dtype=torch.long)
        held = torch.zeros(self.length, dtype=torch.bool)
        known = {} if pattern is None else self.known(pattern)
        for place, token in ({} if label is None else self.of_class(label)).items():
            if known.setdefault(place, token) != token:
                raise InputError(f"clamp: '{pattern}' and class '{label}' contradict each other")
        for place, token in known.items():
            tokens[place], held[place] = token, True
        return tokens, held

    @property
    def allowed(self) -> Tensor | None:
        """Which symbols each position may have: bool ``(length, vocabulary)``; None means all."""
        return None

    @property
    def bare(self) -> "Codec":
        """That of the records alone, without their classes."""
        return self

    @property
    def class_positions(self) -> list[int]:
        """Where the class of a record stands, if records have classes."""
        return []

    def of_class(self, name: str) -> dict[int, int]:
        """The tokens of a class by position."""
        raise InputError(
            f"class '{name}': this run knows none; classes are given when it is trained, by "
            "dmf train --label or fit(..., labels=...)"
        )

    def classes_in(self, tokens: State) -> list[str]:
        """The class of each record, where records have one."""
        raise InputError("labels: the records of this run have no classes")


def in_text(pattern: Any) -> str:
    """A pattern that must be one of letters."""
    if not isinstance(pattern, str):
        raise InputError(f"clamp: what is known is told in words, as 'ma??', got {pattern!r}")
    return pattern
