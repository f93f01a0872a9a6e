"""The quality and the privacy of the rows of a table: scores, and pictures of columns and pairs."""

from collections.abc import Iterator
from typing import Any

from discrete_meanflow.model import evaluation_grids as grids, quality_grids
from discrete_meanflow.report.bars import BarChart
from discrete_meanflow.report.blocks import (
    Bars,
    Block,
    Details,
    Facts,
    Json,
    MatrixPicture,
    Note,
    Table,
    shortened,
)
from discrete_meanflow.report.matrix import MOST, MatrixChart

MOST_PICTURES = 48  # columns that are drawn


def quality_blocks(quality: Json) -> Iterator[Block]:
    """Scores on the values of cells, each column and all pairs of columns."""
    row = quality_grids.fewest_steps(quality)
    yield Note(shortened(str(quality["verdict"][0])))
    caption = f"{quality['rows']:,} rows; utility is that of predicting {quality['target']}"
    yield Table(grids.scores_grid(quality["scores"]), shortened(caption))
    yield Details("What the scores mean", (Facts.of(quality_grids.QUALITY),))
    yield Note(f"Bars: {row} in colour, held-out rows in grey. Outer bars contain the tails.")
    columns = quality["columns"][:MOST_PICTURES]
    yield Bars(tuple(_bars(str(c["name"]), c["picture"], row, c["kind"]) for c in columns))
    caption = f"{quality_grids.COLUMNS_NOTE}; {row}"
    yield Details("All columns", (Table(quality_grids.columns_grid(quality), caption, names=2),))
    if len(columns) > 1:
        yield _matrix(quality, row)
        yield Table(quality_grids.pairs_grid(quality), "Pairs that differ most", names=2)


def privacy_blocks(quality: Json) -> Iterator[Block]:
    """Distances to training rows, and membership inference."""
    row = quality_grids.fewest_steps(quality)
    yield Note(shortened(str(quality["verdict"][1])))
    caption = f"{quality['rows']:,} rows, compared with {quality['training rows']:,} training rows"
    yield Table(grids.scores_grid(quality["privacy"]), caption)
    yield Details("What the privacy scores mean", (Facts.of(quality_grids.PRIVACY),))
    title = f"distance to the closest training row: {row} in colour, held-out rows in grey"
    yield Bars((_bars(title, quality["distances"], row),))


def _bars(title: str, picture: Json, row: str, kind: Any = "number") -> BarChart:
    frequencies = picture["frequencies"]
    held_out, samples = (frequencies[name] for name in (grids.REAL, row))
    return BarChart.of(shortened(title), picture["labels"], held_out, samples, kind == "levels")


def _matrix(quality: Json, row: str) -> MatrixPicture:
    distances = quality["pairs"]["distances"]
    values = zip(distances[row], distances[grids.REAL], strict=True)
    pairs = {
        (int(i), int(j)): (float(samples), float(real))
        for (i, j), (samples, real) in zip(quality["pairs"]["columns"], values, strict=True)
    }
    chart = MatrixChart.of([str(column["name"]) for column in quality["columns"]], pairs)
    first = f" of the first {MOST} columns" * (len(quality["columns"]) > MOST)
    caption = (
        f"Distances of pairs{first}: {row} below the diagonal, held-out rows above it; darkest: "
        f"{chart.darkest:.2f}"
    )
    return MatrixPicture(chart, caption)
