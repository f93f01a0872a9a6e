import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from discrete_meanflow.data.alphabet import LETTER, Alphabet
from discrete_meanflow.data.codec import LONGEST, UNKNOWN, Codec, Json, in_text
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

ESCAPE = "\\"
MOST_SHOWN = 200  # letters of an alphabet


@dataclass(frozen=True)
class TextCodec(Codec):
    """Strings of at most ``size`` symbols."""

    alphabet: Alphabet
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LONGEST:
            raise InputError(f"strings need 1 to {LONGEST:,} positions, got {self.size}")

    @classmethod
    def of(cls, strings: Iterable[str], symbol: re.Pattern[str] = LETTER) -> "TextCodec":
        alphabet, lengths = Alphabet.surveyed(strings, symbol)
        return cls(alphabet, max(lengths, default=0))

    @property
    def vocabulary(self) -> int:
        return len(self.alphabet.symbols)

    @property
    def length(self) -> int:
        return self.size

    @property
    def pad(self) -> int | None:
        """The symbol behind the end, where there is one."""
        return self.alphabet.pad_number

    def count(self, string: str) -> int:
        """How many positions a string takes."""
        return self.alphabet.count(string)

    def encode(self, records: Collection[str]) -> State:
        return self.alphabet.packed(records, self.size)

    def decode(self, tokens: State) -> list[str]:
        return self.alphabet.decode(tokens)

    def known(self, pattern: Any) -> dict[int, int]:
        """``ma??``: ``?`` and what is beyond the pattern are unknown, ``\\?`` is itself, and
        ``\\n`` a new line.

        Behind a pad, which ends a string, there are pads.
        """
        if isinstance(pattern, list | tuple):  # of symbols, None where one is unknown
            wanted = [None if symbol is None else str(symbol) for symbol in pattern]
        else:
            wanted = self._wanted(in_text(pattern))
        for place, symbol in enumerate(wanted):
            if symbol is not None and symbol not in self.alphabet.symbols:
                known = str(self.alphabet)
                known = known if len(known) <= MOST_SHOWN else f"{known[:MOST_SHOWN]} ..."
                raise InputError(
                    f"clamp: {symbol!r} at position {place} is not in the alphabet {known}"
                )
        if len(wanted) > self.size:
            raise InputError(f"clamp: {len(wanted)} positions, the sequences have {self.size}")
        pad = self.alphabet.pad
        if pad is not None and pad in wanted:
            end = wanted.index(pad)
            if any(symbol not in (pad, None) for symbol in wanted[end:]):
                raise InputError(f"clamp: '{pattern}' has text behind its end, '{pad}'")
            wanted[end:] = [pad] * (self.size - end)
        return {i: self.alphabet.symbols.index(s) for i, s in enumerate(wanted) if s is not None}

    def _wanted(self, pattern: str) -> list[str | None]:
        """The symbols of a pattern, None where one is unknown."""
        found: list[str | None] = []
        plain = _unescaped(pattern, set(self.alphabet.symbols))
        for known, letters in itertools.groupby(plain, lambda c: c is not None):
            run = [c or "" for c in letters]
            found += self.alphabet.cut("".join(run)) if known else [None] * len(run)
        return found

    def describe(self) -> Json:
        symbols = self.alphabet.symbols
        return {
            "symbols": symbols if isinstance(symbols, str) else list(symbols),
            "pad": self.alphabet.pad,
            "length": self.size,
        }

    @classmethod
    def from_json(cls, words: Json) -> "TextCodec":
        pad, symbols = words["pad"], words["symbols"]
        symbols = tuple(map(str, symbols)) if isinstance(symbols, list) else str(symbols)
        return cls(Alphabet(symbols, None if pad is None else str(pad)), int(words["length"]))


def _unescaped(pattern: str, symbols: set[str]) -> Iterator[str | None]:
    """The letters of a pattern, None where one is unknown."""
    escapes = {UNKNOWN: UNKNOWN, ESCAPE: ESCAPE}
    escapes |= {name: white for name, white in (("n", "\n"), ("t", "\t")) if white in symbols}
    letters = iter(pattern)
    for letter in letters:
        if letter == ESCAPE:
            escaped = next(letters, ESCAPE)
            if escaped not in escapes:
                itself = f"a backslash itself is {ESCAPE}{ESCAPE}"
                raise InputError(f"clamp: '{ESCAPE}{escaped}' means nothing; {itself}")
            yield escapes[escaped]
        else:
            yield None if letter == UNKNOWN else letter
