"""The table *paper / ours* of a run, for the terminal and for Markdown."""

import statistics
from collections.abc import Callable
from typing import Any

from rich.table import Table

Json = dict[str, Any]


def number(value: Any) -> str:
    """A value as people read it: three digits, or the words it is."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value == 0 or isinstance(value, int):
        return str(int(value))
    return f"{value:.2e}" if abs(value) < 1e-3 or abs(value) >= 1e5 else f"{value:.3g}"


def claims_table(results: Json) -> Table:
    table = Table(title=f"{results['experiment']}: {results['title']}", title_justify="left")
    if results["scale"] == "toy":
        table.caption = "toy scale: this shows that all runs; its numbers say nothing"
    table.add_column("claim")
    table.add_column("paper", justify="right")
    table.add_column("ours", justify="right")
    table.add_column("holds", justify="center")
    for claim in results["claims"]:
        verdict = "[green]yes[/]" if claim["holds"] else "[red]no[/]"
        table.add_row(claim["text"], number(claim["paper"]), number(claim["ours"]), verdict)
    return table


def grid(results: Json) -> list[list[str]]:
    """The paper's own table of an experiment, ours beside it; empty if it has none."""
    return GRIDS.get(results["experiment"], lambda results: [])(results)


def objective_grid(results: Json) -> list[list[str]]:
    """Table 1: a row per configuration, each TV as *paper / ours*."""
    objectives = ("KR", "PR", "KCE")
    head = ["data", *(f"TV of {o}: paper / ours" for o in objectives), "KR / PR: paper / ours"]
    rows = [[*head, "floor", "exact TV: KR, PR, KCE"]]
    for name, fact in results["facts"].items():
        paper = fact.get("paper", {})
        cells = [results["cells"][f"{name}, {o}"]["measurements"] for o in objectives]
        tv = [[m["tv"][0] for m in cell] for cell in cells]
        row = [name]
        for o, found in zip(objectives, tv, strict=True):
            row.append(f"{paper.get(o, '-')} / {statistics.fmean(found):.4f}")
        ratios = [a / b for a, b in zip(tv[0], tv[1], strict=True)]
        spread = f" ± {statistics.stdev(ratios):.1f}" if len(ratios) > 1 else ""
        row.append(f"{paper.get('KR / PR', '-')} / {statistics.fmean(ratios):.1f}{spread}")
        exact = [statistics.fmean(m["exact_tv"] for m in cell) for cell in cells]
        rows.append([*row, f"{fact['floor']:.4f}", ", ".join(f"{v:.4f}" for v in exact)])
    return rows


ESTIMATORS = {
    "KR": "single sample (paper)",
    "KR, 8 samples": "8 samples",
    "KR, Rao-Blackwell": "Rao-Blackwell",
    "KR, weighted": "weighted",
    "KR, KL form": "KL form",
    "PR": "PR",
    "PR, batch 256": "PR, batch 256",
    "KCE": "KCE",
}


def estimator_grid(results: Json) -> list[list[str]]:
    """Exact TV of one step, a row per configuration; then what the noise of each objective is."""
    facts = results["facts"]
    rows = [["", *ESTIMATORS.values(), "sampled TV of the KL form", "floor"]]

    def mean(name: str, objective: str, of: Callable[[Json], float]) -> float:
        return statistics.fmean(
            of(m) for m in results["cells"][f"{name}, {objective}"]["measurements"]
        )

    for name, fact in facts["configurations"].items():
        exact = [f"{mean(name, o, lambda m: m['exact_tv']):.4f}" for o in ESTIMATORS]
        sampled = mean(name, "KR, KL form", lambda m: m["tv"][0])
        rows.append([name, *exact, f"{sampled:.4f}", f"{fact['floor']:.4f}"])
    noise, target = facts["gradient_noise"], facts["target_variance"]
    for what, found in (
        ("variance of the gradient over its square, untrained, independent (4, 8)", noise),
        (
            f"variance of the target at (0, {target['t'][-1]}), independent (8, 16)",
            {name: values[-1] for name, values in target.items() if name != "t"},
        ),
    ):
        cells = [f"{found[o]:.3g}" if o in found else "-" for o in ESTIMATORS]
        rows.append([what, *cells, "-", "-"])
    return rows


GRIDS: dict[str, Callable[[Json], list[list[str]]]] = {
    "objective-comparison": objective_grid,
    "estimators": estimator_grid,
}


def grid_markdown(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def _facts_device(results: Json) -> str:
    """Where exact values were computed, if elsewhere than the training."""
    device = results.get("facts_device", results["device"])
    return "" if device == results["device"] else f" (exact values: {device})"


def escaped(text: str) -> str:
    """Text for a cell of a Markdown table, in which a bar would begin the next cell."""
    return text.replace("|", "\\|")


def claims_markdown(results: Json) -> str:
    """The same as Markdown, with the command that made it."""
    rows = grid(results)
    lines = [
        f"**{results['title']}** ({results['where']})",
        "",
        *([grid_markdown(rows), ""] if rows else []),
        "| claim | paper | ours | holds |",
        "|---|---|---|---|",
    ]
    for claim in results["claims"]:
        verdict = "yes" if claim["holds"] else "**no**"
        lines.append(
            f"| {escaped(claim['text'])} | {number(claim['paper'])} | {number(claim['ours'])} "
            f"| {verdict} |"
        )
    seeds = ", ".join(map(str, results["seeds"]))
    lines += [
        "",
        f"`{results['command']}`: {results['device']}, torch {results['versions']['torch']}, "
        f"seeds {seeds}, {results['date']}, {spent(results)}"
        f"{_facts_device(results)}.",
    ]
    return "\n".join(lines)


def spent(results: Json) -> str:
    """Seconds of training, all cells added up; of a run that trains nothing, those that it took.

    Cells run side by side, and may have been run apart.
    """
    training = results.get("training_seconds", 0)
    return f"{training:.0f} s of training" if training else f"{results['wall_seconds']:.0f} s"
