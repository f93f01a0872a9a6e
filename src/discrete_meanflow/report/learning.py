"""The training of a run: time, speed and learning curves of its stages."""

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from discrete_meanflow.model.grid import Cell, Grid
from discrete_meanflow.report.blocks import Block, Charts, Details, Facts, Json, Note, Table
from discrete_meanflow.report.chart import Chart, Series

HEAD = ("stage", "steps", "of", "seconds", "tokens / s", "last loss")
STEP = "training step"
END = {"symbol_tv": "symbol TV", "distinct": "distinct records"}


@dataclass(frozen=True)
class Stage:
    """A stage of training and the lines of its log.

    Args:
        name: of the stage.
        start: steps of all stages before.
        steps: planned.
        before: seconds of all stages before.
        lines: of ``metrics.jsonl``.
    """

    name: str
    start: int
    steps: int
    before: float
    lines: tuple[Json, ...]

    @property
    def done(self) -> int:
        return self.lines[-1]["iteration"] - self.start if self.lines else 0

    @property
    def seconds(self) -> float:
        return float(self.lines[-1]["seconds"]) - self.before if self.lines else 0.0

    @property
    def row(self) -> tuple[Cell, ...]:
        counts = Cell(self.name), Cell(f"{self.done:,}"), Cell(f"{self.steps:,}")
        if not self.lines:
            return *counts, Cell(""), Cell(""), Cell("")
        speed = statistics.median(float(line["tokens_per_second"]) for line in self.lines)
        loss = Cell.decimals(self.lines[-1]["loss"])
        return *counts, Cell.decimals(self.seconds, 1), Cell(f"{speed:,.0f}"), loss

    def loss(self, name: str, color: int) -> Series:
        """The loss against the training step."""
        losses = (line.get("loss") for line in self.lines)
        return Series.of(name, color, (line["iteration"] for line in self.lines), losses)

    def speed(self, color: int) -> Series:
        """Tokens per second against the training step."""
        speeds = (line.get("tokens_per_second") for line in self.lines)
        return Series.of(self.name, color, (line["iteration"] for line in self.lines), speeds)


def read_stages(folder: Path, plan: Json) -> list[Stage]:
    """The stages of a plan with their parts of the log."""
    from discrete_meanflow.model.metrics_log import read_metrics
    from discrete_meanflow.model.run_folder import METRICS

    lines, stages, start, seconds = read_metrics(folder / METRICS), [], 0, 0.0
    for name in ("teacher", "student", "matching"):
        steps = int(plan.get(f"{name}_steps", 0))
        own = tuple(line for line in lines if start < line["iteration"] <= start + steps)
        if steps:
            stages.append(Stage(name, start, steps, seconds, own))
        start, seconds = start + steps, float(own[-1]["seconds"]) if own else seconds
    return stages


def training_blocks(record: Callable[[str], Json], stages: Sequence[Stage]) -> Iterator[Block]:
    """Time, speed and learning curves, and what the training recorded at its end."""
    logged = [stage for stage in stages if stage.lines]
    if logged:
        yield Table(Grid(HEAD, tuple(stage.row for stage in stages)))
        total = sum(stage.seconds for stage in logged)
        yield Note(f"Training steps took {total:,.1f} s in all, from metrics.jsonl.")
        colors = {stage.name: i for i, stage in enumerate(logged)}
        charts = [
            Chart.of(f"loss: {stage.name}", STEP, [stage.loss(stage.name, colors[stage.name])])
            for stage in logged
        ]
        speeds = [stage.speed(colors[stage.name]) for stage in logged]
        charts.append(Chart.of("tokens per second", STEP, speeds))
        yield Charts(tuple(itertools.chain(*charts)))
    else:
        planned = ", ".join(f"{stage.steps:,} {stage.name} steps" for stage in stages)
        yield Note(f"The folder has no metrics.jsonl, which records the time. Planned: {planned}.")
    if end := record("training.json"):
        yield _end(end)
        yield Details("Record of the training", (Facts.of(end),))


def _end(record: Json) -> Block:
    """Scores of samples at the end of the training."""
    rows = {"training data": record["data"]}
    rows |= {f"samples, steps {k}": scores for k, scores in record["samples"].items()}
    cells = [
        (Cell(name), *(Cell.decimals(scores[key]) for key in END)) for name, scores in rows.items()
    ]
    return Table(Grid(("at the end of training", *END.values()), tuple(cells)))
