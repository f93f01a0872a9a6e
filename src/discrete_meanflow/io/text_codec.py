"""Codec of strings."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.alphabet import CHARACTER, Alphabet
from discrete_meanflow.io.codec import MAX_LENGTH, Codec, Dataset, Json
from discrete_meanflow.io.infill import require_string, split_characters
from discrete_meanflow.io.layout import Layout
from discrete_meanflow.types import State

MAX_SHOWN = 200  # characters of an alphabet in an error message
FEW_LONG = 0.001  # fraction of records; so few long ones make all sequences long


@dataclass(frozen=True)
class TextCodec(Codec):
    """Strings of at most ``size`` symbols of an alphabet."""

    alphabet: Alphabet
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MAX_LENGTH:
            raise InputError(f"strings need 1 to {MAX_LENGTH:,} positions, got {self.size}")

    @classmethod
    def of(cls, strings: Iterable[str], symbol: re.Pattern[str] = CHARACTER) -> "TextCodec":
        alphabet, lengths = Alphabet.survey(strings, symbol)
        return cls(alphabet, max(lengths, default=0))

    @property
    def vocabulary(self) -> int:
        return len(self.alphabet.symbols)

    @property
    def length(self) -> int:
        return self.size

    @property
    def pad(self) -> int | None:
        """The padding token, or None if all strings have the same length."""
        return self.alphabet.pad_token

    @property
    def sequential(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return False

    def count(self, string: str) -> int:
        """Number of positions that a string takes."""
        return self.alphabet.count(string)

    def encode(self, records: Collection[str]) -> State:
        return self.alphabet.encode_compact(records, self.size)

    def decode(self, tokens: State) -> list[str]:
        return self.alphabet.decode(tokens)

    @property
    def layout(self) -> Layout:
        return Layout.of_text(self.size, tuple(self.alphabet.symbols), self.pad)

    def card(self, dataset: Dataset) -> Json:
        windows = dataset.tokens is not None
        lengths = Counter([self.length] if windows else map(self.count, dataset.records))
        longest, ordered = max(lengths), sorted(lengths)
        cumulative = itertools.accumulate(lengths[length] for length in ordered)
        median = ordered[sum(count <= lengths.total() // 2 for count in cumulative)]
        card: Json = {
            "alphabet": str(self.alphabet),
            "symbols": self.vocabulary,
            "pad": self.alphabet.pad,
            "lengths": {"least": min(lengths), "median": median, "most": longest},
        }
        longer = sum(count for length, count in lengths.items() if length > longest // 2)
        if longer <= FEW_LONG * lengths.total():
            card["note"] = (
                f"only {longer} records are longer than half the longest, {longest}, and all are "
                "padded to it; remove them to train faster"
            )
        return card

    def parse_infill(self, pattern: Any) -> dict[int, int]:
        """Parse ``ma??``, where ``?`` and all positions after the pattern are unknown.

        ``\\?`` is a question mark, ``\\n`` a new line. A list of symbols works too, with None for
        unknown ones. The pad ends a string, so all positions after it are pads.
        """
        if isinstance(pattern, list | tuple):
            symbols = [None if symbol is None else str(symbol) for symbol in pattern]
        else:
            symbols = self._pattern_symbols(require_string(pattern))
        length = f"infill has {len(symbols)} positions; records have at most {self.size}"
        for position, symbol in enumerate(symbols):
            if symbol is not None and symbol not in self.alphabet.symbols:
                alphabet = str(self.alphabet)
                shown = f"{alphabet[:MAX_SHOWN]} ..." if len(alphabet) > MAX_SHOWN else alphabet
                raise InputError(
                    f"infill: {symbol!r} at position {position} is not in the alphabet {shown}; "
                    "an unknown position is ?" + f"; {length}" * (len(symbols) > self.size)
                )
        if len(symbols) > self.size:
            raise InputError(length)
        pad = self.alphabet.pad
        if pad is not None and pad in symbols:
            end = symbols.index(pad)
            if any(symbol not in (pad, None) for symbol in symbols[end:]):
                raise InputError(f"infill: '{pattern}' has text after '{pad}', which ends a string")
            symbols[end:] = [pad] * (self.size - end)
        return {i: self.alphabet.symbols.index(s) for i, s in enumerate(symbols) if s is not None}

    def _pattern_symbols(self, pattern: str) -> list[str | None]:
        """The symbols of a pattern, None for unknown ones."""
        symbols: list[str | None] = []
        characters = split_characters(pattern, set(self.alphabet.symbols))
        for is_known, run in itertools.groupby(characters, lambda c: c is not None):
            text = [c or "" for c in run]
            symbols += self.alphabet.tokenize("".join(text)) if is_known else [None] * len(text)
        return symbols

    def describe(self) -> Json:
        symbols = self.alphabet.symbols
        return {
            "symbols": symbols if isinstance(symbols, str) else list(symbols),
            "pad": self.alphabet.pad,
            "length": self.size,
        }

    @classmethod
    def from_json(cls, description: Json) -> "TextCodec":
        pad, symbols = description["pad"], description["symbols"]
        symbols = tuple(map(str, symbols)) if isinstance(symbols, list) else str(symbols)
        return cls(Alphabet(symbols, None if pad is None else str(pad)), int(description["length"]))
