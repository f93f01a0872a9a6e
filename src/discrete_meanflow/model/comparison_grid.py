"""The table of a comparison: one row for each method, one column for each number of steps."""

from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.model.grid import Cell, Grid
from discrete_meanflow.run.json_files import Json

EVALUATIONS, SECONDS = "function evaluations", "seconds per record"
PAIR_TV, AUC, VALID = "pair TV", "C2ST AUC", "valid"


def shown_scores(comparison: Json) -> tuple[str, ...]:
    """The scores that tables show. Records of one position have no pairs."""
    real = comparison[REAL]
    first = PAIR_TV if real[PAIR_TV] > 0 else AUC
    return (first, VALID) if VALID in real else (first,)


def comparison_grid(comparison: Json, score: str) -> Grid:
    """A score of each method at each number of steps.

    Before them: bits per symbol, and milliseconds per record at the fewest steps.
    """
    methods = {name: m for name, m in comparison["methods"].items() if "steps" in m}
    steps = sorted({int(k) for method in methods.values() for k in method["steps"]})
    real = Cell.decimals(comparison[REAL][score])
    rows = [(Cell("held-out data"), Cell(""), Cell(""), *[real] * len(steps))]
    for name, method in methods.items():
        by_step = method["steps"]
        cells = [Cell.decimals(by_step.get(str(k), {}).get(score)) for k in steps]
        seconds = by_step[str(min(map(int, by_step)))][SECONDS]
        bits = method["likelihood"].get("bits per symbol")
        rows.append((Cell(name), Cell.decimals(bits, 2), Cell.decimals(1000 * seconds, 2), *cells))
    return Grid(("method", "bits", "ms", *map(str, steps)), tuple(rows))
