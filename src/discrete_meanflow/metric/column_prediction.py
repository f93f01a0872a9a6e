"""Machine-learning utility: what a model learns from samples, measured on real rows."""

from collections.abc import Sequence
from typing import Any

import numpy

from discrete_meanflow.metric import forest
from discrete_meanflow.metric.table_values import Array, cell_codes, dense_ranks, random_rows

MAX_ROWS = 10_000  # of each table
MAX_CLASSES = 10  # levels that count one by one
MAX_CANDIDATES = 32  # columns of which the best predicted one is found
SEARCH_ROWS, SEARCH_ITERATIONS = 2_000, 30


def utility(
    train: Array, test: Array, target: int, numeric: bool, seed: int = 0, iterations: int = 100
) -> float:
    """Score on rows ``test`` of gradient boosting that learns a column from rows ``train``.

    $R^2$ for a column of numbers, accuracy for one of levels (train on synthetic, test on real:
    Esteban et al. 2017, arXiv:1706.02633).
    """
    train, test = (random_rows(z, MAX_ROWS, seed) for z in (train, test))
    if numeric:
        train, test = (z[~numpy.isnan(z[:, target])] for z in (train, test))
    if not len(train) or not len(test):
        return 0.0
    y, wanted = train[:, target], test[:, target]
    x, rows = dense_ranks(*(numpy.delete(z, target, 1) for z in (train, test)))
    if numeric:
        scale = max(1.0, abs(y).max(), abs(wanted).max())  # whose squares are finite
        model = forest.boosted_numbers(seed, iterations)
        return _r2(wanted / scale, _predicted(model, x, y / scale, rows))
    y, wanted = _classes(y, wanted)
    predicted = _predicted(forest.boosting(seed, iterations), x, y, rows)
    return float((predicted == wanted).mean())


def best_predicted(x: Array, numeric: Sequence[bool], seed: int = 0) -> int:
    """The column that the others predict best, among the first 32.

    One half of the rows predicts the other. Accuracy counts above that of the most frequent level.
    """
    x = random_rows(x, 2 * SEARCH_ROWS, seed)
    train, test = x[: len(x) // 2], x[len(x) // 2 :]
    skills = []
    for i, number in enumerate(numeric[:MAX_CANDIDATES]):
        score = utility(train, test, i, number, seed, SEARCH_ITERATIONS)
        chance = 0.0 if number else _highest_frequency(test[:, i])
        skills.append((score - chance) / max(1 - chance, 1 / len(test)))
    return int(numpy.argmax(skills))


def _highest_frequency(column: Array) -> float:
    return float(numpy.unique(column, return_counts=True)[1].max() / len(column))


def _predicted(model: Any, x: Array, y: Array, rows: Array) -> Array:
    """Predictions for rows; the only value of y if it has one."""
    if (y == y[0]).all():
        return numpy.full(len(rows), y[0])
    predictions: Array = model.fit(x, y).predict(rows)
    return predictions


def _classes(y: Array, wanted: Array) -> tuple[Array, Array]:
    """Levels as numbers; -1 stands for all but the most frequent ones of ``wanted``."""
    y, wanted = cell_codes(y, wanted)
    frequent = numpy.argsort(-numpy.bincount(wanted), kind="stable")[:MAX_CLASSES]
    a, b = (numpy.where(numpy.isin(z, frequent), z, -1) for z in (y, wanted))
    return a, b


def _r2(wanted: Array, predicted: Array) -> float:
    """$R^2$; of equal numbers 1 if all are predicted exactly, else 0."""
    error, spread = ((wanted - z) @ (wanted - z) for z in (predicted, wanted.mean()))
    return float(1 - error / spread) if spread > 0 else float(error == 0)
