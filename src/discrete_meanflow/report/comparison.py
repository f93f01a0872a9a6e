"""Runs side by side: the same scores in one table and in one plot for each score."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Protocol

from discrete_meanflow.model.grid import Cell, Grid
from discrete_meanflow.report.blocks import (
    DAMAGED,
    Block,
    Charts,
    Json,
    Note,
    Table,
    text_cell,
)
from discrete_meanflow.report.chart import COLORS, Chart
from discrete_meanflow.report.evaluation import STEPS, ScoreTable
from discrete_meanflow.report.learning import STEP, Stage


class ComparedRun(Protocol):
    """What is compared."""

    @property
    def card(self) -> Json: ...
    @property
    def plan(self) -> Json: ...
    @property
    def environment(self) -> Json: ...
    @property
    def stages(self) -> list[Stage]: ...
    @property
    def scores(self) -> ScoreTable | None: ...


def comparison(runs: Mapping[str, ComparedRun]) -> Iterator[Block]:
    """What was run, then scores, then learning curves; each run has a colour."""
    yield Table(_settings(runs), "Equal settings of the plans are not shown", names=1 + len(runs))
    tables = {name: s for name, run in runs.items() if (s := run.scores) is not None}
    colors = {name: i % COLORS for i, name in enumerate(runs)}
    counts = [score for table in tables.values() for score in table.names]
    shared = [score for score in dict.fromkeys(counts) if counts.count(score) > 1]
    if shared:
        yield Table(_score_grid(shared, tables), "Scores by number of forward passes", names=2)
        charts = [_score_chart(score, tables, colors) for score in shared]
        yield Charts(tuple(itertools.chain(*charts)))
    else:
        yield Note("Fewer than two runs are evaluated, so there are no scores to compare.")
    if curves := tuple(itertools.chain(*_curves(runs, colors))):
        yield Charts(curves)


def _settings(runs: Mapping[str, ComparedRun]) -> Grid:
    """One column for each run: data, command, machine, time, and what differs in the plans."""
    plans = [_values(run, "plan") for run in runs.values()]
    keys = dict.fromkeys(key for plan in plans for key in plan)
    differ = [key for key in keys if len({repr(plan.get(key)) for plan in plans}) > 1]
    origins = [_origin(run) for run in runs.values()]
    rows = [
        (Cell(name), *(origin[name] for origin in origins))
        for name in origins[0]
        if any(origin[name].text for origin in origins)
    ]
    for key in differ:
        rows.append((Cell(key.replace("_", " ")), *(text_cell(plan.get(key)) for plan in plans)))
    return Grid(("", *runs), tuple(rows))


def _origin(run: ComparedRun) -> dict[str, Cell]:
    """Where a run comes from and how long it took."""
    card, where = _values(run, "card"), _values(run, "environment")
    took = 0.0
    with contextlib.suppress(*DAMAGED):
        took = sum(stage.seconds for stage in run.stages)
    return {
        "data": text_cell(card.get("kind")),
        "command": text_cell(card.get("command")),
        "machine": text_cell(where.get("gpu") or where.get("machine")),
        "date": text_cell(where.get("date")),
        "training, s": Cell.decimals(took or None, 1),
    }


def _values(run: ComparedRun, name: str) -> Json:
    """A record of a run; empty if it is damaged, which the run's own part of the page says."""
    try:
        record = getattr(run, name)
    except DAMAGED:
        return {}
    return record if isinstance(record, dict) else {}


def _score_grid(shared: list[str], tables: Mapping[str, ScoreTable]) -> Grid:
    """For each score one row per run, one column per number of steps."""
    steps = sorted({k for table in tables.values() for k in table.samples})
    rows = []
    for score in shared:
        having = [(name, table) for name, table in tables.items() if score in table.names]
        for i, (name, table) in enumerate(having):
            values = [table.samples[k][score] if k in table.samples else None for k in steps]
            cells = map(Cell.decimals, (*values, table.held_out[score]))
            rows.append((Cell(score * (i == 0)), Cell(name), *cells))
    return Grid(("score", "run", *map(str, steps), "held out"), tuple(rows))


def _score_chart(
    score: str, tables: Mapping[str, ScoreTable], colors: Mapping[str, int]
) -> tuple[Chart, ...]:
    having = {name: table for name, table in tables.items() if score in table.names}
    series = [table.series(score, name, colors[name]) for name, table in having.items()]
    levels = [
        table.level(score, f"held out, {name}", colors[name]) for name, table in having.items()
    ]
    return Chart.of(score, STEPS, series, levels, steps=True)


def _curves(
    runs: Mapping[str, ComparedRun], colors: Mapping[str, int]
) -> Iterator[tuple[Chart, ...]]:
    """The loss of each stage that several runs have logged."""
    logged: dict[str, list[tuple[str, Stage]]] = {}
    for name, run in runs.items():
        try:
            stages = [stage for stage in run.stages if stage.lines]
        except DAMAGED:
            continue
        for stage in stages:
            logged.setdefault(stage.name, []).append((name, stage))
    for stage_name, pairs in logged.items():
        if len(pairs) > 1:
            series = [stage.loss(name, colors[name]) for name, stage in pairs]
            yield Chart.of(f"loss: {stage_name}", STEP, series)
