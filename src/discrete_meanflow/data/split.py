"""Each record once, and some of them apart. There may be more than fit into memory."""

import numpy
import torch

from discrete_meanflow.data.scratch import scratch_array
from discrete_meanflow.data.tokens import chunk_rows
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

SORTED = 1 << 25  # tokens whose rows are sorted together
FACTOR = 1 << 63  # what symbols are multiplied with is less than this


def distinct(tokens: State) -> State:
    """Each row once, in the order of first occurrence."""
    return take_rows(tokens, first_occurrences(tokens))


def split(tokens: State, held_out: int, seed: int = 0) -> tuple[State, State]:
    """Rows for training and ``held_out`` rows apart; duplicates are removed before."""
    once = first_occurrences(tokens)
    check_held_out(held_out, len(once))
    order = once[shuffled(len(once), seed)]
    return take_rows(tokens, order[held_out:]), take_rows(tokens, order[:held_out])


def check_held_out(held_out: int, count: int) -> None:
    if not 0 < held_out < count:
        raise InputError(
            f"split: {held_out} of {count} distinct records cannot be held out, as both "
            "parts need at least one"
        )


def first_occurrences(tokens: State) -> numpy.ndarray:
    """The rows that are like none before them.

    Rows that are alike have like sums, so sums are sorted in the place of rows, in as many parts
    as it takes.
    """
    given, parts = tokens.numpy(), 1 + tokens.numel() // SORTED
    sums, part = _sums(given, parts)
    first, few = numpy.zeros(len(given), bool), chunk_rows(given.shape[1])
    for each in range(parts):
        rows = numpy.flatnonzero(part == each)
        their = sums[rows]
        order = their.argsort(kind="stable")
        rows, their = rows[order], their[order]
        new = numpy.diff(their, prepend=~their[:1]) != 0
        like = rows[new][new.cumsum() - 1]  # for each row the first that has its sum
        # All that are alike are in one part, which may be long.
        lots = (slice(i, i + few) for i in range(0, len(rows), few))
        if all((given[rows[some]] == given[like[some]]).all() for some in lots):
            first[rows[new]] = True
        else:  # rows that differ, and their sums do not
            first[rows[numpy.unique(given[rows], axis=0, return_index=True)[1]]] = True
    return numpy.flatnonzero(first).astype(_places(len(given)))


def _sums(rows: numpy.ndarray, parts: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Of the symbols of each row, each times a number of its place; and the part that the row
    belongs to, which its sum tells."""
    factors = numpy.random.default_rng(0).integers(FACTOR, size=rows.shape[1], dtype=numpy.uint64)
    sums, part = (
        scratch_array((len(rows),), numpy.dtype(kind)) for kind in (numpy.uint64, numpy.uint16)
    )
    few = chunk_rows(rows.shape[1])
    for i in range(0, len(rows), few):
        some = rows[i : i + few].astype(numpy.uint64) @ factors
        sums[i : i + few] = some
        part[i : i + few] = (some >> numpy.uint64(40)) % numpy.uint64(parts)
    return sums, part


def shuffled(count: int, seed: int) -> numpy.ndarray:
    """The numbers below ``count`` in random order."""
    order: numpy.ndarray = numpy.arange(count, dtype=_places(count))
    numpy.random.default_rng(seed).shuffle(order)
    return order


def _places(count: int) -> type:
    """The smallest numbers that so many rows can be counted in: there may be many."""
    return numpy.int32 if count < 1 << 31 else numpy.int64


def take_rows(tokens: State, order: numpy.ndarray) -> State:
    """Those rows, in that order."""
    given, few = tokens.numpy(), chunk_rows(tokens.shape[1])
    rows = scratch_array((len(order), tokens.shape[1]), given.dtype)
    for i in range(0, len(order), few):
        rows[i : i + few] = given[order[i : i + few]]
    return torch.from_numpy(rows)
