"""``dmf compare``: several methods on one file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from discrete_meanflow.cli.options import OptionalPath, embedded
from discrete_meanflow.errors import DataError, InputError, Interrupted
from discrete_meanflow.model.options import CompareOptions, Device, ReadOptions
from discrete_meanflow.run.progress import print_line

LEGEND_OF_COLUMNS = (
    "bits: per symbol, exact or an upper bound (comparison.json says which); ms: milliseconds per "
    "record at the fewest steps"
)

if TYPE_CHECKING:
    from rich.console import Console

    from discrete_meanflow.model.compare import Comparison


@dataclass(frozen=True)
class Compare:
    """Train several methods for equal times on a file and compare their samples.

    A comparison that was interrupted resumes with the same command.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Text, SMILES, FASTA, CSV / TSV / Parquet or .npy / .npz file; may be gzipped."""
    out: OptionalPath = None
    """Folder of the runs, the table and the figure (default: comparisons/NAME)."""
    reading: Annotated[ReadOptions, embedded(ReadOptions)] = field(default_factory=ReadOptions)
    options: Annotated[CompareOptions, embedded(CompareOptions)] = field(
        default_factory=CompareOptions
    )
    device: Device = "auto"
    """Device to train and sample on."""

    def __call__(self) -> None:
        from rich.console import Console

        from discrete_meanflow.device import find_device
        from discrete_meanflow.metric.forest import check_scikit_learn
        from discrete_meanflow.model.compare import Comparison
        from discrete_meanflow.model.read import file_context, read_dataset
        from discrete_meanflow.run.progress import progress_printer

        check_scikit_learn()  # samples that cannot be scored would be lost
        console = Console()
        kind, dataset = read_dataset(self.file, self.reading)
        device = find_device(self.device)
        comparison = Comparison(self._folder, kind, dataset, self.options, device)
        count = len(self.options.methods)
        time = "" if self.options.iterations else f", {self.options.minutes:g} minutes each"
        print_line(console, f"{self.file}: {kind.name}; {count} methods{time}")
        try:
            with file_context(self.file, self.reading, DataError), progress_printer(console) as bar:
                result = comparison.run(bar, lambda name: print_line(console, name))
        except (Interrupted, KeyboardInterrupt) as stop:
            raise type(stop)("the same dmf compare command") from None
        self._show(result, comparison, console)

    @property
    def _folder(self) -> Path:
        name = Path(self.file.name.removesuffix(".gz")).stem.strip(".") or "data"
        return self.out or Path("comparisons") / name

    def _show(self, result: dict[str, Any], comparison: "Comparison", console: "Console") -> None:
        """Print the table and write the figure."""
        from discrete_meanflow.cli.evaluation_tables import comparison_table
        from discrete_meanflow.model.compare_figure import draw_comparison
        from discrete_meanflow.model.comparison_grid import shown_scores
        from discrete_meanflow.model.evaluate import LEGEND

        for score in shown_scores(result):
            console.print(comparison_table(f"{score} at each number of steps", result, score))
            print_line(console, f"{score}: {LEGEND[score]}")
        print_line(console, LEGEND_OF_COLUMNS)
        written = f"{comparison.folder}/comparison.json"
        try:
            draw_comparison(result, comparison.folder / "comparison.png")
            written += ", comparison.png"
        except InputError as error:
            print_line(console, str(error))
        print_line(console, f"written: {written}; dmf sample {comparison.folder}/METHOD draws more")
