"""The table *paper / ours* of a run, for the terminal and for Markdown."""

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
    table.add_column("claim")
    table.add_column("paper", justify="right")
    table.add_column("ours", justify="right")
    table.add_column("holds", justify="center")
    for claim in results["claims"]:
        verdict = "[green]yes[/]" if claim["holds"] else "[red]no[/]"
        table.add_row(claim["text"], number(claim["paper"]), number(claim["ours"]), verdict)
    return table


def claims_markdown(results: Json) -> str:
    """The same as Markdown, with the command that made it."""
    lines = [
        f"**{results['title']}** ({results['where']})",
        "",
        "| claim | paper | ours | holds |",
        "|---|---|---|---|",
    ]
    for claim in results["claims"]:
        verdict = "yes" if claim["holds"] else "**no**"
        lines.append(
            f"| {claim['text']} | {number(claim['paper'])} | {number(claim['ours'])} | {verdict} |"
        )
    seeds = ", ".join(map(str, results["seeds"]))
    lines += [
        "",
        f"`{results['command']}`: {results['device']}, torch {results['versions']['torch']}, "
        f"seeds {seeds}, {results['date']}, {results['wall_seconds']:.0f} s.",
    ]
    return "\n".join(lines)
