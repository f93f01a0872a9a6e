import math
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from discrete_meanflow.data.alphabet import MOST, small
from discrete_meanflow.data.codec import LONGEST, UNKNOWN, Codec, Json, in_text
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State


@dataclass(frozen=True)
class ArrayCodec(Codec):
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
    def of(cls, array: numpy.ndarray) -> "ArrayCodec":
        return cls(tuple(array.shape[1:]), int(array.max()) + 1)

    @property
    def vocabulary(self) -> int:
        return self.symbols

    @property
    def length(self) -> int:
        return math.prod(self.shape)

    def encode(self, records: numpy.ndarray) -> State:
        return torch.from_numpy(records.reshape(len(records), -1).astype(small(self.symbols)))

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
    def from_json(cls, words: Json) -> "ArrayCodec":
        return cls(tuple(map(int, words["shape"])), int(words["symbols"]))
