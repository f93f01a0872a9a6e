"""A matrix of distances as SVG: samples below the diagonal, held-out records above it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEFT, SIZE = 92, 260  # of the drawing
MOST = 30  # rows
LABEL = 14  # characters of a row


@dataclass(frozen=True)
class Square:
    """A pair of columns; ``shade`` is between 0 and 1."""

    row: int
    column: int
    shade: float
    title: str


@dataclass(frozen=True)
class MatrixChart:
    """Squares that are darker for larger distances."""

    names: tuple[str, ...]
    squares: tuple[Square, ...]
    darkest: float

    @classmethod
    def of(
        cls, names: Sequence[str], pairs: Mapping[tuple[int, int], tuple[float, float]]
    ) -> "MatrixChart":
        """The matrix of the first columns.

        Args:
            pairs: distances of samples and of held-out records, by pair of columns ``i < j``.
        """
        shown = {key: pair for key, pair in pairs.items() if 0 <= key[0] < key[1] < MOST}
        values = [value for pair in shown.values() for value in pair]
        if not all(0 <= value <= 1 for value in values):
            raise ValueError("a distance is not between 0 and 1")
        darkest = max(values, default=0.0) or 1.0
        squares = []
        for (i, j), (samples, real) in shown.items():
            title = f"{names[i]}, {names[j]}: samples {samples:.3f}, held out {real:.3f}"
            squares.append(Square(j, i, round(samples / darkest, 3), title))
            squares.append(Square(i, j, round(real / darkest, 3), title))
        return cls(tuple(name[:LABEL] for name in names[:MOST]), tuple(squares), darkest)

    @property
    def side(self) -> float:
        """The side of a square."""
        return SIZE / len(self.names)

    def place(self, index: int) -> float:
        """Where a row begins, and a column, from the corner."""
        return round(index * self.side, 1)
