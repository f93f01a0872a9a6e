"""Tables of rows of the library and of its peers, from the records of ``bench/tables.py``."""

import json
from pathlib import Path
from typing import Any

from dmf_reproduction.report.table import grid_markdown

Json = dict[str, Any]
SCORES = {"column shapes": "↓", "pair trends": "↓", "C2ST AUC": "↓", "utility": "↑"}
PRIVACY = ("DCR 5 %", "very close", "membership AUC")
ERRORS = {"accuracy": "↑", "RMSE": "↓", "MAE": "↓", "coverage": "0.90"}


def peers_section(bench: Path) -> str:
    """Quality and privacy of generated rows, a row for each system."""
    head = ["table", "system", *(f"{name} {mark}" for name, mark in SCORES.items()), *PRIVACY]
    table, commands = [[*head, "seconds per 1,000 rows"]], []
    for path in sorted(bench.glob("tables-*.json")):
        run = json.loads(path.read_text())
        commands.append(_command(run))
        speed, name = run["seconds per 1,000 rows"], path.stem.removeprefix("tables-")
        for system, scores in _ordered(run["scores"]).items():
            cells = [f"{scores[score]:.3f}" for score in (*SCORES, *PRIVACY)]
            seconds = f"{speed[system]:.2f}" if system in speed else "-"
            table.append([name, _shown(system), *cells, seconds])
        for system, reason in run["failed"].items():
            table.append([name, system, f"failed: {reason}", *[""] * (len(head) - 2)])
    return _section(commands, table)


def fill_section(bench: Path) -> str:
    """Errors of filled cells, a row for each system."""
    head = ["table", "system", *(f"{name} {mark}" for name, mark in ERRORS.items())]
    table, commands = [[*head, "training rows"]], []
    for path in sorted(bench.glob("fill-*.json")):
        run = json.loads(path.read_text())
        commands.append(_command(run))
        for system, scores in _ordered(run["scores"]).items():
            cells = [f"{scores[name]:.3f}" if name in scores else "-" for name in ERRORS]
            rows = run["systems"].get(system, {}).get("training rows")
            shown = "-" if rows is None else f"{rows:,}"
            table.append([path.stem.removeprefix("fill-"), system, *cells, shown])
    return _section(commands, table)


def _command(run: Json) -> str:
    threads = f"{run['threads']} thread" + "s" * (run["threads"] > 1)
    return f"`{run['command']}` ({run['device']}, {threads}, {run['date']})"


def _ordered(scores: Json) -> Json:
    """Ours first, real rows last."""
    return dict(sorted(scores.items(), key=lambda item: (item[0] == "real", item[0][:4] != "ours")))


def _shown(system: str) -> str:
    return "held-out rows" if system == "real" else system


def _section(commands: list[str], table: list[list[str]]) -> str:
    if not commands:
        return "No record yet.\n"
    return "\n".join([f"Commands: {'; '.join(commands)}.", "", grid_markdown(table), ""])
