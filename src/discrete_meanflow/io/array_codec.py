"""Integer arrays: reading .npy and .npz, and their codec."""

import math
import struct
import tokenize
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from discrete_meanflow.data.tokens import numpy_token_dtype
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.alphabet import MAX_SYMBOLS
from discrete_meanflow.io.codec import MAX_LENGTH, Codec, Dataset, Json
from discrete_meanflow.io.content import open_decompressed
from discrete_meanflow.io.infill import split_cells
from discrete_meanflow.io.layout import Arrangement, Layout, numbered
from discrete_meanflow.io.unpacking import check_unpacked
from discrete_meanflow.types import State

# What NumPy and its libraries raise on a damaged file.
DAMAGED = (
    ValueError, LookupError, TypeError, OverflowError, RuntimeError,
    struct.error, tokenize.TokenError, zipfile.BadZipFile,
)  # fmt: skip
INTEGER_KINDS = "iub"  # of NumPy dtypes


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

    @property
    def layout(self) -> Layout:
        symbols = (tuple(map(str, range(self.symbols))),)
        if len(self.shape) != 2:
            return Layout(Arrangement.LIST, numbered(self.length), symbols)
        height, width = self.shape
        positions = (f"row {i + 1}, column {j + 1}" for i in range(height) for j in range(width))
        return Layout(Arrangement.GRID, tuple(positions), symbols, self.shape)

    def card(self, dataset: Dataset) -> Json:
        return self.describe()

    def parse_infill(self, pattern: Any) -> dict[int, int]:
        """Parse ``0,?,3`` or ``[0, None, 3]``: the flattened array, unknown after its end."""
        cells = split_cells(pattern)
        if len(cells) > self.length:
            raise InputError(f"infill has {len(cells)} positions; records have {self.length}")
        symbols = {str(symbol): symbol for symbol in range(self.symbols)}
        for position, cell in enumerate(cells):
            if cell is not None and cell not in symbols:
                raise InputError(
                    f"infill: '{cell:.40}' at position {position} is not an integer from 0 to "
                    f"{self.symbols - 1}"
                )
        return {i: symbols[cell] for i, cell in enumerate(cells) if cell is not None}

    def describe(self) -> Json:
        return {"shape": list(self.shape), "symbols": self.symbols}

    @classmethod
    def from_json(cls, description: Json) -> "ArrayCodec":
        return cls(tuple(map(int, description["shape"])), int(description["symbols"]))


def read_array(path: Path) -> tuple[numpy.ndarray, str | None]:
    """Non-negative integers, records along the first axis.

    The second value says which array of a .npz it is, if there are several.
    """
    array, source = read_named_array(path)
    return check_integers(array, f"{path}" + f", {source}" * bool(source)), source


def read_named_array(path: Path, name: str | None = None) -> tuple[numpy.ndarray, str | None]:
    """The array of a .npy, or one of a .npz and which of several it is.

    Args:
        name: of an array in a .npz; None picks the first integer array with at least two axes.
    """
    source = None
    with open_decompressed(path) as file:
        try:
            array = numpy.load(file, allow_pickle=False)
            if isinstance(array, numpy.lib.npyio.NpzFile):
                array, source = _from_archive(path, array, name)
        except InputError:
            raise
        except DAMAGED as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            reason = "it contains no array of numbers" if "pickle" in reason else reason
            raise InputError(f"cannot read {path}: {reason}") from None
        except MemoryError:
            raise InputError(f"{path}: its header declares more data than fits in memory") from None
    if not isinstance(array, numpy.ndarray):
        raise InputError(f"{path}: {name or 'it'} does not contain an array")
    return array, source


def _from_archive(path: Path, archive: Any, name: str | None) -> tuple[numpy.ndarray, str | None]:
    """An array of a .npz, and which of several it is; see ``read_named_array``."""
    check_unpacked(path, sum(entry.file_size for entry in archive.zip.infolist()))
    names = ", ".join(archive.files)
    if name is not None and name not in archive.files:
        raise InputError(f"{path}: no array '{name}'; the arrays are {names}")
    name, array = _first_records(archive) if name is None else (name, archive[name])
    return array, f"{name}, of {names}" if len(archive.files) > 1 else None


def _first_records(archive: Mapping[str, Any]) -> tuple[str, Any]:
    """The first integer array with at least two axes, else the first with two axes, else any."""
    best: tuple[str, Any] = "", None
    most_axes = -1
    for name in archive:
        array = archive[name]  # NumPy loads each array on access, and other files as bytes
        if not isinstance(array, numpy.ndarray):
            continue
        if array.ndim > 1:
            array = _floats_to_integers(array)
            if array.dtype.kind in INTEGER_KINDS:
                return name, array
        if min(array.ndim, 2) > most_axes:
            best, most_axes = (name, array), min(array.ndim, 2)
    return best


def _floats_to_integers(array: numpy.ndarray) -> numpy.ndarray:
    """Integers, if the array contains floats that are all integral; else the array itself."""
    if array.dtype.kind != "f":
        return array
    integers = _truncated(array)
    return integers if numpy.array_equal(array, integers) else array


def _truncated(array: numpy.ndarray) -> numpy.ndarray:
    with numpy.errstate(invalid="ignore"):  # NaN and infinity
        return array.astype(numpy.int64)


def check_integers(array: numpy.ndarray, where: str) -> numpy.ndarray:
    """Return the array if it has non-negative integers and records along the first axis.

    Args:
        where: precedes an error message.
    """
    if array.ndim < 2 or not array.size:
        raise InputError(f"{where}: needs records along the first axis, got shape {array.shape}")
    array = _floats_to_integers(array)
    advice = "round them, or number the distinct values"
    if array.dtype.kind == "f":
        index = tuple(int(i) for i in numpy.argwhere(array != _truncated(array))[0])
        raise InputError(
            f"{where}: needs integers from 0, got {array[index]:g} at {index}; {advice}"
        )
    if array.dtype.kind not in INTEGER_KINDS:
        raise InputError(f"{where}: needs integers from 0, got {array.dtype}; {advice}")
    if array.min() < 0:
        index = tuple(int(i) for i in numpy.argwhere(array < 0)[0])
        raise InputError(f"{where}: {int(array[index])} at {index}; integers must be 0 or more")
    return array
