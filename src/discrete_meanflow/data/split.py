"""Remove duplicates and split records, also where they do not fit into memory."""

import numpy
import torch

from discrete_meanflow.data.tokens import chunk_rows, scratch_array
from discrete_meanflow.errors import DataError, InputError
from discrete_meanflow.types import State

SORTED = 1 << 25  # tokens whose rows are sorted together
HELD_OUT_FRACTION, MOST_HELD_OUT = 0.15, 10_000  # by default
FEWEST_HELD_OUT = 8  # records that an evaluation needs
REPEATS = 10  # occurrences per distinct string, from which strings are samples of a small law
FACTOR = 1 << 63  # random factors of the row sums are smaller


def first_occurrences(tokens: State) -> numpy.ndarray:
    """The indices of rows that differ from all rows before them.

    Equal rows have equal sums, so sums are sorted instead of rows, in parts that fit into memory.
    """
    array, parts = tokens.numpy(), 1 + tokens.numel() // SORTED
    sums, part = _sums(array, parts)
    is_first, size = numpy.zeros(len(array), bool), chunk_rows(array.shape[1])
    for number in range(parts):
        rows = numpy.flatnonzero(part == number)
        part_sums = sums[rows]
        order = part_sums.argsort(kind="stable")
        rows, part_sums = rows[order], part_sums[order]
        new = numpy.diff(part_sums, prepend=~part_sums[:1]) != 0
        twins = rows[new][new.cumsum() - 1]  # for each row the first with the same sum
        # Equal rows are all in one part, which may be long.
        chunks = (slice(i, i + size) for i in range(0, len(rows), size))
        if all((array[rows[chunk]] == array[twins[chunk]]).all() for chunk in chunks):
            is_first[rows[new]] = True
        else:  # different rows with equal sums
            is_first[rows[numpy.unique(array[rows], axis=0, return_index=True)[1]]] = True
    return numpy.flatnonzero(is_first).astype(_index_type(len(array)))


def _sums(rows: numpy.ndarray, parts: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A random linear combination of the symbols of each row, and the part that follows from it."""
    factors = numpy.random.default_rng(0).integers(FACTOR, size=rows.shape[1], dtype=numpy.uint64)
    sums, part = (
        scratch_array((len(rows),), numpy.dtype(kind)) for kind in (numpy.uint64, numpy.uint16)
    )
    size = chunk_rows(rows.shape[1])
    for i in range(0, len(rows), size):
        products = rows[i : i + size].astype(numpy.uint64) @ factors
        sums[i : i + size] = products
        part[i : i + size] = (products >> numpy.uint64(40)) % numpy.uint64(parts)
    return sums, part


def shuffled(count: int, seed: int) -> numpy.ndarray:
    """The numbers below ``count`` in random order."""
    return numpy.random.default_rng(seed).permutation(numpy.arange(count, dtype=_index_type(count)))


def _index_type(count: int) -> type:
    """The smallest integers that index ``count`` rows, since there may be many."""
    return numpy.int32 if count < 1 << 31 else numpy.int64


def take_rows(tokens: State, order: numpy.ndarray) -> State:
    """Return rows in a given order."""
    array, size = tokens.numpy(), chunk_rows(tokens.shape[1])
    rows = scratch_array((len(order), tokens.shape[1]), array.dtype)
    for i in range(0, len(order), size):
        rows[i : i + size] = array[order[i : i + size]]
    return torch.from_numpy(rows)


def train_test_split(
    tokens: State, held_out: int | None, seed: int, keep_duplicates: bool, length: int | None = None
) -> tuple[State, State, dict[str, int]]:
    """Split records at random; return both parts and the number of duplicates.

    Strings are kept once, and no string is in both parts. Rows of a table and arrays are samples
    of a law in which some values are more likely, so their duplicates stay, and the held-out part
    is a sample of the same law. So are strings of which each occurs ten times or more on average:
    to hold a string out would be to remove it from the law.

    Args:
        tokens: records, ``(N, D)``.
        held_out: size of the second part; None: 15 %, at most 10,000.
        length: positions of a record without its class; equal strings of different classes stay
            together.
    """
    once = first_occurrences(tokens)
    if len(once) < 2:
        raise DataError("the data has only one distinct record; a generator needs more")
    duplicates = len(tokens) - len(once)
    keep_duplicates |= len(tokens) >= REPEATS * len(once)
    name = "duplicates kept" if keep_duplicates else "duplicates removed"
    rows, groups = (numpy.arange(len(tokens)) if keep_duplicates else once), None
    if not keep_duplicates and length is not None and length < tokens.shape[1]:
        strings = tokens.numpy()[once, :length]
        groups = numpy.unique(strings, axis=0, return_inverse=True)[1].reshape(-1)
    count = len(rows) if groups is None else int(groups.max()) + 1
    held_out = default_held_out(count) if held_out is None else held_out
    if not 0 < held_out < count:
        raise InputError(
            f"split: {held_out} of {count} distinct records cannot be held out; both parts need "
            "at least one"
        )
    is_held_out = numpy.zeros(count, bool)
    is_held_out[shuffled(count, seed)[:held_out]] = True
    # In random order: files are sorted, and halves of the held-out part are compared.
    order = shuffled(len(rows), seed)
    test = is_held_out[order] if groups is None else is_held_out[groups[order]]
    parts = (take_rows(tokens, rows[order[~test]]), take_rows(tokens, rows[order[test]]))
    return *parts, {"distinct": len(once), name: duplicates}


def split_off_end(tokens: State, held_out: int | None) -> tuple[State, State]:
    """Hold out the end of one long text; its windows stay in order, duplicates included."""
    held_out = default_held_out(len(tokens)) if held_out is None else held_out
    if not 0 < held_out < len(tokens):
        raise InputError(f"cannot hold out {held_out} of {len(tokens)} windows")
    return tokens[:-held_out], tokens[-held_out:]


def default_held_out(count: int) -> int:
    """15 % of the records, at most 10,000; one if these are too few for an evaluation."""
    held_out = min(MOST_HELD_OUT, int(HELD_OUT_FRACTION * count))
    return held_out if held_out >= FEWEST_HELD_OUT else 1
