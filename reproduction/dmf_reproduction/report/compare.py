"""The tables of the comparison of methods, from the record of the experiment ``compare``."""

from typing import Any

from dmf_reproduction.report.table import grid_markdown, origin

Json = dict[str, Any]
NO_RECORD = "Not measured yet: `dmf reproduce compare --data DATA` makes these tables."
SHOWN = ("1", "2", "4", "16", "64", "256")


def compare_section(runs: dict[str, Json]) -> str:
    """For each data set, the score of each method at each number of evaluations."""
    run = runs.get("compare")
    if run is None:
        return NO_RECORD
    facts, parts = run["facts"], [f"`{run['command']}`: {origin(run)}."]
    for target, fact in facts.items():
        if isinstance(fact, dict) and "floor" in fact:
            title = f"**{target}**: {fact['score']}, {fact['draws']:,} samples"
            parts += ["", f"{title}, floor {fact['floor']:.4f}.", "", _table(target, run)]
    return "\n".join(parts)


def _table(target: str, run: Json) -> str:
    cells = {
        name.removeprefix(f"{target}, method "): cell
        for name, cell in run["cells"].items()
        if name.startswith(f"{target}, method ")
    }
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
    return grid_markdown(table)


def _score(value: float | None, best: float) -> str:
    """A score to four decimals, the best of a column in bold."""
    if value is None:
        return "-"
    return f"**{value:.4f}**" if value == best else f"{value:.4f}"
