import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy
import torch

from discrete_meanflow.data.lines import place_of
from discrete_meanflow.data.scratch import room
from discrete_meanflow.data.tokens import lot, stored
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

MOST = 10_000  # symbols; more are words or whole records taken for symbols
LETTER = re.compile(".", re.DOTALL)
FILLERS = "_~^|\u2423"  # what may stand for "nothing more", the first that no text holds


def small(symbols: int) -> numpy.dtype:
    """What tokens of so many symbols are kept in, in NumPy's words."""
    return torch.empty(0, dtype=stored(symbols)).numpy().dtype


@dataclass(frozen=True)
class Alphabet:
    """Symbols and their numbers: ``symbols[i]`` has number i. They are letters, or some are longer.

    Strings become sequences of one length; what is behind the end of a short one is filled
    with ``pad``, a symbol of the alphabet that no string holds. Without ``pad`` all strings
    have that length.
    """

    symbols: str | tuple[str, ...]
    pad: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.symbols)) != len(self.symbols):
            raise InputError("alphabet: a symbol occurs twice")
        if not all(self.symbols):
            raise InputError("alphabet: a symbol is empty")
        if any("\ud800" <= letter <= "\udfff" for symbol in self.symbols for letter in symbol):
            raise InputError("alphabet: half of a surrogate pair is no symbol")
        if len(self.symbols) < 2:
            raise InputError(f"alphabet: needs at least 2 symbols, got '{self}'")
        if self.pad is not None and (len(self.pad) != 1 or self.pad not in self.symbols):
            raise InputError(f"alphabet: the pad '{self.pad}' is none of its symbols")

    def __str__(self) -> str:
        return self.symbols if isinstance(self.symbols, str) else " ".join(self.symbols)

    @classmethod
    def of(cls, strings: Iterable[str], symbol: re.Pattern[str] = LETTER) -> "Alphabet":
        """The symbols that occur, in their order, and a pad if the lengths differ."""
        return cls.surveyed(strings, symbol)[0]

    @classmethod
    def surveyed(
        cls, strings: Iterable[str], symbol: re.Pattern[str] = LETTER
    ) -> tuple["Alphabet", Counter[int]]:
        """The alphabet, and how many strings have each length, from one pass."""
        present: set[str] = set()
        lengths: Counter[int] = Counter()
        beyond = 0  # the first string with more symbols than work
        for number, string in enumerate(strings, 1):
            cut = string if symbol is LETTER else symbol.findall(string)
            present.update(cut)
            lengths[len(cut)] += 1
            if not beyond and len(present) > MOST:
                beyond = number
        found = sorted(present)
        if len(found) < 2:
            raise InputError(f"alphabet: needs at least 2 symbols, got '{''.join(found)}'")
        if len(found) > MOST:
            raise InputError(
                f"alphabet: {len(found):,} distinct symbols, at most {MOST:,} work; "
                f"{place_of(strings, beyond)} has the first beyond"
            )
        pad = None
        if len(lengths) > 1:
            pad = next((f for f in FILLERS if not any(f in each for each in found)), None)
            if pad is None:
                text = f"alphabet: the text holds all of {FILLERS}; none is left for a pad"
                raise InputError(text)
            found.append(pad)
        letters = max(map(len, found), default=1) == 1
        return cls("".join(found) if letters else tuple(found), pad), lengths

    @property
    def pad_number(self) -> int | None:
        return None if self.pad is None else self.symbols.index(self.pad)

    @cached_property
    def _symbol(self) -> re.Pattern[str]:
        """One of the long ones, the longest that is there, or else a letter."""
        longer = sorted((s for s in self.symbols if len(s) > 1), key=len, reverse=True)
        return re.compile("|".join([*map(re.escape, longer), "."]), re.DOTALL)

    def cut(self, string: str) -> list[str]:
        """The symbols of a string."""
        return list(string) if isinstance(self.symbols, str) else self._symbol.findall(string)

    def count(self, string: str) -> int:
        """How many symbols a string has."""
        return len(string if isinstance(self.symbols, str) else self.cut(string))

    @cached_property
    def _of_point(self) -> numpy.ndarray:
        """The number of each letter by its Unicode point; -1 for others, the last for all above."""
        points = [ord(letter) for letter in self.symbols]
        numbers = numpy.full(max(points) + 2, -1, numpy.int32)
        numbers[points] = numpy.arange(len(points))
        return numbers

    def numbers(self, text: str) -> numpy.ndarray:
        """The number of each letter of a text, where symbols are letters; -1 for unknown ones."""
        points = numpy.frombuffer(text.encode("utf-32-le", "surrogatepass"), numpy.uint32)
        return self._of_point[points.clip(max=len(self._of_point) - 1)]

    def _in_a_row(self, strings: Sequence[str]) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The numbers of all symbols, string by string, and how many each string has."""
        cuts: Sequence[Sequence[str]] = strings
        if isinstance(self.symbols, str):
            numbers = self.numbers("".join(strings))
        else:
            number = {symbol: i for i, symbol in enumerate(self.symbols)}
            cuts = [self.cut(string) for string in strings]
            numbers = numpy.array([number.get(s, -1) for cut in cuts for s in cut], numpy.int32)
        return numbers, numpy.fromiter(map(len, cuts), numpy.int64, len(cuts))

    def encode(self, strings: Collection[str], length: int | None = None) -> State:
        """Tokens of shape ``(len(strings), length)``; by default as long as the longest."""
        return self.packed(strings, length).long()

    def packed(self, strings: Collection[str], length: int | None = None) -> State:
        """The tokens in as few bytes as their numbers need: there may be many."""
        length = length or max(map(self.count, strings), default=0)
        rows = room((len(strings), length), small(len(self.symbols)))
        done = 0
        for some in _lots(strings, lot(length)):
            rows[done : done + len(some)] = self._rows(some, length, done)
            done += len(some)
        return torch.from_numpy(rows)

    def _rows(self, strings: Sequence[str], length: int, before: int) -> numpy.ndarray:
        """The tokens of some strings, ``before`` which there were so many."""
        numbers, lengths = self._in_a_row(strings)
        wrong = lengths > length if self.pad is not None else lengths != length
        if wrong.any():
            i = int(wrong.argmax())
            raise InputError(f"record {before + i + 1} has {lengths[i]} symbols, others {length}")
        if (numbers < 0).any():
            place, ends = int((numbers < 0).argmax()), lengths.cumsum()
            i = int(numpy.searchsorted(ends, place, "right"))
            unknown = self.cut(strings[i])[place - int(ends[i])]  # counted from its end
            raise InputError(f"record {before + i + 1} holds {unknown!r}, which is not known")
        rows = numpy.full((len(strings), length), self.pad_number or 0, small(len(self.symbols)))
        rows[numpy.arange(length) < lengths[:, None]] = numbers
        return rows

    def decode(self, tokens: State) -> list[str]:
        """Strings without the pad at their end. A pad before the end stays to be seen."""
        strings = ("".join(self.symbols[i] for i in row) for row in tokens.tolist())
        return [s.rstrip(self.pad) if self.pad else s for s in strings]


def _lots(strings: Iterable[str], count: int) -> Iterator[list[str]]:
    """So many at a time."""
    rest = iter(strings)
    while some := list(itertools.islice(rest, count)):
        yield some
