"""Symbols and their token numbers."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy
import torch

from discrete_meanflow.data.tokens import chunk_rows, numpy_token_dtype, scratch_array
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.content import location_of
from discrete_meanflow.types import State

MAX_SYMBOLS = 10_000  # more are probably words or whole records
CHARACTER = re.compile(".", re.DOTALL)
PAD_CANDIDATES = "_~^|\u2423"  # the first that does not occur in the text is used


@dataclass(frozen=True)
class Alphabet:
    """An ordered set of symbols; token ``i`` stands for ``symbols[i]``.

    Strings become sequences of equal length. Shorter strings are padded at the end with ``pad``,
    a symbol that occurs in no string. Without ``pad``, all strings have the same length.

    Args:
        symbols: a string if every symbol is one character, else a tuple of strings.
        pad: one of the symbols, or None.
    """

    symbols: str | tuple[str, ...]
    pad: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.symbols)) != len(self.symbols):
            raise InputError("alphabet: a symbol occurs twice")
        if not all(self.symbols):
            raise InputError("alphabet: a symbol is empty")
        if any("\ud800" <= char <= "\udfff" for symbol in self.symbols for char in symbol):
            raise InputError("alphabet: a symbol contains half of a surrogate pair")
        if len(self.symbols) < 2:
            raise InputError(f"alphabet: needs at least 2 symbols, got '{self}'")
        if self.pad is not None and (len(self.pad) != 1 or self.pad not in self.symbols):
            raise InputError(f"alphabet: the pad '{self.pad}' is not one of the symbols")

    def __str__(self) -> str:
        return self.symbols if isinstance(self.symbols, str) else " ".join(self.symbols)

    @classmethod
    def of(cls, strings: Iterable[str], symbol: re.Pattern[str] = CHARACTER) -> "Alphabet":
        """The sorted symbols of the strings, and a pad if their lengths differ."""
        return cls.survey(strings, symbol)[0]

    @classmethod
    def survey(
        cls, strings: Iterable[str], symbol: re.Pattern[str] = CHARACTER
    ) -> tuple["Alphabet", Counter[int]]:
        """The alphabet, and how many strings have each length, in one pass.

        Args:
            symbol: matches one symbol of a string.
        """
        present: set[str] = set()
        lengths: Counter[int] = Counter()
        first_excess = 0  # number of the first string that exceeds MAX_SYMBOLS
        for number, string in enumerate(strings, 1):
            parts = string if symbol is CHARACTER else symbol.findall(string)
            present.update(parts)
            lengths[len(parts)] += 1
            if not first_excess and len(present) > MAX_SYMBOLS:
                first_excess = number
        symbols = sorted(present)
        if len(symbols) < 2:
            raise InputError(f"alphabet: needs at least 2 symbols, got '{''.join(symbols)}'")
        if len(symbols) > MAX_SYMBOLS:
            raise InputError(
                f"alphabet: {len(symbols):,} distinct symbols, the limit is {MAX_SYMBOLS:,}; "
                f"{location_of(strings, first_excess)} exceeds it"
            )
        pad = None
        if len(lengths) > 1:
            pad = next((p for p in PAD_CANDIDATES if not any(p in s for s in symbols)), None)
            if pad is None:
                raise InputError(
                    f"alphabet: the text contains all of {PAD_CANDIDATES}; free one of them to "
                    "serve as the pad"
                )
            symbols.append(pad)
        single = max(map(len, symbols), default=1) == 1
        return cls("".join(symbols) if single else tuple(symbols), pad), lengths

    @property
    def pad_token(self) -> int | None:
        return None if self.pad is None else self.symbols.index(self.pad)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Matches the longest symbol, or else one character."""
        multiple = sorted((s for s in self.symbols if len(s) > 1), key=len, reverse=True)
        return re.compile("|".join([*map(re.escape, multiple), "."]), re.DOTALL)

    def tokenize(self, string: str) -> list[str]:
        """The symbols of a string."""
        return list(string) if isinstance(self.symbols, str) else self._pattern.findall(string)

    def count(self, string: str) -> int:
        """Number of symbols in a string."""
        return len(string if isinstance(self.symbols, str) else self.tokenize(string))

    @cached_property
    def _token_of_code_point(self) -> numpy.ndarray:
        """Token by Unicode code point, -1 if unknown; the last entry is for all larger ones."""
        points = [ord(character) for character in self.symbols]
        tokens = numpy.full(max(points) + 2, -1, numpy.int32)
        tokens[points] = numpy.arange(len(points))
        return tokens

    def character_tokens(self, text: str) -> numpy.ndarray:
        """Token of each character, -1 if unknown. Every symbol must be one character."""
        points = numpy.frombuffer(text.encode("utf-32-le", "surrogatepass"), numpy.uint32)
        return self._token_of_code_point[points.clip(max=len(self._token_of_code_point) - 1)]

    def encode(self, strings: Collection[str], length: int | None = None) -> State:
        """Tokens of shape ``(len(strings), length)``, int64; default: the longest length."""
        return self.encode_compact(strings, length).long()

    def encode_compact(self, strings: Collection[str], length: int | None = None) -> State:
        """``encode`` in the smallest dtype that holds the tokens."""
        length = length or max(map(self.count, strings), default=0)
        rows = scratch_array((len(strings), length), numpy_token_dtype(len(self.symbols)))
        rest, done = iter(strings), 0
        while chunk := list(itertools.islice(rest, chunk_rows(length))):
            self._encode_chunk(chunk, rows[done : done + len(chunk)], done)
            done += len(chunk)
        return torch.from_numpy(rows)

    def _encode_chunk(self, strings: list[str], rows: numpy.ndarray, offset: int) -> None:
        """Write tokens to ``rows``. The strings follow the first ``offset`` ones."""
        parts: Sequence[Sequence[str]] = strings
        if isinstance(self.symbols, str):
            tokens = self.character_tokens("".join(strings))
        else:
            token = {symbol: i for i, symbol in enumerate(self.symbols)}
            parts = [self.tokenize(string) for string in strings]
            tokens = numpy.array([token.get(s, -1) for part in parts for s in part], numpy.int32)
        lengths, length = numpy.array(list(map(len, parts))), rows.shape[1]
        wrong = lengths > length if self.pad is not None else lengths != length
        if wrong.any():
            i = int(wrong.argmax())
            raise InputError(f"record {offset + i + 1} has {lengths[i]} symbols, others {length}")
        if (tokens < 0).any():
            place, ends = int((tokens < 0).argmax()), lengths.cumsum()
            i = int(numpy.searchsorted(ends, place, "right"))
            unknown = parts[i][place - int(ends[i])]  # negative: from the end
            raise InputError(
                f"record {offset + i + 1} contains {unknown!r}, which is not in the alphabet"
            )
        rows[:] = self.pad_token or 0
        rows[numpy.arange(length) < lengths[:, None]] = tokens

    def decode(self, tokens: State) -> list[str]:
        """Strings without the pads at their end. A pad before the end stays visible."""
        strings = ("".join(self.symbols[i] for i in row) for row in tokens.tolist())
        return [s.rstrip(self.pad) if self.pad else s for s in strings]
