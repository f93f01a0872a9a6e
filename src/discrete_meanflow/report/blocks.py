"""What a page consists of: sections of blocks, each of which has a template."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from discrete_meanflow.errors import InputError
from discrete_meanflow.model.grid import Cell, Grid, number
from discrete_meanflow.report.bars import BarChart
from discrete_meanflow.report.chart import Chart
from discrete_meanflow.report.matrix import MatrixChart

Json = dict[str, Any]
MOST_ROWS = 500  # of a table
MOST_CHARACTERS = 600  # of a text in a cell
# What records with missing keys or values of other types raise. InputError is a ValueError.
DAMAGED = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, StopIteration,
    RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A part of a section."""

    template: ClassVar[str]


@dataclass(frozen=True)
class Note(Block):
    """A paragraph."""

    template: ClassVar[str] = "note.html"
    text: str
    warning: bool = False


@dataclass(frozen=True)
class Command(Block):
    """The command that makes what stands beside it."""

    template: ClassVar[str] = "command.html"
    command: str
    purpose: str = ""


@dataclass(frozen=True)
class Facts(Block):
    """Names and values."""

    template: ClassVar[str] = "facts.html"
    rows: tuple[tuple[str, Cell], ...]

    @classmethod
    def of(cls, values: Json) -> "Facts":
        """The values of a record at every depth, without those that are missing."""
        rows = tuple(flattened(values))
        more = len(rows) - MOST_ROWS
        rest = ((f"and {more:,} more", Cell("")),) if more > 0 else ()
        return cls(rows[:MOST_ROWS] + rest)


@dataclass(frozen=True)
class Table(Block):
    """A table with a caption. The first ``names`` columns are text, the others numbers."""

    template: ClassVar[str] = "table.html"
    grid: Grid
    caption: str = ""
    names: int = 1

    @property
    def rows(self) -> Sequence[Sequence[Cell]]:
        return self.grid.rows[:MOST_ROWS]

    @property
    def omitted(self) -> int:
        """The number of rows that are not shown."""
        return len(self.grid.rows) - len(self.rows)


@dataclass(frozen=True)
class Charts(Block):
    """Charts side by side. Series of the same name share a colour and one entry of the legend."""

    template: ClassVar[str] = "charts.html"
    charts: tuple[Chart, ...]

    @property
    def legend(self) -> dict[str, int]:
        """The colour of each series by name, if there are several."""
        names = {series.name: series.color for chart in self.charts for series in chart.series}
        return names if len(names) > 1 else {}

    @property
    def has_levels(self) -> bool:
        return any(chart.levels for chart in self.charts)


@dataclass(frozen=True)
class Bars(Block):
    """Bar charts side by side."""

    template: ClassVar[str] = "bars.html"
    charts: tuple[BarChart, ...]


@dataclass(frozen=True)
class MatrixPicture(Block):
    """A matrix with a caption."""

    template: ClassVar[str] = "matrix.html"
    chart: MatrixChart
    caption: str


@dataclass(frozen=True)
class Picture(Block):
    """An image as a data URI."""

    template: ClassVar[str] = "picture.html"
    name: str
    uri: str


@dataclass(frozen=True)
class Details(Block):
    """Blocks that are closed at first."""

    template: ClassVar[str] = "details.html"
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    title: str
    blocks: tuple[Block, ...]

    @classmethod
    def guarded(cls, title: str, build: Callable[[], Iterable[Block]]) -> "Section":
        """A section; if its records are damaged, it says so."""
        return cls(title, tuple(guarded(build)))


def guarded(build: Callable[[], Iterable[Block]]) -> Iterator[Block]:
    """The blocks until a record turns out to be damaged, then a note."""
    try:
        yield from build()
    except InputError as error:
        yield Note(shortened(str(error)), warning=True)
    except DAMAGED as error:
        reason = shortened(f"{type(error).__name__}: {error}", 120)
        yield Note(f"The record is damaged here, so this part is missing ({reason}).", warning=True)


def flattened(values: Any, name: str = "") -> Iterator[tuple[str, Cell]]:
    """The values of a record at every depth by name; a list of values is one value."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from flattened(value, f"{name}: {key}" if name else str(key))
    elif values is not None:
        yield name, listed(values) if isinstance(values, list) else text_cell(values)


def listed(values: list[Any]) -> Cell:
    """A list on one line, cut if it is long."""
    return Cell(shortened(", ".join(number(value) for value in values[:MOST_ROWS])))


def text_cell(value: Any) -> Cell:
    """A value of any type, cut if it is long."""
    cell = Cell.of(value)
    return Cell(shortened(cell.text), cell.exact)


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Text on one line, cut if it is long."""
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most else line[: most - 3] + "..."


def file_name(path: Path) -> str:
    """The name of a folder as commands take it."""
    import shlex

    return shlex.quote(str(path))
