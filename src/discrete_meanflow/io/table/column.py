"""A column of a table: its cells as tokens at one or more positions."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.bin_tree import BRANCHES, Leaf, bin_tree, exact_depth
from discrete_meanflow.io.table.cells import MISSING, PARSERS, as_number
from discrete_meanflow.io.table.rows import Cells

Json = dict[str, Any]
Path = tuple[int, ...]  # the tokens of a cell
MAX_DEPTH = 8  # positions of a column


@dataclass(frozen=True)
class Column(ABC):
    """Cells, which are text, as paths down a tree of bins: a token for each position.

    Args:
        name: of the column.
        paths: of the leaves, in increasing order and of one length; () for a single position, at
            which token i is leaf i.
    """

    name: str
    paths: tuple[Path, ...]
    kind: ClassVar[str]

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

    def decode(self, paths: numpy.ndarray, rng: numpy.random.Generator) -> Cells:
        """A cell of each path; one that leads to no leaf ends at the leaf before it."""
        inside = numpy.minimum(paths.astype(numpy.int64), numpy.array(self.sizes) - 1)
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


@dataclass(frozen=True)
class LevelColumn(Column):
    """Levels: text, or values of any type that are few.

    Args:
        levels: distinct cells.
        type_name: of the values.
        increasing: whether the levels are in increasing order, a missing cell last.
    """

    levels: tuple[str, ...]
    type_name: str = "str"
    increasing: bool = False
    kind = "levels"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.values

    @classmethod
    def of(
        cls, name: str, counts: Counter[str], type_name: str, increasing: bool = False
    ) -> "LevelColumn":
        """The column of cells with these frequencies."""
        levels = tuple(sorted(counts))
        if len(levels) <= BRANCHES and increasing:
            parse = PARSERS[type_name]
            present = sorted((level for level in levels if level != MISSING), key=parse)
            levels = (*present, *(level for level in levels if level == MISSING))
        if len(levels) <= BRANCHES:
            return cls(name, (), levels, type_name, increasing)
        words = [level for level in levels if level == MISSING]
        levels = tuple(level for level in levels if level != MISSING)
        tree = bin_tree([counts[level] for level in levels], exact_depth(len(levels)))
        return cls(name, tree_paths(tree, len(words)), (*levels, *words), type_name)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The typed value of each level."""
        parse = PARSERS[self.type_name]
        return {level: None if level == MISSING else parse(level) for level in self.levels}

    @cached_property
    def _index(self) -> dict[str, int]:
        return {level: i for i, level in enumerate(self.levels)}

    @property
    def type(self) -> str:
        return self.type_name

    @property
    def number_type(self) -> str:
        return self.type_name

    @property
    def leaves(self) -> int:
        return len(self.levels)

    def leaf_of(self, cell: str) -> int:
        """The leaf of a level, or of an equal number, such as 1.0 for 1."""
        if (leaf := self._index.get(cell)) is not None:
            return leaf
        if self.type_name in ("int", "float") and (number := as_number(cell)) is not None:
            equal = (self._index[level] for level, v in self.values.items() if v == number)
            if (leaf := next(equal, None)) is not None:
                return leaf
        raise InputError(f"column {self.name} has no '{cell:.40}'; it has {self.extent}")

    def written(self, cell: str) -> str:
        return self.levels[self.leaf_of(cell)]

    @property
    def extent(self) -> str:
        values = self.values
        levels = sorted(self.levels, key=lambda level: (values[level] is not None, values[level]))
        more = f" and {len(levels) - 50:,} more" * (len(levels) > 50)
        comma = "; write a comma as \\," * any("," in level for level in levels)
        return ", ".join(f"'{level}'" for level in levels[:50]) + more + comma

    def cells(self, leaves: numpy.ndarray, rng: numpy.random.Generator) -> Cells:
        return Cells(self.levels, leaves)

    def value(self, cell: str) -> Any:
        return self.values[cell] if cell in self.values else PARSERS[self.type_name](cell)

    @property
    def ordered(self) -> tuple[int, ...]:
        if not self.increasing:
            return super().ordered
        return (len(self.levels) - (MISSING in self.levels),)

    @cached_property
    def _places(self) -> dict[str, int]:
        """The place of each level among those that are not missing."""
        present = [level for level, value in self.values.items() if value is not None]
        return {level: i for i, level in enumerate(sorted(present, key=self.values.__getitem__))}

    def ordinal(self, cell: str) -> float:
        return float(self._places.get(cell, math.nan))

    def leaf_names(self) -> list[str]:
        return list(self.levels)

    def summary(self) -> Any:
        return len(self.levels)

    def describe(self) -> Json:
        return {
            "levels": list(self.levels),
            "type": self.type_name,
            "increasing": self.increasing,
        }


def tree_paths(tree: Sequence[Leaf], words: int) -> tuple[Path, ...]:
    """The paths of a tree and of some words after it, which have first tokens of their own.

    All have one length; zeros follow the end of short ones.
    """
    runs, depth = 1 + tree[-1].path[0], max(len(leaf.path) for leaf in tree)
    paths = [leaf.path for leaf in tree] + [(runs + i,) for i in range(words)]
    return tuple((*path, *[0] * (depth - len(path))) for path in paths)
