"""The tables of whole experiments: the paper's Table 1, the estimators, joint distributions."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dmf_reproduction.settings import BASELINES, BEST, ESTIMATORS, FACTORISED, FLOW_MAP

Json = dict[str, Any]
Grid = list[list[str]]


def objective_grid(results: Json) -> Grid:
    """Table 1: one row per configuration, each TV as *paper / ours*."""
    objectives = ("KR", "PR", "KCE")
    table: Grid = [
        [
            "data",
            *(f"TV of {o}: paper / ours" for o in objectives),
            "KR / PR: paper / ours",
            "floor",
            "exact TV: KR, PR, KCE",
        ]
    ]
    for name, fact in results["facts"].items():
        paper = fact.get("paper", {})
        cells = [results["cells"][f"{name}, {o}"]["measurements"] for o in objectives]
        tv = [[m["tv"][0] for m in cell] for cell in cells]
        ratios = [a / b for a, b in zip(tv[0], tv[1], strict=True)]
        spread = f" ± {statistics.stdev(ratios):.1f}" if len(ratios) > 1 else ""
        exact = [statistics.fmean(m["exact_tv"] for m in cell) for cell in cells]
        table.append(
            [
                name,
                *(
                    f"{paper.get(o, '-')} / {statistics.fmean(values):.4f}"
                    for o, values in zip(objectives, tv, strict=True)
                ),
                f"{paper.get('KR / PR', '-')} / {statistics.fmean(ratios):.1f}{spread}",
                f"{fact['floor']:.4f}",
                ", ".join(f"{v:.4f}" for v in exact),
            ]
        )
    return table


def estimator_grid(results: Json) -> Grid:
    """Exact one-step TV, one row per configuration; then the noise of each objective."""
    facts, objectives = results["facts"], (*ESTIMATORS, *BASELINES)

    def mean(name: str, objective: str, of: Callable[[Json], float]) -> str:
        cell = results["cells"][f"{name}, {objective}"]
        return f"{statistics.fmean(of(m) for m in cell['measurements']):.4f}"

    titles = ["single sample (paper)", *(o.removeprefix("KR, ") for o in objectives[1:])]
    table: Grid = [["", *titles, "TV of samples, KL form", "floor"]]
    for name, fact in facts["configurations"].items():
        exact = [mean(name, o, lambda m: m["exact_tv"]) for o in objectives]
        sampled = mean(name, BEST, lambda m: m["tv"][0])
        table.append([name, *exact, sampled, f"{fact['floor']:.4f}"])
    target = dict(facts["target_variance"])
    last = target.pop("t")[-1]
    for title, values in (
        ("gradient: variance / mean², untrained, independent (4, 8)", facts["gradient_noise"]),
        (
            f"target: variance at (r, t) = (0, {last}), independent (8, 16)",
            {name: variances[-1] for name, variances in target.items()},
        ),
    ):
        cells = [f"{values[o]:.3g}" if o in values else "-" for o in objectives]
        table.append([title, *cells, "-", "-"])
    return table


@dataclass(frozen=True)
class JointRow:
    """A row of the table of joint distributions."""

    data: str
    measure: str
    key: str  # of the scores
    real: Callable[[Json], float]  # facts -> the score of real data


def _held_out(key: str) -> Callable[[Json], float]:
    return lambda facts: facts["held out"][key]


JOINT_ROWS = {
    "joint-digits": JointRow(
        "digits, 8 x 8", "confidently classified ↑", "confident", _held_out("confident")
    ),
    "joint-nltcs": JointRow(
        "nltcs, 16 binary answers",
        "joint TV to test rows ↓",
        "tv_test_as_many",
        lambda facts: facts["train to test"],
    ),
    "joint-rna": JointRow(
        "RF00059, aligned RNA",
        "pair-covariance correlation ↑",
        "correlation",
        lambda facts: facts["train to held out"],
    ),
    "joint-names": JointRow("names", "letter-pair TV ↓", "pair_tv", lambda facts: facts["floor"]),
    "joint-molecules": JointRow("QM9, SMILES", "valid (RDKit) ↑", "valid", _held_out("valid")),
    "joint-sudoku": JointRow("sudoku grids", "valid ↑", "valid", _held_out("valid")),
}
JOINT_HEAD = [
    *("data", "measure", "factorised, 1 step", "factorised, 64 steps"),
    *("ours, 1 step", "ours, 64 steps", "real data", "device"),
]


def joint_grid(runs: dict[str, Json]) -> Grid:
    """One row for each data set: factorised kernel, flow map, real data."""
    table = [JOINT_HEAD, *(_bigram_rows(runs["joint"]) if "joint" in runs else [])]
    for name, row in JOINT_ROWS.items():
        if name not in runs:
            continue
        facts = runs[name]["facts"]
        scores = [facts["scores"][kind][k] for kind in (FACTORISED, FLOW_MAP) for k in ("1", "64")]
        values = [*(score[row.key] for score in scores), row.real(facts)]
        table.append([row.data, row.measure, *(f"{v:.3f}" for v in values), runs[name]["device"]])
    return table


def _bigram_rows(run: Json) -> Grid:
    """Synthetic data: the floor is the score of draws from the distribution itself."""
    table = []
    for name, facts in run["facts"].items():
        factorised = facts["factorised_pair_tv"]
        ours = run["cells"][f"{name}, {FLOW_MAP}"]["measurements"][0]["pair_tv"]
        values = [factorised[0], factorised[-1], ours[0], ours[-1], facts["pair_floor"]]
        numbers = [f"{v:.3f}" for v in values]
        table.append([name, "adjacent-pair TV ↓", *numbers, run["device"]])
    return table
