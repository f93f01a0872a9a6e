"""Columns of levels: words, codes, or values of any type that are few."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.bin_tree import BRANCHES, bin_tree, exact_depth
from discrete_meanflow.io.table.cells import MISSING, PARSERS, as_number
from discrete_meanflow.io.table.column import Column, Json, Path, tree_paths
from discrete_meanflow.io.table.rows import Cells


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
    categorical = True

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

    @classmethod
    def from_json(cls, name: str, paths: tuple[Path, ...], content: Json) -> "LevelColumn":
        levels = tuple(map(str, content["levels"]))
        return cls(name, paths, levels, str(content["type"]), content["increasing"] is True)
