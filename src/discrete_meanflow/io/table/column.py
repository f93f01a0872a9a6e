"""A column of a table: its cells as tokens at one or more positions."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.bin_tree import Leaf
from discrete_meanflow.io.table.cells import MISSING
from discrete_meanflow.io.table.rows import Cells

Json = dict[str, Any]
Path = tuple[int, ...]  # the tokens of a cell
MAX_DEPTH = 8  # positions of a column


@dataclass(frozen=True)
class Column(ABC):
    """Cells, which are text, as leaves of a tree of bins, with a token for each position.

    Args:
        name: of the column.
        paths: of the leaves, in increasing order and of one length; () for a single position, at
            which token i is leaf i.
    """

    name: str
    paths: tuple[Path, ...]
    kind: ClassVar[str]
    categorical: ClassVar[bool]  # whether it has levels, not numbers

    @property
    @abstractmethod
    def type(self) -> str:
        """Type of its values."""

    @property
    @abstractmethod
    def number_type(self) -> str:
        """Type of its cells, words and missing ones apart."""

    @property
    @abstractmethod
    def extent(self) -> str:
        """Its cells, as messages show them."""

    @property
    @abstractmethod
    def leaves(self) -> int:
        """Number of leaves."""

    @property
    def exact(self) -> bool:
        """Whether tokens determine the cell."""
        return True

    @abstractmethod
    def leaf_of(self, cell: str) -> int:
        """The leaf that contains a cell. Raises InputError if none does."""

    @abstractmethod
    def written(self, cell: str) -> str:
        """A cell as the column writes it: 1 for 1.0. Raises InputError if it has no such cell."""

    @abstractmethod
    def cells(self, leaves: numpy.ndarray, rng: numpy.random.Generator) -> Cells:
        """A cell of each leaf."""

    @abstractmethod
    def value(self, cell: str) -> Any:
        """The Python value of a cell, None if it is missing."""

    @abstractmethod
    def ordinal(self, cell: str) -> float:
        """A number in the order of the values; NaN if the cell is missing or no number."""

    @abstractmethod
    def leaf_names(self) -> list[str]:
        """What pages show for each leaf."""

    @abstractmethod
    def summary(self) -> Any:
        """The column in the data card."""

    @abstractmethod
    def describe(self) -> Json:
        """The column as JSON, without its name and paths."""

    @classmethod
    @abstractmethod
    def from_json(cls, name: str, paths: tuple[Path, ...], content: Json) -> "Column":
        """The column that ``describe`` wrote."""

    def __post_init__(self) -> None:
        depths = set(map(len, self.paths))
        if self.paths and (len(self.paths) != self.leaves or len(depths) != 1):
            raise ValueError(f"column {self.name}: paths do not match the leaves")
        if not 0 < self.depth <= MAX_DEPTH or (numpy.diff(self._codes) <= 0).any():
            raise ValueError(f"column {self.name}: paths are not in order")

    @property
    def depth(self) -> int:
        """Number of positions."""
        return len(self.paths[0]) if self.paths else 1

    @cached_property
    def _table(self) -> numpy.ndarray:
        """The tokens of each leaf, ``(leaves, depth)``."""
        if self.paths:
            return numpy.array(self.paths, dtype=numpy.int64)
        return numpy.arange(self.leaves, dtype=numpy.int64)[:, None]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of symbols at each position."""
        return tuple(int(size) for size in self._table.max(0) + 1)

    @property
    def ordered(self) -> tuple[int, ...]:
        """How many symbols of each position are ordered."""
        return (0,) * self.depth

    @cached_property
    def _codes(self) -> numpy.ndarray:
        return self._numbers(self._table)

    def _numbers(self, paths: numpy.ndarray) -> numpy.ndarray:
        """Paths as numbers in the same order."""
        base = int(self._table.max()) + 1
        return paths @ base ** numpy.arange(self.depth - 1, -1, -1, dtype=numpy.int64)

    def leaves_of(self, cells: Sequence[str]) -> numpy.ndarray:
        """The leaf that contains each cell. Raises InputError if none does."""
        return numpy.array([self.leaf_of(cell) for cell in cells])

    def encode(self, cells: Iterable[str]) -> numpy.ndarray:
        """Tokens ``(cells, depth)``."""
        cells = Cells.of(cells).present()
        return self._table[self.leaves_of(cells.levels)[cells.codes]]

    def decode(self, tokens: numpy.ndarray, rng: numpy.random.Generator) -> Cells:
        """A cell of each row of tokens; a path that leads to no leaf ends at the leaf before it."""
        inside = numpy.minimum(tokens.astype(numpy.int64), numpy.array(self.sizes) - 1)
        leaves = numpy.searchsorted(self._codes, self._numbers(inside), side="right") - 1
        return self.cells(numpy.maximum(leaves, 0), rng)

    def path(self, cell: str) -> Path:
        """The tokens of a cell that a user asks for."""
        return tuple(int(token) for token in self._table[self.leaf_of(cell)])

    @property
    def missing_token(self) -> int | None:
        """The first token of a missing cell, which no other cell has; None if none is missing."""
        try:
            return self.path(MISSING)[0]
        except InputError:
            return None

    def symbols(self) -> list[tuple[str, ...]]:
        """The symbols of each position; those after the first are numbered."""
        names = self.leaf_names()
        if self.depth == 1:
            return [tuple(names)]
        first = self._table[:, 0]
        ends = (numpy.flatnonzero(first == token)[[0, -1]] for token in range(self.sizes[0]))
        spans = tuple(names[i] if i == j else f"{names[i]} .. {names[j]}" for i, j in ends)
        return [spans, *(tuple(map(str, range(size))) for size in self.sizes[1:])]


def tree_paths(tree: Sequence[Leaf], words: int) -> tuple[Path, ...]:
    """The paths of a tree and of some words after it, which have first tokens of their own.

    All have one length; zeros follow the end of short ones.
    """
    runs, depth = 1 + tree[-1].path[0], max(len(leaf.path) for leaf in tree)
    paths = [leaf.path for leaf in tree] + [(runs + i,) for i in range(words)]
    return tuple((*path, *[0] * (depth - len(path))) for path in paths)
