"""Records that are the lines of a file, read anew at every pass: they need not fit into memory."""

import itertools
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from discrete_meanflow.data.content import pieces
from discrete_meanflow.errors import InputError

LONGEST_LINE = 10_000_000  # letters; more are no line


class LineFile(Collection[str]):
    """What ``record`` makes of each line; where that is nothing, the line is none.

    A first record that is ``heading``, in letters large or small, is none, too. Lines that are
    added to the file after the first pass are not seen.
    """

    def __init__(
        self, path: Path, record: Callable[[str], str] = str, heading: str | None = None
    ) -> None:
        self.path, self.record, self.heading = path, record, heading
        self.count: int | None = None  # of records, once they have been read

    def __iter__(self) -> Iterator[str]:
        records = filter(None, map(self.record, self._lines()))
        first = next(records, None)
        if first is not None and first.lower() == self.heading:
            first = next(records, None)
        if first is None:
            raise InputError(f"{self.path} is empty: it holds no record")
        count = 0
        every = itertools.chain([first], records)
        for count, each in enumerate(itertools.islice(every, self.count), 1):  # noqa: B007
            yield each
        if self.count not in (None, count):
            raise InputError(f"{self.path} changed while it was read")
        self.count = count

    def _lines(self) -> Iterator[str]:
        begun = ""
        for text in pieces(self.path):
            *whole, begun = (begun + text).split("\n")
            yield from whole
            if len(begun) > LONGEST_LINE:
                raise InputError(f"{self.path}: a line of over {LONGEST_LINE:,} letters")
        yield begun

    def __len__(self) -> int:
        if self.count is None:
            self.count = sum(1 for _ in self)
        return self.count

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)
