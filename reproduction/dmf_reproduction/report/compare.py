"""The tables of the comparison of methods, from the records of the experiments ``compare-*``."""

from typing import Any

from dmf_reproduction.report.table import grid_markdown, origin
from dmf_reproduction.settings import method_of

Json = dict[str, Any]
EXPERIMENTS = ("compare-bigram", "compare-nltcs")
SHOWN = ("1", "2", "4", "16", "64", "256")


def compare_section(runs: dict[str, Json]) -> str:
    """For each data set, the score of each method at each number of steps."""
    return "\n\n".join(
        _table(runs[name])
        if name in runs
        else f"Not measured yet: `dmf reproduce {name} --data DATA` makes this table."
        for name in EXPERIMENTS
    )


def _table(run: Json) -> str:
    facts = run["facts"]
    title = f"**{facts['target']}**: {facts['score']}, {facts['draws']:,} samples"
    where = f"`{run['command']}`: {origin(run)}."
    cells = {method_of(name): cell for name, cell in run["cells"].items()}
    best = {
        k: min(cell["measurements"][0]["scores"].get(k, 2.0) for cell in cells.values())
        for k in SHOWN
    }
    table = [["method", *(f"{k} ↓" for k in SHOWN), "bits", "steps of training"]]
    for name, cell in cells.items():
        measured = cell["measurements"][0]
        scores, bits = measured["scores"], measured["likelihood"].get("bits per symbol")
        row = [_score(scores.get(k), best[k]) for k in SHOWN]
        table.append(
            [name, *row, "-" if bits is None else f"{bits:.3f}", f"{cell['iterations']:,}"]
        )
    return f"{title}, floor {facts['floor']:.4f}. {where}\n\n{grid_markdown(table)}"


def _score(value: float | None, best: float) -> str:
    """A score to four decimals, the best of a column in bold."""
    if value is None:
        return "-"
    return f"**{value:.4f}**" if value == best else f"{value:.4f}"
