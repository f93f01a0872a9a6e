"""Read and split the data files of the experiments. Errors name the file and the line."""

from pathlib import Path

import numpy
import torch

from discrete_meanflow.data.split import train_test_split
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.content import FastaFile, LineFile
from discrete_meanflow.types import State


def lines(path: Path) -> list[str]:
    """One record per line; empty lines are skipped."""
    return list(iter(LineFile(path)))  # list(LineFile(path)) would call len, a second pass


def fasta(path: Path) -> list[str]:
    """The sequences of a FASTA file."""
    return list(iter(FastaFile(path)))


def whole_numbers(path: Path) -> State:
    """Rows of comma-separated integers: shape ``(rows, columns)``."""
    rows = []
    for number, line in enumerate(lines(path), 1):
        try:
            rows.append([int(cell) for cell in line.split(",")])
        except ValueError:
            raise InputError(f"{path}, line {number}: needs comma-separated integers") from None
        if len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{path}, line {number}: {len(rows[-1])} numbers, the first line has {len(rows[0])}"
            )
    return torch.from_numpy(numpy.array(rows, dtype=numpy.int64))


def split(tokens: State, held_out: int, seed: int = 0) -> tuple[State, State]:
    """Split distinct rows at random into training rows and ``held_out`` rows."""
    return train_test_split(tokens, held_out, seed, keep_duplicates=False)[:2]
