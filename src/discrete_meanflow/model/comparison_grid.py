"""The table of a comparison: one row for each method, one column for each number of steps."""

from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.model.grid import Cell, Grid
from discrete_meanflow.run.json_files import Json

BEST_IS_LARGE = ("valid", "well-formed", "known words", "pair covariance")
PREFERRED = ("valid", "pair TV")  # shown first, where the data have it


def headline(comparison: Json) -> str:
    """The score that a table shows."""
    return next(name for name in PREFERRED if name in comparison[REAL])


def comparison_grid(comparison: Json, score: str) -> Grid:
    """A score of each method at each number of function evaluations.

    Before them: milliseconds per record at the fewest, and bits per symbol.
    """
    methods = comparison["methods"]
    steps = sorted({int(k) for method in methods.values() for k in method["steps"]})
    real = Cell.decimals(comparison[REAL][score])
    rows = [(Cell("held-out data"), Cell(""), Cell(""), *[real] * len(steps))]
    for name, method in methods.items():
        by_step = method["steps"]
        cells = [Cell.decimals(by_step.get(str(k), {}).get(score)) for k in steps]
        fastest = min(row["seconds per record"] for row in by_step.values())
        bits = method["likelihood"].get("bits per symbol")
        rows.append((Cell(name), Cell.decimals(1000 * fastest, 2), Cell.decimals(bits, 2), *cells))
    return Grid(("method", "ms", "bits", *map(str, steps)), tuple(rows))
