"""The tables of quality and privacy of the rows of a table, and what their scores mean."""

from discrete_meanflow.model.evaluation_grids import REAL, Json
from discrete_meanflow.model.grid import Cell, Grid

MOST_COLUMNS = 16  # that are printed
MOST_PAIRS = 10
QUALITY = {
    "column shapes": "mean distance of columns: Kolmogorov-Smirnov for numbers, TV for levels",
    "missing cells": "largest difference of the fractions of missing cells of a column",
    "pair trends": "mean total variation distance of pairs of columns, with numbers in deciles",
    "C2ST AUC": "the larger AUC of a random forest and gradient boosting on the values of cells",
    "utility": "R2 or accuracy on held-out rows of a model that learns the target from these rows",
}
PRIVACY = {
    "DCR median": "median distance to the closest training row: the sum over columns of the\n"
    "difference of ranks (numbers) or 0 and 1 (levels)",
    "DCR 5 %": "5 % quantile of these distances; smaller than held out: samples are near-copies",
    "very close": "fraction closer to a training row than 99 % of held-out rows; 0.01 is expected",
    "membership AUC": "AUC of finding training rows by their distance to samples; 0.5: not found",
    "copies": "fraction of rows that are training rows",
}
COLUMNS_NOTE = "distance of each column from held-out rows; missing: fraction of cells (held out)"


def columns_grid(quality: Json) -> Grid:
    """One row for each column, those that differ most at the fewest steps first."""
    names = list(quality["scores"])
    row = fewest_steps(quality)
    columns = sorted(quality["columns"], key=lambda c: c["distance"][REAL] - c["distance"][row])
    rows = [
        (
            Cell(str(column["name"])),
            Cell(str(column["kind"])),
            *(Cell.decimals(column["distance"][name]) for name in names),
            Cell.beside(column["missing"][row], column["missing"][REAL], 3),
        )
        for column in columns
    ]
    return Grid(("column", "kind", *names, "missing"), tuple(rows))


def fewest_steps(quality: Json) -> str:
    """The name of the samples of the fewest steps."""
    return next(name for name in quality["scores"] if name != REAL)


def worst_pairs(quality: Json) -> list[tuple[str, str, float, float]]:
    """Pairs of columns, with the distances of samples and of held-out rows; the worst first."""
    names = [str(column["name"]) for column in quality["columns"]]
    pairs, distances = quality["pairs"]["columns"], quality["pairs"]["distances"]
    row = fewest_steps(quality)
    found = [
        (names[i], names[j], tv, real)
        for (i, j), tv, real in zip(pairs, distances[row], distances[REAL], strict=True)
    ]
    return sorted(found, key=lambda pair: pair[3] - pair[2])


def pairs_grid(quality: Json) -> Grid:
    """The pairs of columns that differ most."""
    rows = [
        (Cell(a), Cell(b), Cell.decimals(tv), Cell.decimals(real))
        for a, b, tv, real in worst_pairs(quality)[:MOST_PAIRS]
    ]
    return Grid(("column", "column", fewest_steps(quality), REAL), tuple(rows))
