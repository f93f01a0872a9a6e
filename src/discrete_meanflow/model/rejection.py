"""Records that satisfy restrictions: rejection sampling from the model.

One step is cheap, so records are drawn until enough satisfy all restrictions; the law of those is
the model's law given the restrictions. Where they are rare, the cells of the restricted columns are
drawn from the records found so far, and the other columns are generated given these cells.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.requirements import Unique
from discrete_meanflow.io.table.cells import MISSING
from discrete_meanflow.model.conditions import GROUP_ROWS, Conditions
from discrete_meanflow.model.contradictions import check_contradictions
from discrete_meanflow.types import State

RARE = 0.01  # rate of acceptance below which restricted cells come from a pool
POOL = 200  # records that a pool has, if so many are found
TRIES = 100_000  # records without an acceptable one, after which sampling ends with an error

DrawTokens = Callable[[State, Tensor], State]  # tokens, observed positions (n, D) -> tokens (n, D)
Pool = list[tuple[State, list[str]]]  # the tokens and cells of accepted records


class Rejection:
    """Rejection sampling of the records that conditions ask for.

    Args:
        draw: draws tokens given observed positions.
        codec: of the records.
        conditions: patterns with their restrictions, and requirements of all records.
        g: random generator, for the draws from pools.
        pooled: whether rare restrictions may use a pool.
    """

    def __init__(
        self,
        draw: DrawTokens,
        codec: Codec,
        conditions: Conditions,
        g: torch.Generator,
        pooled: bool = True,
    ) -> None:
        check_contradictions(codec, conditions)
        self.draw, self.codec, self.conditions, self.g = draw, codec, conditions, g
        self.pooled = pooled
        zeros = numpy.zeros((3, len(conditions.tokens)), dtype=int)  # for each pattern:
        self.drawn, self.passed, self.tries = zeros  # all, acceptable, and since the last record
        self.pools: dict[int, Pool] = {}
        self.from_pool: set[int] = set()  # patterns whose restricted cells come from their pool
        self.seen: dict[Unique, set[str]] = {u: set() for u in conditions.requirements.unique}

    def __iter__(self) -> Iterator[tuple[list[Any], State]]:
        """Yield records and their tokens in blocks, in the order of the conditions."""
        for start in range(0, self.conditions.total, GROUP_ROWS):
            end = min(start + GROUP_ROWS, self.conditions.total)
            patterns = numpy.arange(start, end) // self.conditions.count
            yield self._block(patterns)
            self.pools = {p: pool for p, pool in self.pools.items() if p >= patterns[-1]}

    def _block(self, patterns: numpy.ndarray) -> tuple[list[Any], State]:
        """A record of each of these patterns, which are in order."""
        records: list[Any] = [None] * len(patterns)
        tokens = torch.empty(len(patterns), self.codec.length, dtype=torch.long)
        empty = numpy.arange(len(patterns))
        while len(empty):
            trials = self._trials(patterns[empty])
            drawn, rows = self._propose(trials)
            accepted = self._accepted(rows, trials)
            wanted, found = _numbered(patterns[empty]), _numbered(trials[accepted])
            _, filled, used = numpy.intersect1d(wanted, found, return_indices=True)
            for place, i in zip(empty[filled].tolist(), accepted[used].tolist(), strict=True):
                records[place], tokens[place] = rows[i], drawn[i]
                self._keep(int(trials[i]), drawn[i], rows[i])
            empty = numpy.delete(empty, filled)
            self._update(numpy.unique(trials).tolist())
        return records, tokens

    def _trials(self, wanted: numpy.ndarray) -> numpy.ndarray:
        """The patterns of the next draws: as many of each as fill its records if rates stay."""
        patterns, counts = numpy.unique(wanted, return_counts=True)
        rate = (self.passed[patterns] + 1) / (self.drawn[patterns] + 1)
        rate[[pattern in self.from_pool for pattern in patterns.tolist()]] = 1
        counts = numpy.ceil(counts * numpy.maximum(1 / rate, self.tries[patterns]))
        scale = min(1.0, GROUP_ROWS / counts.sum())
        return numpy.repeat(patterns, numpy.maximum(1, counts * scale).astype(int))

    def _propose(self, trials: numpy.ndarray) -> tuple[State, list[Any]]:
        """Draw records of these patterns."""
        where, codec = torch.from_numpy(trials), self.codec
        tokens = self.conditions.tokens[where].long()
        observed = self.conditions.observed[where]
        known = [dict(self.conditions.known[p]) if self.conditions.known else {} for p in trials]
        for pattern in sorted(self.from_pool & set(trials.tolist())):
            pool, columns = self.pools[pattern], self._columns(pattern)
            positions = codec.bare.positions_of(columns)
            rows = numpy.flatnonzero(trials == pattern).tolist()
            choices = torch.randint(
                len(pool), (len(rows),), generator=self.g, device=self.g.device
            ).tolist()
            for row, choice in zip(rows, choices, strict=True):
                tokens[row, positions] = pool[choice][0][positions]
                known[row] |= {i: pool[choice][1][i] for i in columns}
            observed[numpy.ix_(rows, positions)] = True
        drawn = self.draw(tokens, observed)
        return drawn, codec.bare.restore(codec.decode(drawn), known)

    def _accepted(self, rows: list[Any], trials: numpy.ndarray) -> numpy.ndarray:
        """The numbers of the acceptable records."""
        passed = numpy.ones(len(rows), dtype=bool)
        for restriction in self.conditions.requirements.restrictions:
            passed &= restriction.holds(rows)
        patterns, starts = numpy.unique(trials, return_index=True)
        for pattern, start, end in zip(patterns, starts, [*starts[1:], len(rows)], strict=True):
            for restriction in self.conditions.own(pattern):
                passed[start:end] &= restriction.holds(rows[start:end])
            self.tries[pattern] += end - start
            if pattern not in self.from_pool:
                self.drawn[pattern] += end - start
                self.passed[pattern] += passed[start:end].sum()
        accepted = numpy.flatnonzero(passed)
        for unique, seen in self.seen.items():
            accepted = accepted[_is_new([rows[i][unique.column] for i in accepted], seen)]
        return accepted

    def _keep(self, pattern: int, tokens: State, row: list[str]) -> None:
        """Note a record that is returned."""
        self.tries[pattern] = 0
        for unique, seen in self.seen.items():
            seen.add(row[unique.column])
        pool = self.pools.setdefault(pattern, [])
        if len(pool) < POOL and pattern not in self.from_pool and self._may_pool(pattern):
            pool.append((tokens, row))

    def _columns(self, pattern: int) -> list[int]:
        """The columns that the restrictions of a pattern read."""
        restrictions = self.conditions.all_restrictions(pattern)
        return sorted({column for restriction in restrictions for column in restriction.columns})

    def _may_pool(self, pattern: int) -> bool:
        """Whether cells of restricted columns may be drawn again."""
        columns = self._columns(pattern)
        return self.pooled and bool(columns) and not {u.column for u in self.seen} & set(columns)

    def _update(self, patterns: list[int]) -> None:
        """Choose where the restricted cells of patterns come from; raise if it is hopeless."""
        for pattern in patterns:
            drawn, pool = self.drawn[pattern], self.pools.get(pattern, [])
            rare = self.passed[pattern] < RARE * drawn
            enough = len(pool) == POOL or (pool and drawn >= TRIES)
            if rare and enough and pattern not in self.from_pool:
                self.from_pool.add(pattern)
                self.tries[pattern] = 0
            if self.tries[pattern] >= TRIES:
                raise InputError(f"{self.conditions.place(pattern)}{self._failure(pattern)}")

    @property
    def note(self) -> str:
        """How many draws the records took, and which have restricted cells from a pool."""
        share = f"{self.acceptance:.2%} of {self.drawn.sum():,} generated rows were acceptable"
        if not self.from_pool:
            return share
        kept = int(self.passed[sorted(self.from_pool)].sum())
        return (
            f"{share}; these are rare, so the restricted cells of all rows come from {kept:,} of "
            "them, and the other cells were generated given these"
        )

    @property
    def acceptance(self) -> float:
        """The fraction of the draws that satisfied all restrictions."""
        return float(self.passed.sum() / max(1, self.drawn.sum()))

    def _failure(self, pattern: int) -> str:
        """Why no record of a pattern is found."""
        restrictions = self.conditions.all_restrictions(pattern)
        if restrictions and not self.passed[pattern]:
            texts = " and ".join(dict.fromkeys(restriction.text for restriction in restrictions))
            hints = "; ".join(dict.fromkeys(restriction.hint for restriction in restrictions))
            return f"none of {self.drawn[pattern]:,} generated rows satisfies {texts}; {hints}"
        names = ", ".join(unique.name for unique in self.seen)
        count = min(map(len, self.seen.values()), default=0)
        return (
            f"unique({names}): no new value in {TRIES:,} generated rows, after {count:,}; ask for "
            "fewer rows, or leave the column out with --drop and number the rows"
        )


def _numbered(patterns: numpy.ndarray) -> numpy.ndarray:
    """A number for each entry of a sorted array: the i-th of a pattern has the same in any."""
    rank = numpy.arange(len(patterns)) - numpy.searchsorted(patterns, patterns)
    return patterns * (TRIES * GROUP_ROWS) + rank


def _is_new(cells: Sequence[str], seen: set[str]) -> numpy.ndarray:
    """Whether each cell is missing, or neither seen nor equal to one before."""
    before = set(seen)
    new = []
    for cell in cells:
        new.append(cell == MISSING or cell not in before)
        before.add(cell)
    return numpy.array(new, dtype=bool)
