from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discrete_meanflow.data.alphabet import Alphabet
from discrete_meanflow.data.codec import LONGEST, UNKNOWN, Codec, Json, in_text
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

ESCAPE = "\\"


@dataclass(frozen=True)
class Strings(Codec):
    """Strings of at most ``size`` characters."""

    alphabet: Alphabet
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LONGEST:
            raise InputError(f"strings need 1 to {LONGEST:,} positions, got {self.size}")

    @classmethod
    def of(cls, strings: Sequence[str]) -> "Strings":
        return cls(Alphabet.of(strings), max(map(len, strings), default=0))

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

    def encode(self, records: Sequence[str]) -> State:
        return self.alphabet.encode(records, self.size)

    def decode(self, tokens: State) -> list[str]:
        return self.alphabet.decode(tokens)

    def known(self, pattern: Any) -> dict[int, int]:
        """``ma??``: ``?`` and what is beyond the pattern are unknown, ``\\?`` is itself.

        Behind a pad, which ends a string, there are pads.
        """
        wanted = _unescaped(in_text(pattern))
        if len(wanted) > self.size:
            raise InputError(f"clamp: {len(wanted)} positions, the sequences have {self.size}")
        for place, symbol in enumerate(wanted):
            if symbol is not None and symbol not in self.alphabet.symbols:
                raise InputError(
                    f"clamp: '{symbol}' at position {place} is not in the alphabet "
                    f"{self.alphabet.symbols}"
                )
        pad = self.alphabet.pad
        if pad is not None and pad in wanted:
            end = wanted.index(pad)
            if any(symbol not in (pad, None) for symbol in wanted[end:]):
                raise InputError(f"clamp: '{pattern}' has text behind its end, '{pad}'")
            wanted[end:] = [pad] * (self.size - end)
        return {i: self.alphabet.symbols.index(s) for i, s in enumerate(wanted) if s is not None}

    def describe(self) -> Json:
        return {"symbols": self.alphabet.symbols, "pad": self.alphabet.pad, "length": self.size}

    @classmethod
    def made_from(cls, words: Json) -> "Strings":
        pad = words["pad"]
        alphabet = Alphabet(str(words["symbols"]), None if pad is None else str(pad))
        return cls(alphabet, int(words["length"]))


def _unescaped(pattern: str) -> list[str | None]:
    """The symbols of a pattern, None where one is unknown."""
    found: list[str | None] = []
    symbols = iter(pattern)
    for symbol in symbols:
        if symbol == ESCAPE:
            found.append(next(symbols, ESCAPE))
        else:
            found.append(None if symbol == UNKNOWN else symbol)
    return found
