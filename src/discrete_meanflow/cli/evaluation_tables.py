"""The tables that ``dmf evaluate`` prints, at most eighty characters wide."""

from typing import TYPE_CHECKING, Any

from discrete_meanflow.model.comparison_grid import comparison_grid
from discrete_meanflow.model.evaluation_grids import class_grid, completions_grid, scores_grid
from discrete_meanflow.model.grid import Grid
from discrete_meanflow.model.quality_grids import MOST_COLUMNS, columns_grid
from discrete_meanflow.printable import printable

if TYPE_CHECKING:
    from rich.table import Table

Json = dict[str, Any]
NAME_WIDTH = 30  # of a class or a column


def scores_table(title: str, scores: Json) -> "Table":
    """One row for each number of steps, one column for each score."""
    grid, table = scores_grid(scores), _table(title)
    for name in grid.head:
        heading = name.replace("-", " ").replace(" ", "\n")
        table.add_column(heading, justify="right", overflow="fold")
    return _filled(table, grid)


def completions_table(title: str, fractions: Json) -> "Table":
    """For each score one row per fraction of observed positions, one column per number of steps."""
    grid, table = completions_grid(fractions), _table(title)
    for i, name in enumerate(grid.head):
        table.add_column(name, justify="left" if i < 2 else "right")
    return _filled(table, grid)


def class_table(scores: Json) -> "Table":
    """The mean over classes at each number of steps, then each class at one step."""
    grid, table = class_grid(scores), _table()
    first, *others = grid.head
    table.add_column(first, max_width=NAME_WIDTH, overflow="ellipsis", no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return _filled(table, grid)


def columns_table(title: str, quality: Json) -> "Table":
    """One row for each column of a table, those that differ most first."""
    grid, table = columns_grid(quality), _table(title)
    table.add_column(grid.head[0], max_width=NAME_WIDTH, overflow="ellipsis", no_wrap=True)
    table.add_column(grid.head[1])
    for name in grid.head[2:]:
        table.add_column(name.replace(" ", "\n"), justify="right")
    return _filled(table, Grid(grid.head, grid.rows[:MOST_COLUMNS]))


def comparison_table(title: str, comparison: Json, score: str) -> "Table":
    """One row for each method, one column for each number of steps."""
    grid, table = comparison_grid(comparison, score), _table(title)
    for i, name in enumerate(grid.head):
        table.add_column(name, justify="right" if i else "left")
    return _filled(table, grid)


def _table(title: str | None = None) -> "Table":
    from rich.table import Table
    from rich.text import Text

    # Narrow: eleven columns fit into eighty characters.
    heading = None if title is None else Text(printable(title))
    return Table(title=heading, title_justify="left", box=None, padding=(0, 1, 0, 0))


def _filled(table: "Table", grid: "Grid") -> "Table":
    """The table with the rows of a grid, as text without markup."""
    from rich.text import Text

    for row in grid.rows:
        table.add_row(*(Text(printable(cell.text)) for cell in row))
    return table
