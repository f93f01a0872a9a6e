"""Between records as users have them and tokens as kernels do: text, table rows, arrays."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.alphabet import MOST, Alphabet
from discrete_meanflow.data.read import DELIMITERS
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

Json = dict[str, Any]
UNKNOWN, ESCAPE = "?", "\\"
LONGEST = 1_000_000  # positions; more are no record, or mischief


class Codec(ABC):
    """``length`` positions over ``vocabulary`` symbols, and what they stand for."""

    @property
    @abstractmethod
    def vocabulary(self) -> int: ...

    @property
    @abstractmethod
    def length(self) -> int: ...

    @abstractmethod
    def encode(self, records: Any) -> State:
        """Tokens of shape ``(records, length)``."""

    @abstractmethod
    def decode(self, tokens: State) -> Any:
        """Records, raw: nothing is mended."""

    @abstractmethod
    def known(self, pattern: Any) -> dict[int, int]:
        """What a pattern says: tokens by position."""

    @abstractmethod
    def describe(self) -> Json:
        """All that ``made_from`` needs to make it again."""

    @classmethod
    @abstractmethod
    def made_from(cls, words: Json) -> "Codec":
        """The codec that described itself so."""

    def clamp(self, pattern: Any, label: str | None = None) -> tuple[State, Tensor]:
        """Tokens, and whether a pattern or class gives each of them: both ``(length,)``."""
        tokens = torch.zeros(self.length, dtype=torch.long)
        held = torch.zeros(self.length, dtype=torch.bool)
        known = {} if pattern is None else self.known(pattern)
        for place, token in ({} if label is None else self.of_class(label)).items():
            if known.setdefault(place, token) != token:
                raise InputError(f"clamp: '{pattern}' and class '{label}' contradict each other")
        for place, token in known.items():
            tokens[place], held[place] = token, True
        return tokens, held

    @property
    def allowed(self) -> Tensor | None:
        """Which symbols each position may have: bool ``(length, vocabulary)``; None means all."""
        return None

    @property
    def bare(self) -> "Codec":
        """That of the records alone, without their classes."""
        return self

    @property
    def class_positions(self) -> list[int]:
        """Where the class of a record stands, if records have classes."""
        return []

    def of_class(self, name: str) -> dict[int, int]:
        """The tokens of a class by position."""
        raise InputError("--class: this run knows no classes; they come with dmf train --label")


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


@dataclass(frozen=True)
class Columns(Codec):
    """Rows of a table: each column has levels of its own."""

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    label: str | None = None  # the column that is the class
    delimiter: str = ","  # as it stands between cells where rows are written
    heading: bool = True  # whether names stand above them

    def __post_init__(self) -> None:
        if self.delimiter not in DELIMITERS:
            raise InputError(f"table: '{self.delimiter}' is no delimiter")
        if self.label is not None and self.label not in self.names:
            columns = ", ".join(self.names)
            raise InputError(f"--label: no column '{self.label}'; there are {columns}")
        for name, levels in zip(self.names, self.levels, strict=False):
            if len(levels) > MOST:
                raise InputError(
                    f"table: column {name} has {len(levels):,} levels, at most {MOST:,} work; "
                    "numbers can be cut into --bins"
                )
        if not self.names or len(self.names) != len(self.levels) or not all(self.levels):
            raise InputError("table: needs a name and at least one level for each column")
        if self.vocabulary < 2:
            raise InputError("table: every column is constant; there is nothing to learn")

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[str]]) -> "Columns":
        levels = tuple(tuple(sorted(set(column))) for column in zip(*rows, strict=True))
        return cls(tuple(names), levels)

    @property
    def vocabulary(self) -> int:
        return max(map(len, self.levels))

    @property
    def length(self) -> int:
        return len(self.names)

    @property
    def allowed(self) -> Tensor:
        counts = torch.tensor([len(each) for each in self.levels])
        return torch.arange(self.vocabulary) < counts[:, None]

    def encode(self, records: Sequence[Sequence[str]]) -> State:
        number = [{level: i for i, level in enumerate(each)} for each in self.levels]
        rows = []
        for i, row in enumerate(records, 1):
            try:
                rows.append([n[cell] for n, cell in zip(number, row, strict=True)])
            except (KeyError, ValueError) as error:
                raise InputError(f"row {i}: {error} does not fit the columns") from None
        return torch.tensor(rows, dtype=torch.long).reshape(len(rows), self.length)

    def decode(self, tokens: State) -> list[list[str]]:
        return [
            [each[i] for each, i in zip(self.levels, row, strict=True)] for row in tokens.tolist()
        ]

    def known(self, pattern: Any) -> dict[int, int]:
        """``colour=red,odour=n``: columns by name, the others are unknown.

        ``\\,`` is a comma, ``\\=`` an equals sign in a name, ``\\\\`` a backslash. Or a dict.
        """
        found: dict[int, int] = {}
        for name, level in pattern.items() if isinstance(pattern, Mapping) else _equations(pattern):
            for place, token in self._known(str(name), str(level)).items():
                if found.setdefault(place, token) != token:
                    raise InputError(f"clamp: column {name} is given twice, with different levels")
        return found

    def _known(self, name: str, level: str) -> dict[int, int]:
        if name not in self.names:
            raise InputError(f"clamp: no column '{name}'; there are {', '.join(self.names)}")
        place = self.names.index(name)
        if level not in self.levels[place]:
            known = ", ".join(self.levels[place])
            raise InputError(f"clamp: column {name} has no '{level}'; it has {known}")
        return {place: self.levels[place].index(level)}

    @property
    def class_positions(self) -> list[int]:
        return [] if self.label is None else [self.names.index(self.label)]

    def of_class(self, name: str) -> dict[int, int]:
        return super().of_class(name) if self.label is None else self._known(self.label, name)

    def describe(self) -> Json:
        levels = [list(each) for each in self.levels]
        return {
            "columns": list(self.names),
            "levels": levels,
            "label": self.label,
            "delimiter": self.delimiter,
            "heading": self.heading,
        }

    @classmethod
    def made_from(cls, words: Json) -> "Columns":
        levels = tuple(tuple(map(str, each)) for each in words["levels"])
        label = words["label"]
        names = tuple(map(str, words["columns"]))
        label = None if label is None else str(label)
        # Runs of earlier versions say nothing of these two.
        delimiter, heading = words.get("delimiter", ","), words.get("heading", True)
        return cls(names, levels, label, str(delimiter), bool(heading))


@dataclass(frozen=True)
class Arrays(Codec):
    """Arrays of whole numbers ``0 .. symbols - 1``, of one shape."""

    shape: tuple[int, ...]
    symbols: int

    def __post_init__(self) -> None:
        if self.symbols > MOST:
            raise InputError(f"array: numbers up to {self.symbols - 1:,}, at most {MOST:,} work")
        if self.symbols < 2 or not self.shape or min(self.shape) < 1 or self.length > LONGEST:
            raise InputError(
                f"array: needs at least 2 symbols and 1 position, got {self.symbols} and "
                f"{self.shape}"
            )

    @classmethod
    def of(cls, array: numpy.ndarray) -> "Arrays":
        return cls(tuple(array.shape[1:]), int(array.max()) + 1)

    @property
    def vocabulary(self) -> int:
        return self.symbols

    @property
    def length(self) -> int:
        return math.prod(self.shape)

    def encode(self, records: numpy.ndarray) -> State:
        few = numpy.uint8 if self.symbols <= 256 else numpy.int32  # there may be many records
        return torch.from_numpy(records.reshape(len(records), -1).astype(few))

    def decode(self, tokens: State) -> numpy.ndarray:
        return tokens.reshape(-1, *self.shape).numpy()

    def known(self, pattern: Any) -> dict[int, int]:
        """``0,?,3``: numbers in the order of the flattened array, ``?`` and the rest unknown.

        Or a list, with None for what is unknown.
        """
        if isinstance(pattern, list | tuple | numpy.ndarray):
            given = numpy.asarray(pattern, dtype=object).ravel()
            cells = [UNKNOWN if cell is None else str(cell).strip() for cell in given]
        else:
            text = in_text(pattern)
            cells = [cell.strip() for cell in text.split(",")] if text else []
        if len(cells) > self.length:
            raise InputError(f"clamp: {len(cells)} positions, the arrays have {self.length}")
        for place, cell in enumerate(cells):
            if cell != UNKNOWN and not (cell.isdecimal() and int(cell) < self.symbols):
                raise InputError(
                    f"clamp: '{cell}' at position {place} is no number from 0 to {self.symbols - 1}"
                )
        return {place: int(cell) for place, cell in enumerate(cells) if cell != UNKNOWN}

    def describe(self) -> Json:
        return {"shape": list(self.shape), "symbols": self.symbols}

    @classmethod
    def made_from(cls, words: Json) -> "Arrays":
        return cls(tuple(map(int, words["shape"])), int(words["symbols"]))


def in_text(pattern: Any) -> str:
    """A pattern that must be one of letters."""
    if not isinstance(pattern, str):
        raise InputError(f"clamp: what is known is told in words, as 'ma??', got {pattern!r}")
    return pattern


def _equations(pattern: Any) -> Iterator[tuple[str, str]]:
    """``a=b,c=d`` as pairs."""
    for part in filter(None, _parted(in_text(pattern), ",")):
        name, *level = (re.sub(r"\\([\\,=])", r"\1", side) for side in _parted(part, "=", 1))
        yield name, "".join(level)


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


def _parted(pattern: str, mark: str, most: int = -1) -> list[str]:
    """A pattern cut at ``mark``, at most so often, but where a backslash stands before it."""
    pieces = re.findall(rf"(?:\\.|[^\\{mark}])+|{mark}|\\$", pattern, re.DOTALL)
    parts, cuts = [""], 0
    for piece in pieces:
        if piece == mark and cuts != most:
            parts.append("")
            cuts += 1
        else:
            parts[-1] += piece
    return parts
