"""A long text as windows of tokens, read piece by piece: it need not fit into memory."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy
import torch

from discrete_meanflow.data.alphabet import MOST, Alphabet, small
from discrete_meanflow.data.content import changed, pieces
from discrete_meanflow.data.scratch import room
from discrete_meanflow.data.subword_codec import SubwordCodec
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

MOUTHFUL = 1 << 16  # characters that a tokenizer is given at once


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
    """Tokens of the windows, ``(N, length)``, each a character."""
    _check(length)
    alphabet, count = survey(path)
    return alphabet, _filled(
        path, map(alphabet.numbers, pieces(path)), len(alphabet.symbols), count, length
    )


def token_windows(path: Path, codec: SubwordCodec) -> State:
    """Tokens of the windows, ``(N, length)``, each a piece of a tokenizer."""
    _check(codec.length)
    count = sum(map(len, token_runs(path, codec)))
    if not count:
        raise InputError(f"{path} is empty, or the tokenizer makes nothing of it")
    return _filled(path, token_runs(path, codec), codec.vocabulary, count, codec.length)


def token_runs(path: Path, codec: SubwordCodec) -> Iterator[numpy.ndarray]:
    """The tokens of a text, some at a time."""
    kind = small(codec.vocabulary)
    for words in mouthfuls(path):
        yield numpy.array(codec.read([words], signs=False)[0].ids, kind)


def mouthfuls(path: Path) -> Iterator[str]:
    """The text in pieces that end before a space, where there is one: no word is cut."""
    left = ""
    for piece in pieces(path):
        left += piece
        while len(left) > MOUTHFUL:
            end = max(left.rfind(space, 1, MOUTHFUL) for space in " \n")
            end = end if end > 0 else MOUTHFUL
            yield left[:end]
            left = left[end:]
    yield left


def _check(length: int) -> None:
    if length < 1:
        raise InputError(f"--length: at least 1, got {length}")


def _filled(
    path: Path, runs: Iterable[numpy.ndarray], symbols: int, count: int, length: int
) -> State:
    """``count`` tokens that come in runs, as windows: ``(N, length)``."""
    if count < 2 * length:
        raise InputError(f"{path}: {count} symbols are too few for windows of {length}")
    used = count // length * length
    tokens = room((used,), small(symbols))
    place = 0
    for run in runs:
        some = run[: used - place]
        if (some < 0).any():
            raise changed(path)
        tokens[place : place + len(some)] = some
        place += len(some)
    if place < used:
        raise changed(path)
    return torch.from_numpy(tokens).view(-1, length)
