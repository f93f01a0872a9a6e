"""``dmf fill``: complete the rows of a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from discrete_meanflow.cli.options import OptionalPath, RunFolder
from discrete_meanflow.model.options import Device, SampleOptions, optional
from discrete_meanflow.run.progress import say


@dataclass(frozen=True)
class Fill:
    """Fill the empty cells of a table, each row given its other cells."""

    run: RunFolder
    """Run folder of a table."""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Table with holes: CSV, TSV or Parquet. Columns that it lacks are holes too."""
    draws: int = 1
    """Completed rows for each row, one after the other."""
    steps: Annotated[int | None, tyro.conf.arg(**optional("K"))] = None
    """Forward passes per row (default: 1, or what the method of the run needs)."""
    seed: Annotated[int | None, tyro.conf.arg(**optional("N"))] = None
    """Random seed; the same seed gives the same cells."""
    out: OptionalPath = None
    """Output file in the format of the training file; overwrites (default: print)."""
    device: Device = "auto"
    """Device to sample on."""

    def __call__(self) -> None:
        from discrete_meanflow.io.content import check_readable
        from discrete_meanflow.io.table.table_kind import Table
        from discrete_meanflow.model.fill import Holes, fill, table_codec
        from discrete_meanflow.model.one_step_model import OneStepModel

        check_readable(self.file)
        options = SampleOptions(self.draws, self.steps, self.seed)
        model = OneStepModel.load(self.run, self.device)
        codec = table_codec(model.config)
        names, rows = Table(header=codec.header).rows(self.file)[:2]
        holes = Holes.of(codec, names, rows)
        if holes.unknown:
            say(
                f"note: {holes.unknown:,} cells have values that the training data lacks; they are "
                "kept, and other cells do not depend on them"
            )
        filled = fill(model.folder, model.kernel, model.config, holes, options)
        with model.config.kind.writer(self.out, codec, len(filled)) as write:
            write(filled)
        if self.out is not None:
            say(f"{len(filled):,} rows: {self.out}")
