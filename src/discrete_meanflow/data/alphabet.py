from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

MOST = 10_000  # symbols; more are words or whole records taken for symbols
FILLERS = "_~^|\u2423"  # what may stand for "nothing more", the first that no text holds


@dataclass(frozen=True)
class Alphabet:
    """Characters and their numbers: ``symbols[i]`` has number i.

    Strings become sequences of one length; what is behind the end of a short one is filled
    with ``pad``, a symbol of the alphabet that no string holds. Without ``pad`` all strings
    have that length.
    """

    symbols: str
    pad: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.symbols)) != len(self.symbols):
            raise InputError("alphabet: a symbol occurs twice")
        if any("\ud800" <= symbol <= "\udfff" for symbol in self.symbols):
            raise InputError("alphabet: half of a surrogate pair is no symbol")
        if len(self.symbols) < 2:
            raise InputError(f"alphabet: needs at least 2 symbols, got '{self.symbols}'")
        if self.pad is not None and (len(self.pad) != 1 or self.pad not in self.symbols):
            raise InputError(f"alphabet: the pad '{self.pad}' is none of its symbols")

    @classmethod
    def of(cls, strings: Iterable[str]) -> "Alphabet":
        """The characters that occur, in their order, and a pad if the lengths differ."""
        strings = list(strings)
        found = sorted(set().union(*strings)) if strings else []
        if len(found) > MOST:
            raise InputError(f"alphabet: {len(found):,} distinct symbols, at most {MOST:,} work")
        if len({len(s) for s in strings}) < 2:
            return cls("".join(found))
        pad = next((f for f in FILLERS if f not in found), None)
        if pad is None:
            raise InputError(f"alphabet: the text holds all of {FILLERS}; none is left for a pad")
        return cls("".join([*found, pad]), pad)

    @property
    def pad_number(self) -> int | None:
        return None if self.pad is None else self.symbols.index(self.pad)

    def encode(self, strings: Sequence[str], length: int | None = None) -> State:
        """Tokens of shape ``(len(strings), length)``; by default as long as the longest."""
        length = length or max(map(len, strings), default=0)
        number = {symbol: i for i, symbol in enumerate(self.symbols)}
        rows = []
        for i, string in enumerate(strings):
            if len(string) > length or (self.pad is None and len(string) < length):
                raise InputError(f"record {i + 1} has {len(string)} symbols, others {length}")
            try:
                row = [number[symbol] for symbol in string]
            except KeyError as unknown:
                raise InputError(f"record {i + 1} holds {unknown}, which is not known") from None
            rows.append(row + [number[self.pad or ""]] * (length - len(row)) if self.pad else row)
        return torch.tensor(rows, dtype=torch.long).reshape(len(rows), length)

    def decode(self, tokens: State) -> list[str]:
        """Strings without the pad at their end. A pad before the end stays to be seen."""
        strings = ("".join(self.symbols[i] for i in row) for row in tokens.tolist())
        return [s.rstrip(self.pad) if self.pad else s for s in strings]
