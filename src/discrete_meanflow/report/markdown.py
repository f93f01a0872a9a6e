"""Markdown made from committed results, so that no number in the docs is typed by hand."""

import json
from pathlib import Path
from typing import Any

from discrete_meanflow.report.table import claims_markdown, number

Json = dict[str, Any]
BEGIN, END = "<!-- made from results/ by `make docs` -->", "<!-- end -->"
# The claims that the README shows, in its order; docs/results.md shows all.
HEADLINES = {
    "exact-recovery": ("single-sample/", "stratified/", "exact-expectation/", "diagonal/ring"),
    "boundary-ablation": ("lower/",),
    "time-pair-ablation": ("worst/", "tv/"),
    "time-sampler-ablation": ("tv/",),
    "simulable": ("matrix", "simulation"),
    "mean-rate": ("identity",),
}


def read_runs(results: Path) -> dict[str, Json]:
    return {
        path.parent.name: json.loads(path.read_text())
        for path in sorted(results.glob("*/results.json"))
    }


def headline_table(runs: dict[str, Json]) -> str:
    lines = ["| experiment | claim | paper | ours | holds |", "|---|---|---|---|---|"]
    for name, wanted in HEADLINES.items():
        for claim in runs[name]["claims"]:
            if claim["id"].startswith(wanted):
                holds = "yes" if claim["holds"] else "**no**"
                lines.append(
                    f"| {name} | {claim['text']} | {number(claim['paper'])} "
                    f"| {number(claim['ours'])} | {holds} |"
                )
    any_run = next(iter(runs.values()))
    wall = sum(run["wall_seconds"] for run in runs.values())
    lines += [
        "",
        f"`dmf reproduce paper --device cuda`: {any_run['device']}, torch "
        f"{any_run['versions']['torch']}, seeds {', '.join(map(str, any_run['seeds']))}, "
        f"{any_run['date']}; all experiments in {wall:.0f} s.",
    ]
    return "\n".join(lines)


def results_page(runs: dict[str, Json]) -> str:
    """docs/results.md: every claim of every run, and its figures."""
    sections = ["# Results", "", "Every number on this page is read from `results/`.", ""]
    for name, run in runs.items():
        sections += [f"## {name}", "", claims_markdown(run), ""]
        pictures = sorted((Path("results") / name).glob("*.png"))
        sections += [f"![{p.stem}](../results/{name}/{p.name})\n" for p in pictures]
    return "\n".join(sections)


def with_section(text: str, section: str) -> str:
    """Replace what stands between the two marks."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{section}\n{END}{tail}"


def main() -> None:
    runs = read_runs(Path("results"))
    readme = Path("README.md")
    readme.write_text(with_section(readme.read_text(), headline_table(runs)))
    Path("docs/results.md").write_text(results_page(runs))


if __name__ == "__main__":
    main()
