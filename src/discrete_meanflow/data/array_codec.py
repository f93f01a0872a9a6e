"""Codec of integer arrays."""

import math
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from discrete_meanflow.data.alphabet import MAX_SYMBOLS
from discrete_meanflow.data.codec import MAX_LENGTH, Codec, Dataset, Json
from discrete_meanflow.data.infill import split_cells
from discrete_meanflow.data.tokens import numpy_token_dtype
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State


@dataclass(frozen=True)
class ArrayCodec(Codec):
    """Arrays of one ``shape`` with integers ``0 .. symbols - 1``."""

    shape: tuple[int, ...]
    symbols: int

    def __post_init__(self) -> None:
        if self.symbols > MAX_SYMBOLS:
            raise InputError(
                f"array: integers up to {self.symbols - 1:,}; the limit is {MAX_SYMBOLS - 1:,}"
            )
        if self.symbols < 2 or not self.shape or min(self.shape) < 1 or self.length > MAX_LENGTH:
            raise InputError(
                f"array: needs at least 2 symbols and 1 to {MAX_LENGTH:,} positions, got "
                f"{self.symbols} and {self.shape}"
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
        dtype = numpy_token_dtype(self.symbols)
        return torch.from_numpy(records.reshape(len(records), -1).astype(dtype))

    def decode(self, tokens: State) -> numpy.ndarray:
        return tokens.reshape(-1, *self.shape).numpy()

    def card(self, dataset: Dataset) -> Json:
        return {"shape": list(self.shape), "symbols": self.symbols}

    def parse_infill(self, pattern: Any) -> dict[int, int]:
        """Parse ``0,?,3`` or ``[0, None, 3]``: the flattened array, unknown after its end."""
        cells = split_cells(pattern)
        if len(cells) > self.length:
            raise InputError(f"infill: {len(cells)} positions, the arrays have {self.length}")
        for position, cell in enumerate(cells):
            if cell is not None and not (cell.isdecimal() and int(cell) < self.symbols):
                raise InputError(
                    f"infill: '{cell}' at position {position} is not an integer from 0 to "
                    f"{self.symbols - 1}"
                )
        return {position: int(cell) for position, cell in enumerate(cells) if cell is not None}

    def describe(self) -> Json:
        return {"shape": list(self.shape), "symbols": self.symbols}

    @classmethod
    def from_json(cls, description: Json) -> "ArrayCodec":
        return cls(tuple(map(int, description["shape"])), int(description["symbols"]))
