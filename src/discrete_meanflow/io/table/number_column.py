"""Columns of numbers, dates and times: bins of about equal frequency, and values inside them."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.bin_tree import BRANCHES, bin_tree, exact_depth
from discrete_meanflow.io.table.cells import MISSING
from discrete_meanflow.io.table.column import Column, Json, Path, tree_paths
from discrete_meanflow.io.table.number_format import FORMATS, NumberFormat
from discrete_meanflow.io.table.rows import Cells

DEPTH = 2  # positions of a number: a bin, and a bin inside it
KNOTS = 9  # quantiles of a bin of several numbers


@dataclass(frozen=True)
class NumberColumn(Column):
    r"""Numbers $x = F_b^{-1}(u)$: tokens select a bin b, and u is uniform.

    $F_b$ is the law of the training numbers in the bin, linear between quantiles. A frequent number
    has a bin of its own, and all have if there are few; then they come back exactly.

    Args:
        format: of the numbers.
        knots: increasing quantiles of each bin, from its least to its largest number.
        words: cells that are not numbers, such as a missing one; their leaves follow the bins.
    """

    format: NumberFormat
    knots: tuple[tuple[float, ...], ...]
    words: tuple[str, ...] = ()
    kind = "number"
    categorical = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.knots or not all(self.knots):
            raise ValueError(f"column {self.name}: a bin is empty")
        ordered = [knot for knots in self.knots for knot in knots]
        if not all(map(math.isfinite, ordered)) or ordered != sorted(ordered):
            raise ValueError(f"column {self.name}: bins are not in order")

    @classmethod
    def of(
        cls, name: str, counts: Counter[str], form: NumberFormat, words: Sequence[str]
    ) -> "NumberColumn":
        """The column of cells with these frequencies, of which ``words`` are not numbers."""
        by_number: Counter[float] = Counter()
        for cell, count in counts.items():
            if cell not in words:
                by_number[form.parse(cell)] += count
        numbers = numpy.array(sorted(by_number))
        frequency = numpy.array([by_number[x] for x in numbers.tolist()])
        depth = min(DEPTH, exact_depth(len(numbers)))
        tree = bin_tree(frequency.tolist(), depth)
        knots = tuple(_quantiles(numbers, frequency, leaf.first, leaf.last) for leaf in tree)
        return cls(name, tree_paths(tree, len(words)), form, knots, tuple(words))

    @cached_property
    def _tops(self) -> numpy.ndarray:
        """The largest number of each bin."""
        return numpy.array([knots[-1] for knots in self.knots])

    @property
    def type(self) -> str:
        return "str" if set(self.words) - {MISSING} else self.format.type

    @property
    def number_type(self) -> str:
        return self.format.type

    @property
    def ends(self) -> tuple[str, str]:
        """The cells of the least and the largest number."""
        return self.format.text(self.knots[0][0]), self.format.text(self.knots[-1][-1])

    @property
    def extent(self) -> str:
        return " to ".join(self.ends)

    @property
    def exact(self) -> bool:
        """Whether every bin has a single number."""
        return all(knots[0] == knots[-1] for knots in self.knots)

    @property
    def leaves(self) -> int:
        return len(self.knots) + len(self.words)

    @property
    def ordered(self) -> tuple[int, ...]:
        """Bins are ordered, and so are bins inside a bin; words follow them."""
        words = len(self.words)
        return (self.sizes[0] - words, *self.sizes[1:])

    def leaf_of(self, cell: str) -> int:
        if cell in self.words:
            return len(self.knots) + self.words.index(cell)
        try:
            number = self.format.parse(cell)
        except ValueError:
            raise InputError(
                f"column {self.name}: '{cell:.40}' is not of type {self.format.type}"
            ) from None
        least, most = self.knots[0][0], self.knots[-1][-1]
        if not least <= number <= most:
            raise InputError(f"column {self.name}: {cell:.40} lies outside the data, {self.extent}")
        return int(numpy.searchsorted(self._tops, number))

    def written(self, cell: str) -> str:
        _ = self.leaf_of(cell)  # raises InputError
        return cell if cell in self.words else self.format.text(self.format.parse(cell))

    def cells(self, leaves: numpy.ndarray, rng: numpy.random.Generator) -> Cells:
        uniform = rng.random(len(leaves)).tolist()
        return Cells.of(map(self._cell, leaves.tolist(), uniform))

    def _cell(self, leaf: int, u: float) -> str:
        if leaf >= len(self.knots):
            return self.words[leaf - len(self.knots)]
        knots = self.knots[leaf]
        place = u * (len(knots) - 1)
        low = min(int(place), max(0, len(knots) - 2))
        high = min(low + 1, len(knots) - 1)
        return self.format.text(knots[low] + (place - low) * (knots[high] - knots[low]))

    def value(self, cell: str) -> Any:
        if cell == MISSING:
            return None
        return cell if self.type == "str" else self.format.value(cell)

    def ordinal(self, cell: str) -> float:
        return math.nan if cell in self.words else self.format.parse(cell)

    def leaf_names(self) -> list[str]:
        text = self.format.text
        spans = ((text(knots[0]), text(knots[-1])) for knots in self.knots)
        return [a if a == b else f"{a} .. {b}" for a, b in spans] + list(self.words)

    def summary(self) -> Any:
        return f"{self.format.type}, {self.extent}"

    def describe(self) -> Json:
        form = {"type": self.format.type, **asdict(self.format)}
        return {"format": form, "knots": list(map(list, self.knots)), "words": list(self.words)}

    @classmethod
    def from_json(cls, name: str, paths: tuple[Path, ...], content: Json) -> "NumberColumn":
        form = number_format_from_json(content["format"])
        knots = tuple(tuple(map(float, knots)) for knots in content["knots"])
        return cls(name, paths, form, knots, tuple(map(str, content["words"])))


def is_number_column(numbers: int) -> bool:
    """Whether a column of so many distinct numbers is one of numbers; else it has levels."""
    return numbers > BRANCHES


def number_format_from_json(description: Json) -> NumberFormat:
    kinds = {kind.type: kind for kind in FORMATS}
    fields = {name: value for name, value in description.items() if name != "type"}
    return kinds[str(description["type"])](**fields)


def _quantiles(
    numbers: numpy.ndarray, frequency: numpy.ndarray, first: int, last: int
) -> tuple[float, ...]:
    """Quantiles of the numbers ``first`` to ``last`` (exclusive)."""
    if last - first == 1:
        return (float(numbers[first]),)
    weights = frequency[first:last].cumsum()
    ranks = numpy.linspace(0, weights[-1] - 1, min(KNOTS, int(weights[-1])))
    return tuple(numbers[first + numpy.searchsorted(weights, ranks + 0.5)].tolist())
