"""Classifier two-sample test on the values of a table."""

import numpy
import torch

from discrete_meanflow.metric import forest
from discrete_meanflow.metric.table_values import Array, dense_ranks, random_rows

MAX_ROWS = 10_000  # of each table


def row_c2st_auc(x: Array, y: Array, seed: int = 0) -> float:
    """ROC AUC of a random forest or of gradient boosting that separates ``y`` from ``x``.

    Both train on the first halves of the tables and are scored on the others; the larger AUC
    counts. 0.5 means indistinguishable (Lopez-Paz & Oquab 2017, arXiv:1610.06545).
    """
    x, y = (random_rows(z, MAX_ROWS, seed) for z in dense_ranks(x, y))
    a, b = len(x) // 2, len(y) // 2
    train, test = numpy.concatenate([x[:a], y[:b]]), numpy.concatenate([x[a:], y[b:]])
    from_y = torch.arange(len(test)) >= len(x) - a
    classifiers = forest.random_forest(seed), forest.boosting(seed)
    fitted = (c.fit(train, numpy.arange(len(train)) >= a) for c in classifiers)
    return max(forest.auc(from_y, c.predict_proba(test)[:, 1]) for c in fitted)
