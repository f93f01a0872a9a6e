"""The tables that ``dmf evaluate`` prints, at most eighty characters wide."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

Json = dict[str, Any]
REAL = "held out"
STEPS = ("1 step", "4 steps", "16 steps")  # of conditional samples
MOST_CLASSES = 12  # that are printed
NAME_WIDTH = 30  # of a class


def scores_table(title: str, scores: Json) -> "Table":
    """One row for each number of steps, one column for each score."""
    table = _table(title)
    names = list(scores[REAL])
    for name in ("", *names):
        heading = name.replace("-", " ").replace(" ", "\n")
        table.add_column(heading, justify="right", overflow="fold")
    for row, values in scores.items():
        table.add_row(row, *(f"{values[name]:.3f}" for name in names))
    return table


def completions_table(title: str, fractions: Json) -> "Table":
    """For each score one row per fraction of observed positions, one column per number of steps.

    In parentheses: unconditional samples.
    """
    table = _table(title)
    table.add_column("")
    table.add_column("observed")
    for name in (REAL, *STEPS):
        table.add_column(name, justify="right")
    first = next(iter(fractions.values()))["scores"]
    for score in first[REAL]:
        for i, (name, fraction) in enumerate(fractions.items()):
            rows = fraction["scores"]
            cells = [_completion_cell(rows, step, score) for step in STEPS]
            table.add_row(score * (i == 0), name, _number(rows[REAL][score]), *cells)
    return table


def _completion_cell(rows: Json, step: str, score: str) -> str:
    unconditional = rows.get(f"unconditional, {step}", {}).get(score)
    beside = "" if unconditional is None else f" ({unconditional:.3f})"
    return _number(rows[step][score]) + beside


def class_table(scores: Json) -> "Table":
    """The mean over classes at each number of steps, then each class at one step.

    Of many classes only those with the lowest accuracy are shown.
    """
    from rich.text import Text

    table = _table()
    table.add_column("class", max_width=NAME_WIDTH, overflow="ellipsis", no_wrap=True)
    for name in (REAL, "no guidance", "guidance 2"):
        table.add_column(name, justify="right")
    real = scores[REAL]
    for step in STEPS:
        cells = [_mean_cell(scores[f"{step}, guidance {w}"]) for w in (1, 2)]
        table.add_row(f"mean, {step}", _number(real["accuracy"]), *cells)
    one, guided = (scores[f"1 step, guidance {w}"]["per class"] for w in (1, 2))
    for name in shown_classes(scores):
        accuracies = (real["per class"].get(name), one[name], guided[name])
        table.add_row(Text(name), *map(_number, accuracies))
    return table


def _mean_cell(score: Json) -> str:
    ratio = score["ratio to held out"]
    return f"{score['accuracy']:.3f}" + ("" if ratio is None else f" ({ratio:.2f})")


def shown_classes(scores: Json) -> list[str]:
    """All classes if they are few, else those with the lowest accuracy at one step."""
    accuracy = scores["1 step, guidance 1"]["per class"]
    if len(accuracy) <= MOST_CLASSES:
        return list(accuracy)
    return sorted(accuracy, key=lambda name: accuracy[name])[:MOST_CLASSES]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _table(title: str | None = None) -> "Table":
    from rich.table import Table
    from rich.text import Text

    # Narrow: eleven columns fit into eighty characters.
    heading = None if title is None else Text(title)
    return Table(title=heading, title_justify="left", box=None, padding=(0, 1, 0, 0))
