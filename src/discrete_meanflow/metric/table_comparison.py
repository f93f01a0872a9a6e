"""All scores of the quality of a table beside a reference."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from discrete_meanflow.metric.column_prediction import utility
from discrete_meanflow.metric.column_shapes import missing_rate, shape_distance
from discrete_meanflow.metric.pair_trends import pair_distances
from discrete_meanflow.metric.row_c2st import row_c2st_auc
from discrete_meanflow.metric.table_values import Array


@dataclass(frozen=True)
class TableComparison:
    """A table beside real rows with the same columns.

    Args:
        shapes: distance of each column.
        missing: difference of the fractions of missing cells of each column.
        pairs: distance of each pair of columns.
        c2st_auc: of a classifier two-sample test.
        utility: of the table for predicting a column; None if there is no other column.
    """

    shapes: tuple[float, ...]
    missing: tuple[float, ...]
    pairs: dict[tuple[int, int], float]
    c2st_auc: float
    utility: float | None

    @classmethod
    def of(
        cls, real: Array, x: Array, numeric: Sequence[bool], target: int, seed: int = 0
    ) -> "TableComparison":
        """Compare rows ``x`` with ``real``; ``target`` is the column that is predicted."""
        columns = list(zip(real.T, x.T, numeric, strict=True))
        return cls(
            tuple(shape_distance(a, b, number) for a, b, number in columns),
            tuple(abs(missing_rate(a) - missing_rate(b)) for a, b, _ in columns),
            pair_distances(real, x, numeric, seed),
            row_c2st_auc(real, x, seed),
            utility(x, real, target, numeric[target], seed) if len(columns) > 1 else None,
        )

    @property
    def scores(self) -> dict[str, float]:
        """Means over columns and pairs; a table of one column has no pairs and no utility."""
        scores = {
            "column shapes": float(numpy.mean(self.shapes)),
            "missing cells": max(self.missing),
        }
        if self.pairs:
            scores["pair trends"] = float(numpy.mean(list(self.pairs.values())))
        scores["C2ST AUC"] = self.c2st_auc
        if self.utility is not None:
            scores["utility"] = self.utility
        return scores
