"""The evaluation of a run: its tables, and its scores against the number of steps."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from discrete_meanflow.model import evaluation_grids as grids
from discrete_meanflow.report.blocks import (
    Block,
    Charts,
    Command,
    Details,
    Facts,
    Json,
    Note,
    Table,
    shortened,
)
from discrete_meanflow.report.chart import Chart, Level, Series

STEPS = "forward passes"


@dataclass(frozen=True)
class ScoreTable:
    """The scores of samples by number of steps, and of held-out records."""

    names: tuple[str, ...]
    held_out: dict[str, float]
    samples: dict[int, dict[str, float]]

    @classmethod
    def of(cls, scores: Json) -> "ScoreTable":
        rows = {
            row: {name: float(value) for name, value in values.items()}
            for row, values in scores.items()
        }
        held_out = rows.pop(grids.REAL)
        return cls(tuple(held_out), held_out, {int(k.split()[0]): v for k, v in rows.items()})

    def series(self, score: str, name: str, color: int) -> Series:
        """A score against the number of steps."""
        return Series.of(name, color, self.samples, (row[score] for row in self.samples.values()))

    def level(self, score: str, name: str, color: int | None) -> Level:
        """The score of held-out records."""
        return Level(name, color, self.held_out[score])


def evaluation_blocks(evaluation: Json, run: str) -> Iterator[Block]:
    """Scores, completions and classes, with what they mean and the command that made them."""
    from discrete_meanflow.model.evaluate import LEGEND

    scores = ScoreTable.of(evaluation["scores"])
    yield Command(f"dmf evaluate {run} {_options(evaluation, scores)}", "All scores by")
    caption = f"{evaluation['records']:,} samples per row"
    yield Table(grids.scores_grid(evaluation["scores"]), caption)
    yield _score_charts(scores)
    meanings = {name: LEGEND[name] for name in scores.names if name in LEGEND}
    yield Details("What the scores mean", (Facts.of(meanings), Note(grids.NOTE)))
    yield from _completions(evaluation.get("completions", {}), evaluation["records"])
    yield from _classes(evaluation.get("classes", {}))
    for line in evaluation.get("advice", []):
        yield Note(shortened(str(line)))
    yield Details("Where the samples were drawn", (Facts.of(evaluation.get("environment", {})),))


def _options(evaluation: Json, scores: ScoreTable) -> str:
    """The options that repeat the evaluation; earlier versions recorded them one by one."""
    if "options" in evaluation:
        return str(evaluation["options"])
    lm_steps = f" --lm-steps {evaluation['lm_steps']}" * bool(evaluation.get("lm_steps"))
    steps = " ".join(map(str, scores.samples))
    return f"-n {evaluation['records']} --seed {evaluation['seed']} --steps {steps}{lm_steps}"


def _score_charts(scores: ScoreTable) -> Charts:
    charts = [
        Chart.of(
            name,
            STEPS,
            [scores.series(name, "samples", 0)],
            [scores.level(name, "held out", None)],
            steps=True,
        )
        for name in scores.names
    ]
    return Charts(tuple(itertools.chain(*charts)))


def _completions(completions: Json, count: int) -> Iterator[Block]:
    from discrete_meanflow.model.completions import COMPLETION_SCORES

    if "note" in completions:
        yield Note(f"Completions: {shortened(str(completions['note']))}.")
    if "fractions" not in completions:
        return
    fractions = completions["fractions"]
    caption = f"Completions of {count:,} held-out records, given the observed positions"
    yield Table(grids.completions_grid(fractions), caption, names=2)
    yield Note(f"{grids.COMPLETIONS_NOTE[0].upper()}{grids.COMPLETIONS_NOTE[1:]}.")
    yield Charts(tuple(itertools.chain(*_completion_charts(fractions, COMPLETION_SCORES))))
    yield Details("What the scores of completions mean", (Facts.of(COMPLETION_SCORES),))


def _completion_charts(fractions: Json, names: Iterable[str]) -> Iterator[tuple[Chart, ...]]:
    """One line for each fraction of observed positions."""
    steps = [int(row.split()[0]) for row in grids.STEPS]
    for score in names:
        rows = {name: fraction["scores"] for name, fraction in fractions.items()}
        series = [
            Series.of(f"{name} observed", i, steps, (row[k][score] for k in grids.STEPS))
            for i, (name, row) in enumerate(rows.items())
        ]
        held_out = [row[grids.REAL][score] for row in rows.values()]
        levels = [
            Level(f"held out, {name} observed", i, float(value))
            for i, (name, value) in enumerate(zip(rows, held_out, strict=True))
            if value is not None
        ]
        yield Chart.of(f"completions: {score}", STEPS, series, levels, steps=True)


def _classes(classes: Json) -> Iterator[Block]:
    if not classes:
        return
    scores = classes["scores"]
    caption = (
        f"Classes found by a classifier in {classes['samples']:,} samples, single classes at 1 step"
    )
    yield Table(grids.class_grid(scores), caption)
    total = len(scores["1 step, guidance 1"]["per class"])
    shown = len(grids.shown_classes(scores))
    if shown < total:
        yield Note(f"Shown: the {shown} classes with the lowest accuracy of {total:,}.")
    yield Note(f"{grids.CLASS_NOTE[0].upper()}{grids.CLASS_NOTE[1:]}.")
