"""The joint law in one step, a row per data set: the soft kernel, the factorised one, the truth."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dmf_reproduction.report.table import grid_markdown

Json = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """What is told of an experiment on real data."""

    data: str
    measure: str
    key: str  # of its scores
    real: Callable[[Json], float]  # facts -> what data score in the place of samples


def held_out(key: str) -> Callable[[Json], float]:
    return lambda facts: facts["held out"][key]


ROWS = {
    "joint-digits": Row(
        "digits, 8 x 8", "share that a classifier is sure of ↑", "confident", held_out("confident")
    ),
    "joint-nltcs": Row(
        "nltcs, 16 answers",
        "TV of the joint law to the test rows, as many samples as training rows ↓",
        "tv_test_as_many",
        lambda facts: facts["train to test"],
    ),
    "joint-rna": Row(
        "RF00059, aligned RNA",
        "correlation of two-site covariances with held-out ones ↑",
        "correlation",
        lambda facts: facts["train to held out"],
    ),
    "joint-names": Row(
        "names", "letter-pair TV to held-out ones ↓", "pair_tv", lambda facts: facts["floor"]
    ),
    "joint-molecules": Row("QM9, SMILES", "share valid (RDKit) ↑", "valid", held_out("valid")),
    "joint-sudoku": Row("sudoku", "share of valid grids ↑", "valid", held_out("valid")),
}
COLUMNS = {"factorised": ("1", "64"), "soft": ("1", "64")}  # kernels and their steps
HEAD = (
    *("data", "measure"),
    *("factorised, 1 step", "64 steps", "ours, 1 step", "64 steps", "real data", "on"),
)


def joint_table(runs: dict[str, Json]) -> str:
    """Of the experiments that have been run."""
    rows = [[*HEAD], *(_bigram_rows(runs["joint"]) if "joint" in runs else [])]
    for name, row in ROWS.items():
        if name not in runs:
            continue
        facts = runs[name]["facts"]
        found = [facts["scores"][kind][k] for kind, steps in COLUMNS.items() for k in steps]
        numbers = [f"{score[row.key]:.3f}" for score in found]
        rows.append(
            [row.data, row.measure, *numbers, f"{row.real(facts):.3f}", runs[name]["device"]]
        )
    return grid_markdown(rows)


def _bigram_rows(run: Json) -> list[list[str]]:
    """Laws that are known: the floor is what draws from the truth score."""
    rows = []
    for law, facts in run["facts"].items():
        hard = facts["factorised_pair_tv"]
        soft = run["cells"][f"{law}, soft"]["measurements"][0]["pair_tv"]
        numbers = [f"{each:.3f}" for each in (hard[0], hard[-1], soft[0], soft[-1])]
        measure = f"adjacent-pair TV, {facts['draws']:,} samples ↓"
        rows.append([law, measure, *numbers, f"{facts['pair_floor']:.3f}", run["device"]])
    return rows
