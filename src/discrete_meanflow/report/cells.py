"""The trainings of an experiment: their measurements and learning curves."""

import itertools
import re
import statistics
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

from discrete_meanflow.model.grid import Cell, Grid
from discrete_meanflow.report.blocks import Block, Charts, Details, Json, Table
from discrete_meanflow.report.chart import Chart, Level, Series

MOST_VALUES = 8  # of a measurement that is a list
MOST_MEASURES = 10
CURVE_POINTS = 60
LISTS_OF_STEPS = ("iteration", "at")  # of a curve: the losses stand at the first
# The part of a name before its first comma outside parentheses, such as "bigram (8, 16)".
GROUP = re.compile(r"((?:[^(),]|\([^()]*\))*)(?:, )?(.*)", re.DOTALL)


def cell_blocks(cells: Json) -> Iterator[Block]:
    """A table of all trainings, and their learning curves."""
    if not cells:
        return
    yield Details(f"{len(cells):,} trainings: means over seeds", (_table(cells),))
    if charts := tuple(itertools.chain(*_curves(cells))):
        yield Details("Learning curves, means over seeds", (Charts(charts),))


def _table(cells: Json) -> Table:
    """One row for each training, one column for each measurement that is a number or a few."""
    means = {name: _means(cell["measurements"]) for name, cell in cells.items()}
    keys = list(dict.fromkeys(key for values in means.values() for key in values))[:MOST_MEASURES]
    rows = [
        (
            Cell(name),
            Cell(f"{cell['iterations']:,}"),
            Cell.decimals(float(cell["seconds"]), 1),
            *(means[name].get(key, Cell("")) for key in keys),
        )
        for name, cell in cells.items()
    ]
    head = ("training", "iterations", "seconds", *(key.replace("_", " ") for key in keys))
    return Table(Grid(head, tuple(rows)))


def _means(measurements: list[Json]) -> dict[str, Cell]:
    """The mean over seeds of each measurement."""
    found = {}
    for key in measurements[0] if measurements else ():
        values = [m[key] for m in measurements]
        if key != "seed" and all(_is_number(value) for value in values):
            mean = statistics.fmean(values)
            found[key] = Cell.of(int(mean) if mean.is_integer() else mean)
        elif all(_is_short_list(value) for value in values):
            means = [Cell.of(statistics.fmean(column)) for column in zip(*values, strict=True)]
            texts = (" ".join(getattr(mean, part) for mean in means) for part in ("text", "exact"))
            found[key] = Cell(*texts)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_short_list(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MOST_VALUES and all(map(_is_number, value))


def _curves(cells: Json) -> Iterator[tuple[Chart, ...]]:
    """For each group of trainings one chart per curve, such as the loss."""
    groups: dict[str, dict[str, Json]] = {}
    for name, cell in cells.items():
        first, rest = GROUP.fullmatch(name).groups()  # type: ignore[union-attr]
        group, member = (first, rest) if rest else ("", first)
        groups.setdefault(group, {})[member] = cell["curve"]
    colors = {name: i for i, name in enumerate(dict.fromkeys(itertools.chain(*groups.values())))}
    for group, curves in groups.items():
        keys = dict.fromkeys(key for curve in curves.values() for key in curve)
        for key in keys:
            if key not in LISTS_OF_STEPS:
                series = [
                    _curve(name, colors[name], curve, key)
                    for name, curve in curves.items()
                    if key in curve
                ]
                title = f"{group}: {key}" if group else key
                yield Chart.of(title.replace("_", " "), "iteration", series)


def _curve(name: str, color: int, curve: Json, key: str) -> Series:
    """The mean over seeds; of many points, every n-th and the last."""
    steps = curve["iteration"] if key == "loss" else curve["at"]
    stride = -(-len(steps) // CURVE_POINTS) or 1
    rows = list(zip(steps, curve[key], strict=False))[::-1][::stride][::-1]
    return Series.of(name, color, (x for x, _ in rows), (_mean(y) for _, y in rows))


def _mean(value: Any) -> float:
    """The mean over seeds; experiments with one seed may record a number."""
    return value if _is_number(value) else statistics.fmean(value)


def score_charts(facts: Mapping[str, Any]) -> Iterator[Block]:
    """Scores against the number of forward passes, where an experiment records them."""
    held_out = facts.get("held out", {})
    tables = {kernel: _by_steps(kernel, rows) for kernel, rows in facts.get("scores", {}).items()}
    rows = itertools.chain.from_iterable(table.values() for table in tables.values())
    names = dict.fromkeys(name for row in rows for name, value in row.items() if _is_number(value))
    charts = []
    for name in names:
        series = [
            Series.of(kernel, i, table, (row.get(name) for row in table.values()))
            for i, (kernel, table) in enumerate(tables.items())
        ]
        real = held_out.get(name)
        levels = [Level("held out", None, float(real))] if _is_number(real) else []
        charts.append(
            Chart.of(name.replace("_", " "), "forward passes", series, levels, steps=True)
        )
    if charts:
        yield Charts(tuple(itertools.chain(*charts)))


def _by_steps(kernel: str, rows: Json) -> dict[int, Json]:
    """Scores by number of steps; a single score has the name of what is scored."""
    return {int(k): {kernel: row} if _is_number(row) else row for k, row in rows.items()}
