"""Records that satisfy restrictions: rejection sampling from the model.

One step is cheap, so records are drawn until enough satisfy all restrictions; the law of those is
the model's law given the restrictions. Where they are rare, the cells of the restricted columns are
drawn from the records found so far, and the other columns are generated given these cells. If the
model's conditional laws agree with its joint law, this is the same law, up to an error of the order
of one over the size of the pool if constraints reject some of these rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.requirements import Restriction, Unique
from discrete_meanflow.io.table.cells import MISSING
from discrete_meanflow.model.conditions import GROUP_ROWS, Conditions
from discrete_meanflow.model.contradictions import check_contradictions
from discrete_meanflow.types import State

RARE = 0.01  # rate of acceptance below which restricted cells come from a pool
POOL = 200  # records that a pool has, if so many are found
TRIES = 50_000  # draws that may be in vain, besides 1 / RARE for each record that is kept

DrawTokens = Callable[[State, Tensor], State]  # tokens, observed positions (n, D) -> tokens (n, D)
Pool = list[tuple[State, list[str]]]  # tokens and cells of records that satisfy rare restrictions


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
        # Of each pattern: draws, those in its ranges and sets, and acceptable ones, before it uses
        # its pool; draws and records that are kept, now.
        zeros = numpy.zeros((5, len(conditions.tokens)), dtype=int)
        self.drawn, self.hits, self.passed, self.tries, self.kept = zeros
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
            accepted = self._accepted(drawn, rows, trials)
            wanted, found = _numbered(patterns[empty]), _numbered(trials[accepted])
            _, filled, used = numpy.intersect1d(wanted, found, return_indices=True)
            for place, i in zip(empty[filled].tolist(), accepted[used].tolist(), strict=True):
                records[place], tokens[place] = rows[i], drawn[i]
                self._keep(int(trials[i]), rows[i])
            empty = numpy.delete(empty, filled)
            self._update(numpy.unique(trials).tolist())
        return records, tokens

    def _trials(self, wanted: numpy.ndarray) -> numpy.ndarray:
        """The patterns of the next draws: as many of each as fill its records if rates stay."""
        patterns, counts = numpy.unique(wanted, return_counts=True)
        counts = counts * (self.tries[patterns] + 1) / (self.kept[patterns] + 1)
        scale = min(1.0, GROUP_ROWS / counts.sum())
        return numpy.repeat(patterns, numpy.ceil(counts * scale).astype(int))

    def _propose(self, trials: numpy.ndarray) -> tuple[State, list[Any]]:
        """Draw records of these patterns."""
        codec, where = self.codec, torch.from_numpy(trials)
        tokens = self.conditions.tokens[where].long()
        observed = self.conditions.observed[where]
        known = [dict(self.conditions.known[p]) if self.conditions.known else {} for p in trials]
        for pattern in sorted(self.from_pool & set(trials.tolist())):
            pool, columns = self.pools[pattern], self._pool_columns(pattern)
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
        records = codec.decode(drawn)
        return drawn, codec.bare.restore(records, known) if any(known) else records

    def _accepted(self, drawn: State, rows: list[Any], trials: numpy.ndarray) -> numpy.ndarray:
        """The numbers of the acceptable records."""
        passed = _all_hold(self.conditions.requirements.restrictions, rows)
        patterns, starts = numpy.unique(trials, return_index=True)
        for pattern, start, end in zip(patterns, starts, [*starts[1:], len(rows)], strict=True):
            own = self.conditions.own(pattern)
            hits = _all_hold(own, rows[start:end]) if own else passed[start:end]
            passed[start:end] &= hits
            self.tries[pattern] += end - start
            if pattern not in self.from_pool:
                self.drawn[pattern] += end - start
                self.hits[pattern] += hits.sum()
                self.passed[pattern] += passed[start:end].sum()
                self._add_to_pool(pattern, start + numpy.flatnonzero(hits), drawn, rows)
        accepted = numpy.flatnonzero(passed)
        for unique, seen in self.seen.items():
            accepted = accepted[_is_new([rows[i][unique.column] for i in accepted], seen)]
        return accepted

    def _add_to_pool(
        self, pattern: int, hits: numpy.ndarray, drawn: State, rows: list[Any]
    ) -> None:
        columns = self._pool_columns(pattern)
        if columns and self.pooled and not {u.column for u in self.seen} & set(columns):
            pool = self.pools.setdefault(int(pattern), [])
            pool += [(drawn[i], rows[i]) for i in hits[: POOL - len(pool)].tolist()]

    def _pool_columns(self, pattern: int) -> list[int]:
        """The columns of a pattern's ranges and sets, or else of the requirements."""
        restrictions = self.conditions.own(pattern) or self.conditions.requirements.restrictions
        return sorted({column for restriction in restrictions for column in restriction.columns})

    def _keep(self, pattern: int, row: list[str]) -> None:
        """Note a record that is returned."""
        self.kept[pattern] += 1
        for unique, seen in self.seen.items():
            seen.add(row[unique.column])

    def _update(self, patterns: list[int]) -> None:
        """Choose where the restricted cells of patterns come from; raise if it is hopeless."""
        for pattern in set(patterns) - self.from_pool:
            drawn, pool = self.drawn[pattern], self.pools.get(pattern, [])
            rare = self.hits[pattern] < RARE * drawn
            if rare and (len(pool) == POOL or (pool and drawn >= TRIES)):
                self.from_pool.add(pattern)
                self.tries[pattern] = self.kept[pattern] = 0
        for pattern in patterns:
            if self.tries[pattern] >= TRIES + self.kept[pattern] / RARE:
                raise InputError(f"{self.conditions.place(pattern)}{self._failure(pattern)}")

    @property
    def acceptance(self) -> float:
        """The fraction of the draws that satisfied all restrictions."""
        return float(self.passed.sum() / max(1, self.drawn.sum()))

    @property
    def note(self) -> str:
        """How many draws the records took, and whether pools were used."""
        share = (
            f"{100 * self.acceptance:.3g} % of {self.drawn.sum():,} generated rows were acceptable"
        )
        if not self.from_pool:
            return share
        size = int(numpy.minimum(self.hits[sorted(self.from_pool)], POOL).sum())
        return (
            f"{share}; the ranges and sets are rare, so further rows were generated given the "
            f"restricted cells of {size:,} rows"
        )

    def _failure(self, pattern: int) -> str:
        """Why no record of a pattern is found."""
        restrictions = self.conditions.all_restrictions(pattern)
        if restrictions and not self.passed[pattern]:
            texts = " and ".join(dict.fromkeys(restriction.text for restriction in restrictions))
            hints = "; ".join(dict.fromkeys(restriction.hint for restriction in restrictions))
            return f"none of {self.drawn[pattern]:,} generated rows satisfies {texts}; {hints}"
        if not self.seen:
            texts = " and ".join(dict.fromkeys(restriction.text for restriction in restrictions))
            return f"too few generated rows satisfy {texts}; ask for fewer rows"
        names = ", ".join(unique.name for unique in self.seen)
        count = min(map(len, self.seen.values()))
        return (
            f"unique({names}): too few new values after {count:,} rows; ask for fewer rows, or "
            "leave the column out with --drop and number the rows"
        )


def _all_hold(restrictions: Sequence[Restriction], rows: list[Any]) -> numpy.ndarray:
    """Whether each row satisfies all restrictions."""
    holds = numpy.ones(len(rows), dtype=bool)
    for restriction in restrictions:
        holds &= restriction.holds(rows)
    return holds


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
