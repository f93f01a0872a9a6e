"""Scores of generated rows against real rows, on their raw values."""

from typing import Any, TypeAlias

import numpy
import pandas
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

Frame: TypeAlias = pandas.DataFrame
Array: TypeAlias = numpy.ndarray
LEVELS = 10  # quantile levels of a column of numbers, where pairs are counted
NUMBERS = 64  # distinct numbers above which a column is one of numbers


def scores(real: Frame, rows: Frame, target: str, seed: int) -> dict[str, float]:
    """Pair TV, C2ST AUC of two classifiers, and the utility of rows for predicting a column."""
    rows = rows[list(real.columns)]
    x, y = features(real, rows)
    return {
        "pair TV": pair_tv(x, y, real),
        "C2ST AUC, forest": auc(RandomForestClassifier(200, random_state=seed, n_jobs=-1), x, y),
        "C2ST AUC, boosting": auc(HistGradientBoostingClassifier(random_state=seed), x, y),
        "utility": utility(x, y, list(real.columns).index(target), is_number(real[target]), seed),
    }


def is_number(column: pandas.Series) -> bool:
    return pandas.api.types.is_numeric_dtype(column) and column.nunique() > NUMBERS


def features(real: Frame, rows: Frame) -> tuple[Array, Array]:
    """Both tables as numbers; words are codes, and missing numbers are far below all others."""
    both = pandas.concat([real, rows], ignore_index=True)
    columns = []
    for name in both.columns:
        column = both[name]
        if not pandas.api.types.is_numeric_dtype(column):
            column = pandas.Series(pandas.factorize(column.astype(str), sort=True)[0])
        columns.append(column.astype(float).fillna(-1e6).to_numpy())
    table = numpy.stack(columns, 1)
    return table[: len(real)], table[len(real) :]


def auc(classifier: Any, x: Array, y: Array) -> float:
    """AUC of telling x from y; trained on one half of each, tested on the other."""
    a, b = len(x) // 2, len(y) // 2
    train, test = numpy.concatenate([x[:a], y[:b]]), numpy.concatenate([x[a:], y[b:]])
    classifier.fit(train, numpy.arange(len(train)) >= a)
    made = numpy.arange(len(test)) >= len(x) - a
    return float(roc_auc_score(made, classifier.predict_proba(test)[:, 1]))


def pair_tv(x: Array, y: Array, real: Frame) -> float:
    """Total variation of two columns, numbers in deciles, averaged over pairs."""
    levels = [
        _levels(x[:, i], y[:, i], is_number(real[name])) for i, name in enumerate(real.columns)
    ]
    distances = []
    for i, (a, b) in enumerate(levels):
        for c, d in levels[:i]:
            p, q = (numpy.bincount(u * 10_000 + v, minlength=1) for u, v in ((a, c), (b, d)))
            size = max(len(p), len(q))
            p, q = (numpy.pad(h, (0, size - len(h))) / h.sum() for h in (p, q))
            distances.append(abs(p - q).sum() / 2)
    return float(numpy.mean(distances))


def _levels(x: Array, y: Array, number: bool) -> tuple[Array, Array]:
    if number:
        cuts: Array = numpy.unique(numpy.quantile(x, numpy.arange(1, LEVELS) / LEVELS))
        return numpy.searchsorted(cuts, x), numpy.searchsorted(cuts, y)
    values = numpy.unique(numpy.concatenate([x, y]))
    return numpy.searchsorted(values, x), numpy.searchsorted(values, y)


def utility(x: Array, y: Array, target: int, number: bool, seed: int) -> float:
    """R2 or accuracy on real rows x of a model that learns a column from rows y."""
    (a, p), (b, q) = ((numpy.delete(z, target, 1), z[:, target]) for z in (x, y))
    if number:
        model = HistGradientBoostingRegressor(random_state=seed).fit(b, q)
        return float(r2_score(p, model.predict(a)))
    model = HistGradientBoostingClassifier(random_state=seed).fit(b, q)
    return float(accuracy_score(p, model.predict(a)))
