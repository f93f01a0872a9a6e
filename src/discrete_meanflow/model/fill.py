"""Fill the holes of a table: generate the empty cells of each row given its other cells."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.cells import MISSING
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.model.conditions import Conditions
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.run_folder import Config
from discrete_meanflow.model.samples import Samples, read_requirements
from discrete_meanflow.model.sampling import sampler_of
from discrete_meanflow.types import State


@dataclass(frozen=True)
class Holes:
    """Rows of a table with holes, as conditions.

    Args:
        codec: of the table.
        rows: in the columns of the codec; a hole is a missing cell.
        tokens: of the known cells, ``(rows, D)``.
        observed: bool of the same shape; False in holes and in cells that the training data lacks.
    """

    codec: TableCodec
    rows: list[list[str]]
    tokens: State
    observed: Tensor

    @classmethod
    def of(cls, codec: TableCodec, names: Sequence[str], rows: Sequence[Sequence[str]]) -> "Holes":
        """The holes of rows whose columns are ``names``; columns that are left out are holes."""
        for name in names:
            if name not in codec.names:
                raise InputError(
                    f"fill: no column '{name}' in the run; its columns are {', '.join(codec.names)}"
                )
        place = {name: i for i, name in enumerate(names)}
        ordered = [
            [row[place[name]] if name in place else MISSING for name in codec.names] for row in rows
        ]
        if not ordered:
            raise InputError("fill: the table has no rows")
        tokens = torch.zeros(len(ordered), codec.length, dtype=torch.long)
        observed = torch.zeros(len(ordered), codec.length, dtype=torch.bool)
        columns = zip(codec.columns, zip(*ordered, strict=True), strict=True)
        for number, (column, cells) in enumerate(columns):
            known = _known(column, set(cells))
            rows_known = [i for i, cell in enumerate(cells) if cell in known]
            if not rows_known:
                continue
            where = codec.positions[column.name]
            paths = column.encode([known[cells[i]] for i in rows_known])
            tokens[rows_known, where] = torch.from_numpy(paths)
            observed[rows_known, where] = True
            for i in rows_known:
                ordered[i][number] = known[cells[i]]
        return cls(codec, ordered, tokens, observed)

    @property
    def unknown(self) -> int:
        """Number of cells with values that the training data lacks: kept, but no condition."""
        first = self.observed[:, self.codec.main_positions]
        present = sum(cell != MISSING for row in self.rows for cell in row)
        return present - int(first.sum())

    def conditions(self, draws: int) -> Conditions:
        """The known cells of each row as conditions of ``draws`` records."""
        known = [{i: cell for i, cell in enumerate(row) if cell != MISSING} for row in self.rows]
        return Conditions(self.tokens, self.observed, draws, tuple(known), source="fill, row")


def _known(column: Column, cells: set[str]) -> dict[str, str]:
    """The cells that are no holes and that the training data has, as the column writes them."""
    known = {}
    for cell in cells - {MISSING}:
        with suppress(InputError):
            known[cell] = column.written(cell)
    return known


def fill(
    folder: Path, kernel: Kernel, config: Config, holes: Holes, options: SampleOptions
) -> list[list[str]]:
    """Rows without holes, ``options.n`` draws for each row, one after the other.

    They satisfy the constraints of the run on single rows.
    """
    single = replace(read_requirements(folder, config.codec), unique=())
    conditions = replace(holes.conditions(options.n), requirements=single)
    noise = config.plan.process(config.codec).states - config.codec.vocabulary
    allowed = functional.pad(holes.codec.allowed, (0, noise))
    for column in holes.codec.columns:
        if (token := column.missing_token) is not None:
            allowed[holes.codec.positions[column.name].start, token] = False
    sampler = sampler_of(kernel, config, options, allowed)
    rows: list[list[str]] = Samples(kernel, config, options, conditions, sampler).all()[0]
    return rows


def table_codec(config: Config) -> TableCodec:
    """The codec of a run on a table."""
    codec = config.codec
    if not isinstance(codec, TableCodec):
        raise InputError(
            f"fill is for tables, and this run is {config.kind.name}; dmf sample --infill "
            "completes other records"
        )
    return codec
