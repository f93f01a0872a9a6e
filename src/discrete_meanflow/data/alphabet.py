import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy
import torch

from discrete_meanflow.data.tokens import stored
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
        present: set[str] = set()
        lengths: set[int] = set()
        for string in strings:
            cut = symbol.findall(string)
            present.update(cut)
            lengths.add(len(cut))
        found = sorted(present)
        if len(found) > MOST:
            raise InputError(f"alphabet: {len(found):,} distinct symbols, at most {MOST:,} work")
        pad = None
        if len(lengths) > 1:
            pad = next((f for f in FILLERS if not any(f in each for each in found)), None)
            if pad is None:
                text = f"alphabet: the text holds all of {FILLERS}; none is left for a pad"
                raise InputError(text)
            found.append(pad)
        return cls("".join(found) if max(map(len, found), default=1) == 1 else tuple(found), pad)

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

    def encode(self, strings: Sequence[str], length: int | None = None) -> State:
        """Tokens of shape ``(len(strings), length)``; by default as long as the longest."""
        return self.packed(strings, length).long()

    def packed(self, strings: Sequence[str], length: int | None = None) -> State:
        """The tokens in as few bytes as their numbers need: there may be many."""
        length = length or max(map(self.count, strings), default=0)
        number = {symbol: i for i, symbol in enumerate(self.symbols)}
        rows = numpy.full((len(strings), length), self.pad_number or 0, small(len(number)))
        for i, string in enumerate(strings):
            symbols = self.cut(string)
            if len(symbols) > length or (self.pad is None and len(symbols) < length):
                raise InputError(f"record {i + 1} has {len(symbols)} symbols, others {length}")
            try:
                rows[i, : len(symbols)] = [number[symbol] for symbol in symbols]
            except KeyError as unknown:
                raise InputError(f"record {i + 1} holds {unknown}, which is not known") from None
        return torch.from_numpy(rows)

    def decode(self, tokens: State) -> list[str]:
        """Strings without the pad at their end. A pad before the end stays to be seen."""
        strings = ("".join(self.symbols[i] for i in row) for row in tokens.tolist())
        return [s.rstrip(self.pad) if self.pad else s for s in strings]
