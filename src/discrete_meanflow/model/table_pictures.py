"""The frequencies of the values of columns, as pages draw them: a bar for each bin or level."""

from collections.abc import Mapping

import numpy

from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.level_column import LevelColumn
from discrete_meanflow.io.table.number_column import NumberColumn
from discrete_meanflow.metric.table_values import Array
from discrete_meanflow.run.json_files import Json

BINS = 24
RANGE = 0.005, 0.995  # quantiles between which bins lie; the first and the last have the tails
MOST_LEVELS = 12
OTHERS, MISSING = "others", "missing"


def column_picture(column: Column, rows: Mapping[str, Array]) -> Json:
    """The bars of a column; numbers have bins of equal width, levels are the most frequent ones.

    Args:
        rows: the column of each table; bins and levels follow from the first.
    """
    if isinstance(column, NumberColumn):
        labels, counts = _bins(column, rows)
    else:
        assert isinstance(column, LevelColumn)
        labels, counts = _levels(column, rows)
    missing = {name: int(numpy.isnan(x).sum()) for name, x in rows.items()}
    if any(missing.values()):
        labels = [*labels, MISSING]
        counts = {name: numpy.append(count, missing[name]) for name, count in counts.items()}
    return {
        "labels": labels,
        "frequencies": {name: (count / len(rows[name])).tolist() for name, count in counts.items()},
    }


def distance_picture(distances: Mapping[str, Array]) -> Json:
    """The bars of distances, whose bins follow from all tables."""
    top = max(numpy.quantile(d, RANGE[1]) for d in distances.values()) or 1.0
    edges = numpy.linspace(0, top, BINS + 1)
    return {
        "labels": [f"{edge:.3g}" for edge in edges[:-1]],
        "frequencies": {
            name: (_histogram(d, edges) / len(d)).tolist() for name, d in distances.items()
        },
    }


def _bins(column: NumberColumn, rows: Mapping[str, Array]) -> tuple[list[str], dict[str, Array]]:
    first = next(iter(rows.values()))
    present = first[~numpy.isnan(first)]
    least = most = column.knots[0][0]
    if len(present):
        least, most = numpy.quantile(present, RANGE).tolist()
    edges = numpy.linspace(least, most, BINS + 1 if least < most else 2)
    counts = {name: _histogram(x[~numpy.isnan(x)], edges) for name, x in rows.items()}
    return [column.format.text(float(edge)) for edge in edges[:-1]], counts


def _histogram(x: Array, edges: Array) -> Array:
    """The number of values in each bin; the outer bins have all that lie beyond."""
    return numpy.bincount(numpy.searchsorted(edges[1:-1], x, "right"), minlength=len(edges) - 1)


def _levels(column: LevelColumn, rows: Mapping[str, Array]) -> tuple[list[str], dict[str, Array]]:
    """The most frequent levels in order, and all others together."""
    names = {column.ordinal(level): level for level in column.levels if level}
    codes = {name: x[~numpy.isnan(x)].astype(int) for name, x in rows.items()}
    counts = {name: numpy.bincount(x, minlength=len(names)) for name, x in codes.items()}
    frequent = numpy.argsort(-next(iter(counts.values())), kind="stable")
    order = numpy.append(numpy.sort(frequent[:MOST_LEVELS]), frequent[MOST_LEVELS:])
    labels = [names[code] for code in order[:MOST_LEVELS]] + [OTHERS] * (len(names) > MOST_LEVELS)
    starts = numpy.arange(len(labels))  # the last bar has all that follow
    return labels, {name: numpy.add.reduceat(c[order], starts) for name, c in counts.items()}
