import math
from collections.abc import Collection, Sequence

import numpy

from discrete_meanflow.data.cells import as_number
from discrete_meanflow.errors import InputError

# The largest number of each, and what it is called; before them the smallest number of all, called
# as the first is.
Bins = tuple[tuple[float, str], ...]
MOST_WORDS = 3  # in a column of numbers


def binned(rows: Sequence[Sequence[str]], bins: int) -> tuple[list[list[str]], tuple[Bins, ...]]:
    """Rows in which numbers of more than ``bins`` values have at most that many; and the bins of
    each column, of which most have none.

    A column of numbers is cut where it has equal shares, and each number becomes the middle one
    of its share. A few words among them, such as ? for what is missing, stay, and so do other
    columns.
    """
    if bins < 2:
        raise InputError(f"--bins: at least 2, got {bins}")
    columns, found = zip(*(_binned(c, bins) for c in zip(*rows, strict=True)), strict=True)
    return [list(row) for row in zip(*columns, strict=True)], found


def _binned(column: Sequence[str], bins: int) -> tuple[Sequence[str], Bins]:
    numbers = numbers_in(set(column))
    if len(numbers) <= bins:
        return column, ()
    called, tops = _cut([cell for cell in column if cell in numbers], bins)
    return [called.get(cell, cell) for cell in column], tops


def numbers_in(levels: Collection[str]) -> set[str]:
    """Those that are numbers, where all but a few words are; else none."""
    values = {level: as_number(level) for level in levels}
    numbers = {level for level, x in values.items() if x is not None and math.isfinite(x)}
    return numbers if len(levels) - len(numbers) <= MOST_WORDS else set()


def _cut(column: Sequence[str], bins: int) -> tuple[dict[str, str], Bins]:
    """What each number is called, and the bins."""
    numbers = numpy.array([float(cell) for cell in column])
    _, which, counts = numpy.unique(numbers, return_inverse=True, return_counts=True)
    # A value goes where the middle of its mass lies, so that one heavy value does not take all.
    middle = (counts.cumsum() - counts / 2) / len(numbers)
    place = numpy.minimum((bins * middle).astype(int), bins - 1)[which]
    # A bin is called by the cell in its middle, so that its name has all its digits.
    order = numpy.argsort(numbers, kind="stable")
    members = {int(i): order[place[order] == i] for i in numpy.unique(place)}
    names = {i: column[found[len(found) // 2]] for i, found in members.items()}
    tops = tuple((float(numbers[found[-1]]), names[i]) for i, found in members.items())
    called = {cell: names[int(i)] for cell, i in zip(column, place, strict=True)}
    return called, ((float(numbers.min()), tops[0][1]), *tops)
