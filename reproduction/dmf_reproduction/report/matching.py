"""Tables of distribution matching, from the records of ``bench/distribution_matching.py``."""

import json
from pathlib import Path
from typing import Any

from dmf_reproduction.report.table import grid_markdown

Json = dict[str, Any]
PATTERN = "distribution-matching-*.json"
FIGURE = "distribution-matching"  # its name, without suffix
DIRECTIONS = {"valid": "↑", "C2ST AUC": "↓", "pair TV": "↓", "unique": "↑", "copies": "↓"}
TEACHER, STUDENT, MATCHED, CONTROL = "teacher", "student", "default", "more pairs"
RESIDUAL = "composition residual"
# Column -> kernel and sampler.
STAGES = {
    "teacher, 64": (TEACHER, "ode 64"),
    "student, 1": (STUDENT, "kernel 1"),
    "student, 4": (STUDENT, "kernel 4"),
    "more pairs, 1": (CONTROL, "kernel 1"),
    "matched, 1": (MATCHED, "kernel 1"),
    "matched, 4": (MATCHED, "kernel 4"),
    "matched, 4 restarts": (MATCHED, "restart 4"),
    "matched, 4 refined": (MATCHED, "refining 4"),
}
ARM_SAMPLERS = ("kernel 1", "kernel 4", "kernel 16")
NO_RECORD = (
    "`results/bench` has no record of `bench/distribution_matching.py` yet, so this table is empty."
)


def read_matching(bench: Path) -> dict[str, Json]:
    """The records by name of the data."""
    return {
        path.stem.removeprefix(PATTERN.partition("*")[0]): json.loads(path.read_text())
        for path in sorted(bench.glob(PATTERN))
    }


def stages_section(bench: Path) -> str:
    """What each stage buys on each data set, and the figure; a sentence without records."""
    records = read_matching(bench)
    if not records:
        return NO_RECORD
    table = [["data", "measure", *STAGES, "held-out data"]]
    for name, run in records.items():
        real = run["held out"]
        for measure, direction in DIRECTIONS.items():
            if measure not in real:
                continue
            values = [_score(run, kernel, sampler, measure) for kernel, sampler in STAGES.values()]
            cells = map(_number, [*values, real[measure]])
            table.append([name, f"{measure} {direction}", *cells])
    picture = f"![Quality against evaluations](../../results/bench/{FIGURE}.png)"
    return "\n".join([*_origins(records), "", grid_markdown(table), "", picture])


def arms_section(bench: Path) -> str:
    """The variants of the third stage on each data set; empty without records."""
    parts: list[str] = []
    for name, run in read_matching(bench).items():
        measures = [measure for measure in DIRECTIONS if measure in run["held out"]]
        table = [["variant", "evaluations", *_titles(measures), RESIDUAL, "ms per step"]]
        for arm, kernel in run["kernels"].items():
            if arm == TEACHER:
                continue
            own = [arm, *(_number(kernel.get(key)) for key in (RESIDUAL, "ms per step"))]
            for sampler in ARM_SAMPLERS:
                cells = [_number(_score(run, arm, sampler, measure)) for measure in measures]
                table.append([own[0], sampler.split()[1], *cells, *own[1:]])
                own = [""] * len(own)
        parts += [f"### Distribution matching: {name}", "", *_origins({name: run}), ""]
        parts += [grid_markdown(table), ""]
    if not parts:
        return ""
    head = [
        "## Variants of distribution matching",
        "",
        "All variants train the third stage from the same teacher and student for the same number",
        "of steps; *student* is the state before. *More pairs* is the control: as many further",
        "steps of the second stage. [Theory](theory/distribution-matching.md) explains the method.",
        "",
    ]
    return "\n".join([*head, *parts])


def _score(run: Json, kernel: str, sampler: str, measure: str) -> float | None:
    """A score; None if the record lacks the kernel."""
    scores = run["kernels"].get(kernel, {}).get("scores", {}).get(sampler, {})
    return scores.get(measure)


def _origins(records: dict[str, Json]) -> list[str]:
    """How each record was made: one line each."""
    return [
        f"- {name}: `{run['command']}`, {run['device']}, {run['parameters'] / 1e6:.2g} million "
        f"parameters, {run['samples']:,} samples"
        for name, run in records.items()
    ]


def _titles(measures: list[str]) -> list[str]:
    return [f"{measure} {DIRECTIONS[measure]}" for measure in measures]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.0f}"
