"""Generate the docs from committed results: ``python -m dmf_reproduction.report.markdown``.

No number in README.md, docs/results.md, docs/benchmarks.md or the table of
docs/theory/distribution-matching.md is typed by hand.
"""

import json
from pathlib import Path
from typing import Any

from discrete_meanflow.files import write_atomically
from dmf_reproduction.figures.draw import draw, png
from dmf_reproduction.figures.matching import quality
from dmf_reproduction.report.compare import compare_section
from dmf_reproduction.report.conditional import small_laws_section
from dmf_reproduction.report.grids import JOINT_HEAD, estimator_grid, joint_grid, objective_grid
from dmf_reproduction.report.matching import (
    FIGURE,
    arms_section,
    read_matching,
    stages_section,
)
from dmf_reproduction.report.own_data import OwnRun, own_data_section
from dmf_reproduction.report.speed import speed_section
from dmf_reproduction.report.table import claims_markdown, grid_markdown, origin
from dmf_reproduction.report.tables import fill_section, peers_section

Json = dict[str, Any]
GENERATED = "<!-- made from results/ by make docs: do not edit -->"
QUALITY_COLUMNS = [i for i, name in enumerate(JOINT_HEAD) if name != "factorised, 64 steps"]


def read_runs(results: Path) -> dict[str, Json]:
    """The committed runs by name, those of the paper first."""
    runs = {
        path.parent.name: json.loads(path.read_text())
        for path in sorted(results.glob("*/results.json"))
    }
    return dict(sorted(runs.items(), key=lambda item: not item[1]["of_the_paper"]))


# -- README -----------------------------------------------------------------------------


def readme_text(text: str, results: Path) -> str:
    """The README with its generated sections renewed."""
    runs = read_runs(results)
    text = with_section(text, "quality", quality_table(runs, results))
    return with_section(text, "claims", claims_line(runs))


def with_section(text: str, name: str, section: str) -> str:
    """Replace the text between the two markers of a section."""
    begin, end = f"<!-- {name}: made from results/ by make docs -->", f"<!-- end of {name} -->"
    head, begun, rest = text.partition(begin)
    _, ended, tail = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"the text has no section '{name}': it needs {begin} and {end}")
    return f"{head}{begin}\n{section}\n{end}{tail}"


def quality_table(runs: dict[str, Json], results: Path) -> str:
    """The largest bigram, real data, and a table of a user: at most 8 rows."""
    head, *body = joint_grid(runs)
    body = [row for row in body if row[0] != "bigram (8, 16)"]
    mushroom = OwnRun.read(results / "own-mushroom")
    last, score = list(mushroom.scores.items())[-1]
    values = [scores["pair TV"] for scores in (mushroom.scores["1"], score, mushroom.held_out)]
    one, many, real = (f"{v:.3f}" for v in values)
    body.append(
        [
            *("mushroom, table of 23 columns", "column-pair TV ↓", "-", "-"),
            *(one, f"{many} ({last} steps)", real, mushroom.machine),
        ]
    )
    return grid_markdown([[row[i] for i in QUALITY_COLUMNS] for row in [head, *body]])


def claims_line(runs: dict[str, Json]) -> str:
    """How many claims hold: in the paper's experiments and in our own."""
    paper, ours = (
        [run for run in runs.values() if run["of_the_paper"] is flag] for flag in (True, False)
    )
    return (
        f"`dmf reproduce paper`: {_holding(paper)} claims hold in the experiments of the paper. "
        f"Our own experiments: {_holding(ours)} claims hold."
    )


def _holding(runs: list[Json]) -> str:
    claims = [claim for run in runs for claim in run["claims"]]
    return f"{sum(claim['holds'] for claim in claims)} of {len(claims)}"


# -- docs/results.md --------------------------------------------------------------------


def results_page(results: Path) -> str:
    """Every claim of every run, its figures, and the tables of whole experiments."""
    runs = read_runs(results)
    return "\n".join(
        [
            "# Results",
            GENERATED,
            "",
            "Every number on this page comes from the records in `results/`. A claim holds if our",
            "measurement meets the condition stated in its text. Experiments beyond the paper have",
            "no value in the column *paper*.",
            "",
            "## Overview",
            "",
            _overview(runs),
            "",
            claims_line(runs) + " " + _paper_origin(runs),
            "",
            "## Table 1 of the paper: objectives",
            "",
            "Each TV is *paper / ours*. The floor is the TV of as many draws from the data itself.",
            "",
            grid_markdown(objective_grid(runs["objective-comparison"])),
            "",
            "## Estimators of the kernel residual",
            "",
            "Exact one-step TV of each estimator, and the noise of its gradient and of its target.",
            "",
            grid_markdown(estimator_grid(runs["estimators"])),
            "",
            "## Joint distributions",
            "",
            "*Factorised* is a kernel on masks, *ours* is the flow map. *Real data* is the score",
            "of real records, which a perfect generator would reach.",
            "",
            grid_markdown(joint_grid(runs)),
            "",
            "## Experiments",
            "",
            *(_experiment(name, run, results) for name, run in runs.items()),
        ]
    )


def _overview(runs: dict[str, Json]) -> str:
    body = [
        [f"[{name}](#{name})", run["title"], run["where"], _holding([run])]
        for name, run in runs.items()
    ]
    return grid_markdown([["experiment", "topic", "in the paper", "claims that hold"], *body])


def _paper_origin(runs: dict[str, Json]) -> str:
    paper = [run for run in runs.values() if run["of_the_paper"]]
    devices = {f"{run['device']} (torch {run['versions']['torch']})" for run in paper}
    wall = sum(run["wall_seconds"] for run in paper)
    return f"The experiments of the paper took {wall:.0f} s on {', '.join(sorted(devices))}."


def _experiment(name: str, run: Json, results: Path) -> str:
    figures = sorted(path for path in (results / name).glob("*.png"))
    lines = [
        f"### {name}",
        "",
        f"{run['title']} ({run['where']}).",
        "",
        claims_markdown(run),
        "",
        f"`{run['command']}`: {origin(run)}.",
        "",
        *(f"![{name}: {path.stem}](../results/{name}/{path.name})\n" for path in figures),
    ]
    return "\n".join(lines)


# -- docs/benchmarks.md -----------------------------------------------------------------


def benchmarks_page(results: Path) -> str:
    """Quality on users' files, and speed."""
    return "\n".join(
        [
            "# Benchmarks",
            GENERATED,
            "",
            "Every number on this page comes from the records in `results/`.",
            "",
            "## Quality on your own data",
            "",
            "Each run is one `dmf train` on a file. *Held-out data* is the score of real records",
            "that were not used for training, which a perfect generator would reach. A C2ST AUC of",
            "0.5 means that a classifier cannot distinguish samples from real records; *nearest*",
            "is the mean Hamming distance to the nearest training record as a fraction of the",
            "positions; *bits* are bits per symbol under a reference LM.",
            "",
            own_data_section(results),
            "## Conditional samples of small laws",
            "",
            "Laws that can be enumerated: two equal columns of four values, XOR of three bits,",
            "uniform on 16 of 64 strings, a skewed law on 3 x 3 x 3 cells, the bigram (4, 8).",
            "Samples are compared with the joint law and with 20 exact conditionals, 20,000 draws",
            "each. All numbers are total variation minus its sampling floor.",
            "",
            small_laws_section(results / "bench"),
            "## Tables against other systems",
            "",
            "Each system trains on four fifths of the rows for equal minutes and generates rows,",
            "which are compared with held-out rows by the values of their cells. *Ours* takes one",
            "step. [Tables](how-to/tables.md#quality-and-privacy) explains the scores. A perfect",
            "generator would reach those of the last row of a table, other held-out rows.",
            "",
            peers_section(results / "bench"),
            "## Holes of tables, filled",
            "",
            "One fifth of the cells of held-out rows are holes. *Ours* is the mean, or the most",
            "frequent level, of 20 draws; errors are in standard deviations of a column, averaged",
            "over columns; *coverage* is that of the draws' 90 % interval.",
            "",
            fill_section(results / "bench"),
            *filter(None, [arms_section(results / "bench")]),
            "## Speed and memory",
            "",
            "Each comparison is measured in one run on one machine. *Peak* is the bfloat16 peak of",
            "the data sheet; sizes are numbers of parameters.",
            "",
            speed_section(results / "bench"),
        ]
    )


def pages(root: Path) -> dict[Path, str]:
    """The generated files of a checkout and their text."""
    results, readme = root / "results", root / "README.md"
    matching, choosing = root / "docs/theory/distribution-matching.md", root / "docs/choosing.md"
    stages = stages_section(results / "bench")
    return {
        readme: readme_text(readme.read_text(), results),
        matching: with_section(matching.read_text(), "stages", stages),
        choosing: with_section(
            choosing.read_text(), "compare", compare_section(read_runs(results))
        ),
        root / "docs/results.md": results_page(results),
        root / "docs/benchmarks.md": benchmarks_page(results),
    }


def main() -> None:
    root = Path()
    for name, run in read_runs(root / "results").items():
        draw(run, root / "results" / name)
    if records := read_matching(root / "results/bench"):
        path = root / f"results/bench/{FIGURE}.png"
        write_atomically(path, png(quality(records)))
    for path, text in pages(root).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
