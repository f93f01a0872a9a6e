"""Tables of runs of `dmf train` and `dmf evaluate` on users' files."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmf_reproduction.report.conditional import classes_markdown, completions_markdown
from dmf_reproduction.report.table import grid_markdown

Json = dict[str, Any]
# Measure -> which direction is better.
DIRECTIONS = {
    **dict.fromkeys(("well-formed", "valid", "unique", "pair covariance", "known words"), "↑"),
    **dict.fromkeys(("pair TV", "triple TV", "copies", "C2ST AUC", "bits"), "↓"),
}
COMPLETIONS = "Completions given the observed positions; in parentheses, unconditional samples:"
CLASSES = "Samples in which a classifier of real records finds the requested class:"


@dataclass(frozen=True)
class OwnRun:
    """A run on a user's file: its commands, its machine and its scores."""

    command: str
    lm_steps: int
    machine: str
    records: int
    scores: dict[str, dict[str, float]]  # by number of steps
    held_out: dict[str, float]  # scores of held-out records
    completions: Json  # empty in records of earlier versions
    classes: Json  # empty without classes

    @classmethod
    def read(cls, folder: Path) -> "OwnRun":
        evaluation = json.loads((folder / "evaluation.json").read_text())
        card = json.loads((folder / "data.json").read_text())
        scores, environment = evaluation["scores"], evaluation["environment"]
        held_out = scores.pop("held out")
        return cls(
            card["command"],
            evaluation["lm_steps"],
            environment["gpu"] or f"CPU, {environment['machine']}",
            evaluation["records"],
            {name.split()[0]: score for name, score in scores.items()},
            held_out,
            evaluation.get("completions", {}),
            evaluation.get("classes", {}),
        )

    @property
    def evaluate(self) -> str:
        lm = f" --lm-steps {self.lm_steps}" if self.lm_steps else ""
        return f"dmf evaluate RUN --steps {' '.join(self.scores)}{lm}"

    def table(self) -> str:
        """One row for each measure, one column for each number of steps."""
        steps = [f"{k} step{'s' * (k != '1')}" for k in self.scores]
        table = [["measure", *steps, "held-out data"]]
        for key, real in self.held_out.items():
            values = [score[key] for score in self.scores.values()]
            name = f"{key} {DIRECTIONS.get(key, '')}".strip()
            table.append([name, *(f"{v:.3f}" for v in [*values, real])])
        return grid_markdown(table)


def own_data_section(results: Path) -> str:
    """A table for each run on a user's file."""
    parts = []
    for path in sorted(results.glob("own-*/evaluation.json")):
        run = OwnRun.read(path.parent)
        parts += [
            f"### {path.parent.name.removeprefix('own-')}",
            "",
            f"`{run.command}`, then `{run.evaluate}`: {run.machine}, {run.records:,} samples.",
            "",
            run.table(),
            "",
        ]
        if "fractions" in run.completions:
            parts += [COMPLETIONS, "", completions_markdown(run.completions), ""]
        if run.classes:
            parts += [CLASSES, "", classes_markdown(run.classes), ""]
    return "\n".join(parts)
