"""Contradictions between known cells, ranges, sets and constraints, found before any draw."""

from collections.abc import Sequence
from typing import Any

import numpy

from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.requirements import Restriction, Unique
from discrete_meanflow.io.table.cells import MISSING
from discrete_meanflow.io.table.restrictions import check_consistent
from discrete_meanflow.model.conditions import Conditions


def check_contradictions(codec: Codec, conditions: Conditions) -> None:
    """Raise if no record can satisfy the conditions. The message names the pattern."""
    known = _known_cells(codec, conditions)
    for restriction in conditions.requirements.restrictions:
        _check_restriction(conditions, known, restriction, range(len(known)))
    for pattern, own in enumerate(conditions.restrictions):
        with error_context(f"{conditions.place(pattern)}infill"):
            check_consistent(own)
        for restriction in own:
            _check_restriction(conditions, known, restriction, [pattern])
    for unique in conditions.requirements.unique:
        _check_unique(conditions, known, unique)


def _known_cells(codec: Codec, conditions: Conditions) -> list[dict[int, str]]:
    """The cells that each pattern fixes, by the number of their column."""
    rows: list[Any] = codec.decode(conditions.tokens)
    observed = conditions.observed.numpy()
    fixed = numpy.array(
        [observed[:, codec.bare.positions_of([i])].all(1) for i in range(len(rows[0]))]
    )
    known = conditions.known or ({},) * len(rows)
    return [
        {i: row[i] for i in numpy.flatnonzero(fixed[:, number]).tolist()} | known[number]
        for number, row in enumerate(rows)
    ]


def _check_restriction(
    conditions: Conditions,
    known: Sequence[dict[int, str]],
    restriction: Restriction,
    patterns: Sequence[int],
) -> None:
    """Raise if the known cells of a pattern violate a restriction."""
    whole = [i for i in patterns if known[i].keys() >= set(restriction.columns)]
    if not whole:
        return
    width = 1 + max(restriction.columns)
    rows = [[known[i].get(column, MISSING) for column in range(width)] for i in whole]
    for i, row, holds in zip(whole, rows, restriction.holds(rows), strict=True):
        if not holds:
            cells = ", ".join(f"'{row[column]}'" for column in restriction.columns)
            raise InputError(
                f"{conditions.place(i)}{restriction.text} does not hold for the known {cells}"
            )


def _check_unique(conditions: Conditions, known: Sequence[dict[int, str]], unique: Unique) -> None:
    """Raise if a column must repeat a cell."""
    if unique.values is not None and conditions.total > unique.values:
        raise InputError(
            f"unique({unique.name}): {conditions.total:,} rows, but column {unique.name} has "
            f"{unique.values:,} values; leave it out with --drop and number the rows"
        )
    first: dict[str, int] = {}
    for i, cells in enumerate(known):
        cell = cells.get(unique.column, MISSING)
        if cell == MISSING:
            continue
        if conditions.count > 1 or first.setdefault(cell, i) != i:
            raise InputError(
                f"{conditions.place(i)}unique({unique.name}) does not allow '{cell}' twice"
            )
