"""What generated records must satisfy beyond their observed positions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy


@dataclass(frozen=True)
class Restriction(ABC):
    """A condition on single records, such as ``age>=60``.

    Args:
        text: as messages show it.
        columns: numbers of the columns that it reads.
    """

    text: str
    columns: tuple[int, ...]

    @abstractmethod
    def holds(self, records: Sequence[Any]) -> numpy.ndarray:
        """Whether each record satisfies it: bool ``(records,)``."""

    @property
    @abstractmethod
    def hint(self) -> str:
        """What the data has, for the message that nothing satisfies it."""


@dataclass(frozen=True)
class Unique:
    """A column whose cells are all distinct, missing ones apart.

    Args:
        name: of the column.
        column: its number.
        values: how many it has; None if there is no limit.
    """

    name: str
    column: int
    values: int | None


@dataclass(frozen=True)
class Requirements:
    """What all records of a call satisfy.

    Args:
        restrictions: on single records.
        unique: columns without repeated cells.
    """

    restrictions: tuple[Restriction, ...] = ()
    unique: tuple[Unique, ...] = ()


NO_REQUIREMENTS = Requirements()
