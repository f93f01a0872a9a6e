"""The claims of a run as rows, for the terminal and for Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from discrete_meanflow.model.grid import number

Json = dict[str, Any]
HEAD = ("claim", "paper", "ours", "holds")


@dataclass(frozen=True)
class Row:
    """A claim as text."""

    text: str
    paper: str
    ours: str
    holds: bool


def rows(results: Json) -> list[Row]:
    """The claims of a run, ready to print."""
    return [
        Row(claim["text"], number(claim["paper"]), number(claim["ours"]), claim["holds"])
        for claim in results["claims"]
    ]


def claims_table(results: Json) -> Table:
    """The claims for the terminal."""
    table = Table(title=f"{results['experiment']}: {results['title']}", title_justify="left")
    if results["scale"] == "toy":
        table.caption = "toy scale: checks that everything runs; its numbers are not meaningful"
    table.add_column("claim")
    table.add_column("paper", justify="right")
    table.add_column("ours", justify="right")
    table.add_column("holds", justify="center")
    for row in rows(results):
        verdict = "[green]yes[/]" if row.holds else "[red]no[/]"
        table.add_row(row.text, row.paper, row.ours, verdict)
    return table


def claims_markdown(results: Json) -> str:
    """The claims as Markdown."""
    body = [
        (row.text, row.paper, row.ours, "yes" if row.holds else "**no**") for row in rows(results)
    ]
    return grid_markdown([HEAD, *body])


def grid_markdown(grid: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(map(escaped, row))} |" for row in grid]
    return "\n".join([lines[0], "|---" * len(grid[0]) + "|", *lines[1:]])


def escaped(text: str) -> str:
    """Text for a cell of a Markdown table, in which a bar would start the next cell."""
    return text.replace("|", "\\|")


def origin(results: Json) -> str:
    """Where and when a run was made, and how long it took.

    Cells train side by side, possibly on several machines: their seconds are added up.
    """
    training, facts_device = results["training_seconds"], results["facts_device"]
    seconds = f"{training:.0f} s of training" if training else f"{results['wall_seconds']:.0f} s"
    elsewhere = facts_device not in (None, results["device"])
    return (
        f"{results['device']}, torch {results['versions']['torch']}, "
        f"seeds {', '.join(map(str, results['seeds']))}, {results['date']}, {seconds}"
        + (f" (exact values: {facts_device})" if elsewhere else "")
    )
