"""A long text as windows of tokens, read piece by piece: it need not fit into memory."""

from pathlib import Path

import torch

from discrete_meanflow.data.alphabet import MOST, Alphabet, small
from discrete_meanflow.data.content import changed, pieces
from discrete_meanflow.data.room import room
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State


def survey(path: Path) -> tuple[Alphabet, int]:
    """The characters of a text and how many there are in all."""
    symbols: set[str] = set()
    count = 0
    for text in pieces(path):
        symbols |= set(text)
        count += len(text)
        if len(symbols) > MOST:
            raise InputError(f"{path}: more than {MOST:,} distinct symbols; at most that many work")
    if not count:
        raise InputError(f"{path} is empty")
    return Alphabet("".join(sorted(symbols))), count


def windows(path: Path, length: int) -> tuple[Alphabet, State]:
    """Tokens of the windows, ``(N, length)``."""
    if length < 1:
        raise InputError(f"--length: at least 1, got {length}")
    alphabet, count = survey(path)
    if count < 2 * length:
        raise InputError(f"{path}: {count} characters are too few for windows of {length}")
    used = count // length * length
    tokens = room((used,), small(len(alphabet.symbols)))
    place = 0
    for text in pieces(path):
        some = alphabet.numbers(text)[: used - place]
        if (some < 0).any():
            raise changed(path)
        tokens[place : place + len(some)] = some
        place += len(some)
    if place < used:
        raise changed(path)
    return alphabet, torch.from_numpy(tokens).view(-1, length)
