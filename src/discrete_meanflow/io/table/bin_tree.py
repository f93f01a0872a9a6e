"""Codes for a column of many values: every value gets a short path down a tree of bins.

The values are in order, and each node of the tree cuts its values into at most ``BRANCHES`` runs of
about equal frequency. A value as frequent as a run has one of its own, so spikes stay exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

BRANCHES = 64  # symbols of a position
SPIKES = 16  # values that may have a run of their own beside those of equal frequency, at most


@dataclass(frozen=True)
class Leaf:
    """Values ``first`` to ``last`` (exclusive), which share the code ``path``."""

    path: tuple[int, ...]
    first: int
    last: int


def bin_tree(counts: Sequence[int], depth: int) -> list[Leaf]:
    """The leaves of a tree of at most ``depth`` branchings over values in order.

    Args:
        counts: frequency of each value.
    """
    return list(_leaves(numpy.asarray(counts), 0, len(counts), depth, ()))


def exact_depth(values: int) -> int:
    """The depth at which every one of ``values`` values has a leaf of its own."""
    depth = 1
    while BRANCHES**depth < values:
        depth += 1
    return depth


def _leaves(
    counts: numpy.ndarray, first: int, last: int, depth: int, path: tuple[int, ...]
) -> list[Leaf]:
    if depth == 0 or last - first == 1:
        return [Leaf(path, first, last)]
    # A branch with more values than the levels below can tell apart would not be exact.
    limit = BRANCHES ** (depth - 1)
    runs = _runs(counts[first:last], limit if last - first <= BRANCHES * limit else last - first)
    return [
        leaf
        for branch, (start, end) in enumerate(runs)
        for leaf in _leaves(counts, first + start, first + end, depth - 1, (*path, branch))
    ]


def _runs(counts: numpy.ndarray, limit: int) -> list[tuple[int, int]]:
    """Cut values into at most ``BRANCHES`` runs of about equal frequency and ``limit`` values."""
    n = len(counts)
    if n <= BRANCHES:
        return [(i, i + 1) for i in range(n)]
    runs: list[tuple[int, int]] = []
    target, start, credit = _run_mass(counts), 0, 0.0
    while start < n:
        left = BRANCHES - len(runs) - 1  # runs that remain after this one
        shortest = max(1, n - start - left * limit)
        end, mass = start + 1, float(counts[start])
        while end < n and end - start < limit:
            if end - start >= shortest and mass + counts[end] / 2 > target + credit:
                break
            mass += float(counts[end])
            end += 1
        # What a run lacks, the next one gets; a spike, which is much too large, takes nothing.
        missing = target + credit - mass
        credit = missing if abs(missing) < target else 0.0
        runs.append((start, n if left == 0 else end))
        start = runs[-1][1]
    return runs


def _run_mass(counts: numpy.ndarray) -> float:
    """The frequency of a run, spikes apart, which must not make the others coarse.

    A spike takes a run of its own and may cut another in two.
    """
    by_frequency = numpy.sort(counts)[::-1]
    mass = float(counts.sum())
    for spikes, count in enumerate(by_frequency[:SPIKES]):
        if count <= mass / (BRANCHES - 1 - 2 * spikes):
            return mass / (BRANCHES - 1 - 2 * spikes)
        mass -= float(count)
    return mass / (BRANCHES - 1 - 2 * SPIKES)
