"""Tables of conditional samples: completions and classes of own data, and small laws."""

import json
from pathlib import Path
from typing import Any

from dmf_reproduction.report.table import grid_markdown

Json = dict[str, Any]
STEPS = ("1 step", "4 steps", "16 steps")
SCORES = ("C2ST AUC", "pair TV", "unseen pairs")


def completions_markdown(completions: Json) -> str:
    """Scores of completions by observed fraction; unconditional samples in parentheses."""
    table = [["measure ↓", "observed", *STEPS, "held-out data"]]
    for score in SCORES:
        for name, fraction in completions.get("fractions", {}).items():
            rows = {row: scores[score] for row, scores in fraction["scores"].items()}
            cells = [_beside(rows[k], rows.get(f"unconditional, {k}")) for k in STEPS]
            table.append([score, name, *cells, _number(rows["held out"])])
    return grid_markdown(table) if len(table) > 1 else ""


def classes_markdown(classes: Json) -> str:
    """Accuracy of a classifier by number of steps and guidance; the ratio in parentheses."""
    scores = dict(classes["scores"])
    real = scores.pop("held out")["accuracy"]
    table = [["", "accuracy ↑", "relative to held-out data"]]
    for name, score in scores.items():
        table.append([name, f"{score['accuracy']:.3f}", _number(score["ratio to held out"])])
    table.append(["held-out data", f"{real:.3f}", "1"])
    return grid_markdown(table)


def small_laws_section(bench: Path) -> str:
    """Total variation minus its floor, from the records of ``bench/conditional_laws.py``."""
    table = [["law", "steps", "joint ↓", "conditional, mean ↓", "conditional, largest ↓"]]
    commands, threads = [], set()
    for path in sorted(bench.glob("conditional-*.json")):
        run = json.loads(path.read_text())
        commands.append(f"`{run['command']}`")
        threads.add(str(run["threads"]))
        for k, tv in run["TV minus floor by steps"].items():
            cells = [f"{tv[name]:.4f}" for name in ("joint", "mean", "largest")]
            table.append([path.stem.removeprefix("conditional-"), k, *cells])
    text = f"Commands, with {' or '.join(sorted(threads))} CPU thread(s): {', '.join(commands)}"
    return "\n".join([text, "", grid_markdown(table), ""])


def _beside(value: float | None, unconditional: float | None) -> str:
    other = "" if unconditional is None else f" ({_number(unconditional)})"
    return f"{_number(value)}{other}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value >= 0.01 or value == 0 else f"{value:.5f}"
