"""Each record once, and some of them apart. There may be more than fit into memory."""

import numpy
import torch

from discrete_meanflow.data.room import room
from discrete_meanflow.data.tokens import lot
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

SORTED = 1 << 26  # tokens that are sorted together


def distinct(tokens: State) -> State:
    """Each row once, in the order of first occurrence."""
    return picked(tokens, first_occurrences(tokens))


def split(tokens: State, held_out: int, seed: int = 0) -> tuple[State, State]:
    """Rows for training and ``held_out`` rows apart; duplicates are removed before."""
    once = first_occurrences(tokens)
    check_held_out(held_out, len(once))
    order = once[shuffled(len(once), seed)]
    return picked(tokens, order[held_out:]), picked(tokens, order[:held_out])


def check_held_out(held_out: int, count: int) -> None:
    if not 0 < held_out < count:
        raise InputError(
            f"split: {held_out} of {count} distinct records cannot be held out, as both "
            "parts need at least one"
        )


def first_occurrences(tokens: State) -> numpy.ndarray:
    """The rows that are like none before them.

    Rows are sorted in as many parts as it takes; what tells the part of a row are its symbols, so
    that rows that are alike meet in one.
    """
    parts = 1 + tokens.numel() // SORTED
    part = _parts(tokens, parts)
    first = numpy.zeros(len(tokens), bool)
    for each in range(parts):
        rows = numpy.flatnonzero(part == each)
        found = numpy.unique(tokens.numpy()[rows], axis=0, return_index=True)[1]
        first[rows[found]] = True
    return _small(numpy.flatnonzero(first))


def _parts(tokens: State, parts: int) -> numpy.ndarray:
    """Which part each row belongs to: a sum of its symbols, each times a number of its place."""
    odd = numpy.random.default_rng(0).integers(1 << 63, size=tokens.shape[1], dtype=numpy.uint64)
    found, few = numpy.empty(len(tokens), numpy.uint16), lot(tokens.shape[1])
    for i in range(0, len(tokens), few):
        some = tokens[i : i + few].numpy().astype(numpy.uint64) @ odd
        found[i : i + few] = (some >> numpy.uint64(32)) % numpy.uint64(parts)
    return found


def shuffled(count: int, seed: int) -> numpy.ndarray:
    """The numbers below ``count`` in random order."""
    return numpy.random.default_rng(seed).permutation(_small(numpy.arange(count)))


def _small(numbers: numpy.ndarray) -> numpy.ndarray:
    """Places in half of the bytes, where they are not beyond that."""
    return numbers.astype(numpy.int32) if numbers.max(initial=0) < 1 << 31 else numbers


def picked(tokens: State, order: numpy.ndarray) -> State:
    """Those rows, in that order."""
    given, few = tokens.numpy(), lot(tokens.shape[1])
    rows = room((len(order), tokens.shape[1]), given.dtype)
    for i in range(0, len(order), few):
        rows[i : i + few] = given[order[i : i + few]]
    return torch.from_numpy(rows)
