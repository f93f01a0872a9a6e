"""Holes of a table filled by this library and by random forests, after equal minutes.

    python bench/fill.py diamonds.csv --minutes 5

``table_files.py`` writes the tables. One fifth of the rows is held out; rows with missing cells are
left out. Each system trains on the other rows, which are complete. Of 2,000 held-out rows, 20 % of
the cells at random become holes, which each system fills.

- *ours*: ``fill`` with 20 draws for each row: the mean of a number, the most frequent level.
- *IterativeImputer* and *MissForest*: see ``imputers.py``. They fit on as many training rows as
  their minutes allow.
- *constant*: the mean of a column, or its most frequent level.

For levels the record has the accuracy; for numbers the root mean squared and the mean absolute
error, in standard deviations of the column. *Coverage* is the share of the numbers that lie in the
interval of our draws. With 20 draws of the right law, a number lies between the k-th smallest and
the next with probability 1 / 21. The 5 % and 95 % quantiles are therefore at the ranks 21 p = 1.05
and 19.95 (``weibull`` in NumPy), which makes 90 %; NumPy's default would make 81 %.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy
import pandas
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.run.json_files import Json
from imputers import Imputer, Iterative, MissForest, fit_in_time
from measure import RESULTS, record
from table_scores import is_number

Frame: TypeAlias = pandas.DataFrame
Array: TypeAlias = numpy.ndarray
DRAWS = 20
STEPS = (1, 4)  # function evaluations of ours
HOLES = 0.2  # share of the cells
QUANTILES = (0.05, 0.95)
IMPUTERS: dict[str, type[Imputer]] = {"IterativeImputer": Iterative, "MissForest": MissForest}


@dataclass(frozen=True)
class Task:
    """Complete rows to learn from, and rows with holes to fill.

    Args:
        train: complete rows.
        truth: other complete rows.
        holes: bool, of the shape of ``truth``.
        train_holes: bool, of the shape of ``train``, for imputers that learn from holes.
    """

    train: Frame
    truth: Frame
    holes: Array
    train_holes: Array

    @classmethod
    def of(cls, table: Frame, rows: int, seed: int) -> "Task":
        table = table.sample(frac=1, random_state=seed).reset_index(drop=True)
        cut = len(table) // 5
        train, truth = table[cut:].dropna(), table[:cut].dropna()[:rows]
        rng = numpy.random.default_rng(seed)
        holes, train_holes = (rng.random(x.shape) < HOLES for x in (truth, train))
        return cls(train, truth, holes, train_holes)

    @cached_property
    def numbers(self) -> list[bool]:
        return [is_number(self.train[name]) for name in self.train.columns]

    @cached_property
    def _levels(self) -> dict[str, list]:
        both = pandas.concat([self.train, self.truth])
        names = [
            name for name, number in zip(both.columns, self.numbers, strict=True) if not number
        ]
        return {name: sorted(both[name].unique()) for name in names}

    def codes(self, rows: Frame) -> Array:
        """Numbers as they are, and levels as 0, 1, ..., in order."""
        columns = [
            pandas.Categorical(rows[name], self._levels[name]).codes
            if name in self._levels
            else rows[name]
            for name in self.train.columns
        ]
        return numpy.stack([numpy.asarray(column, float) for column in columns], 1)

    @property
    def with_holes(self) -> Frame:
        return self.truth.astype(object).mask(self.holes)


def errors(task: Task, filled: Array) -> dict[str, Json]:
    """The scores of each column, given rows of codes without holes."""
    truth, deviation = task.codes(task.truth), task.codes(task.train).std(0)
    scores = {}
    for i, name in enumerate(task.train.columns):
        where = task.holes[:, i]
        x, y = truth[where, i], filled[where, i]
        if task.numbers[i]:
            error = (x - y) / deviation[i]
            scores[name] = {
                "RMSE": float((error**2).mean() ** 0.5),
                "MAE": float(abs(error).mean()),
            }
        else:
            scores[name] = {"accuracy": float((x == y).mean())}
    return scores


def likely(task: Task, draws: Array) -> Array:
    """The mean of numbers and the most frequent level of draws ``(rows, draws, columns)``."""
    filled = draws.mean(1)
    for i, number in enumerate(task.numbers):
        if not number:
            counts = (draws[:, :, i, None] == numpy.arange(draws[..., i].max() + 1)).sum(1)
            filled[:, i] = counts.argmax(1)
    return filled


def coverage(task: Task, draws: Array) -> dict[str, float]:
    """The share of the numbers of each column in the 90 % interval of their draws."""
    low, high = numpy.quantile(draws, QUANTILES, axis=1, method="weibull")
    truth = task.codes(task.truth)
    inside = (low <= truth) & (truth <= high)
    return {
        name: float(inside[task.holes[:, i], i].mean())
        for i, name in enumerate(task.train.columns)
        if task.numbers[i]
    }


def mean_scores(columns: dict[str, Json]) -> Json:
    """Each score, averaged over the columns that have it."""
    names = {score for scores in columns.values() for score in scores}
    return {
        name: float(numpy.mean([scores[name] for scores in columns.values() if name in scores]))
        for name in sorted(names)
    }


def ours(task: Task, minutes: float, folder: Path | None, seed: int) -> tuple[OneStepModel, float]:
    """Our model, and the seconds of its training."""
    started = time.monotonic()
    if folder is not None and folder.exists():
        model = OneStepModel.load(folder, "cpu")
    else:
        model = OneStepModel.fit(task.train, minutes, seed=seed, device="cpu", out=folder)
    return model, time.monotonic() - started


def run(task: Task, options: argparse.Namespace) -> Json:
    """The scores of all systems."""
    holed = numpy.where(task.holes, numpy.nan, task.codes(task.truth))
    complete = task.codes(task.train)
    holed_train = numpy.where(task.train_holes, numpy.nan, complete)
    means = likely(task, complete[None])
    columns = {"constant": errors(task, numpy.where(task.holes, means, holed))}
    details: Json = {}
    for name, make in IMPUTERS.items():
        imputer, started = make(task.numbers, options.seed), time.monotonic()
        rows = fit_in_time(imputer, holed_train, options.minutes)
        fitted = time.monotonic()
        columns[name] = errors(task, imputer.fill(holed))
        filling = time.monotonic() - fitted
        details[name] = _details(rows, fitted - started, filling, len(holed))
    model, training = ours(task, options.minutes, options.run, options.seed)
    for steps in STEPS:
        name, started = "ours" if steps == 1 else f"ours, {steps} steps", time.monotonic()
        filled = model.fill(task.with_holes, DRAWS, steps, seed=options.seed)
        filling = time.monotonic() - started
        draws = task.codes(filled).reshape(len(task.truth), DRAWS, -1)
        columns[name] = errors(task, likely(task, draws))
        for column, share in coverage(task, draws).items():
            columns[name][column]["coverage"] = share
        details[name] = _details(len(complete), training, filling, len(holed))
    means_of = {name: mean_scores(scores) for name, scores in columns.items()}
    return {"systems": details, "scores": means_of, "columns": columns}


def _details(rows: int, training: float, filling: float, filled: int) -> Json:
    return {
        "training rows": rows,
        "seconds": round(training),
        "seconds per 1,000 rows": round(1000 * filling / filled, 3),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--drop", nargs="+", default=[])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=2000, help="held-out rows")
    parser.add_argument("--run", type=Path, help="our run folder; trained if it does not exist")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    task = Task.of(
        pandas.read_csv(options.file).drop(columns=options.drop), options.rows, options.seed
    )
    settings: Json = {
        "rows": len(task.train),
        "filled rows": len(task.truth),
        "holes": HOLES,
        "draws": DRAWS,
        "minutes": options.minutes,
        "seed": options.seed,
        "threads": torch.get_num_threads(),
    }
    drop = f" --drop {' '.join(options.drop)}" if options.drop else ""
    command = (
        f"python bench/fill.py {options.file.name}{drop} --minutes {options.minutes:g} "
        f"--rows {options.rows} --seed {options.seed}"
    )
    results = run(task, options)
    record(f"fill-{options.file.stem}", "cpu", command, settings | results, options.out)


if __name__ == "__main__":
    main()
