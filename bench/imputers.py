"""Imputers of tables that ``bench/fill.py`` compares with: rounds of random forests."""

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

Array: TypeAlias = numpy.ndarray
FEW_ROWS = 1000  # of a fit that is timed
ROWS_PER_TIME = 0.7  # rows that fit into a time, as a share of those that linear growth promises
TREES, ROUNDS = 20, 5  # more of either leaves time for fewer training rows


class Imputer(ABC):
    """Fills the holes of rows of codes, ``(rows, columns)``; a hole is NaN.

    Args:
        numbers: bool for each column; others have levels, which are codes 0, 1, ...
        seed: of the forests.
    """

    def __init__(self, numbers: Sequence[bool], seed: int) -> None:
        self.numbers, self.seed = numbers, seed

    @abstractmethod
    def fit(self, rows: Array) -> None:
        """Learn from rows with holes."""

    @abstractmethod
    def fill(self, rows: Array) -> Array:
        """Rows without holes."""


class Iterative(Imputer):
    """scikit-learn's ``IterativeImputer`` with regression forests; codes of levels are rounded."""

    def fit(self, rows: Array) -> None:
        forest = RandomForestRegressor(TREES, random_state=self.seed)
        self._imputer: Any = IterativeImputer(forest, max_iter=ROUNDS, random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._imputer.fit(rows)

    def fill(self, rows: Array) -> Array:
        filled = self._imputer.transform(rows)
        return numpy.where(self.numbers, filled, filled.round())


class MissForest(Imputer):
    """MissForest (Stekhoven and Buehlmann, 2012): the same rounds, with classification forests.

    Holes start as means and most frequent levels. In each round and for each column, a forest
    learns from the rows that have the cell, and predicts the holes; new rows pass the same forests.
    """

    def fit(self, rows: Array) -> None:
        self._start = [
            numpy.nanmean(column) if number else numpy.bincount(_known(column).astype(int)).argmax()
            for column, number in zip(rows.T, self.numbers, strict=True)
        ]
        self._rounds: list[list[Any]] = []
        filled, holes = self._started(rows)
        for _ in range(ROUNDS):
            self._rounds.append([])
            for i in range(rows.shape[1]):
                others = numpy.delete(filled, i, 1)
                forest = self._forest(i).fit(others[~holes[:, i]], rows[~holes[:, i], i])
                self._rounds[-1].append(forest)
                _predict(forest, filled, holes, i)

    def _forest(self, column: int) -> Any:
        make = RandomForestRegressor if self.numbers[column] else RandomForestClassifier
        return make(TREES, random_state=self.seed)

    def _started(self, rows: Array) -> tuple[Array, Array]:
        """Rows whose holes have first values, and where they are."""
        holes = numpy.isnan(rows)
        return numpy.where(holes, self._start, rows), holes

    def fill(self, rows: Array) -> Array:
        filled, holes = self._started(rows)
        for forests in self._rounds:
            for i, forest in enumerate(forests):
                _predict(forest, filled, holes, i)
        return filled


def _known(column: Array) -> Array:
    return column[~numpy.isnan(column)]


def _predict(forest: Any, filled: Array, holes: Array, column: int) -> None:
    """Replace the holes of a column by what a forest predicts from the other columns."""
    where = holes[:, column]
    if where.any():
        filled[where, column] = forest.predict(numpy.delete(filled[where], column, 1))


def fit_in_time(imputer: Imputer, rows: Array, minutes: float) -> int:
    """Fit on as many rows as are expected to take the minutes, and return their number."""
    started = time.monotonic()
    imputer.fit(rows[:FEW_ROWS])
    left = 60 * minutes / (time.monotonic() - started) - 1
    n = min(len(rows), max(FEW_ROWS, int(ROWS_PER_TIME * left * FEW_ROWS)))
    imputer.fit(rows[:n])
    return n
