"""The commands that reproduce the paper. Torch is imported when a command runs."""

import contextlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from discrete_meanflow.errors import InputError
from dmf_reproduction import SEEDS


@dataclass(frozen=True)
class List:
    """List the experiments and the claims that each one checks."""

    def __call__(self) -> None:
        from rich.console import Console
        from rich.padding import Padding

        from dmf_reproduction.catalog import ALL, EXPERIMENTS, PAPER

        console = Console()
        for name, experiment in EXPERIMENTS.items():
            console.print(f"[bold]{name}[/]  {experiment.title}  [dim]({experiment.where})[/]")
            for summary in experiment.claims_summary:
                console.print(Padding(f"- {summary}", (0, 0, 0, 4)), highlight=False)
        console.print(f"[bold]{ALL}[/]  {', '.join(PAPER)}")


@dataclass(frozen=True)
class Reproduce:
    """Run experiments and compare the results with the paper. An interrupted run resumes."""

    names: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="NAME...", help_behavior_hint=""),
    ]
    """Experiments, as `dmf list` shows them; `paper` stands for all experiments of the paper."""
    seeds: tuple[int, ...] = SEEDS
    """Random seeds. All seeds of a cell train together."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Training device. auto: a CUDA device if there is one."""
    scale: Literal["paper", "toy"] = "paper"
    """paper: the paper's iterations. toy: seconds of work, to check that everything runs."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Run folder; runs/NAME by default. With several names, each gets a folder inside it."""
    jobs: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Number of cells to train in parallel; by default one per core, or 4 on a GPU."""
    only: Annotated[str, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")] = ""
    """Train only the cells whose name contains this text. To merge partial runs, copy their
    parts/ and samples/ into one folder and run without this option."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Folder of the data files, for experiments on real data."""

    def __call__(self) -> None:
        from dmf_reproduction import catalog
        from dmf_reproduction.engine.spec import run_folder

        names = catalog.expand(list(self.names))
        names = catalog.with_cell(names, self.only, self.scale, self.data)
        several = len(names) > 1
        runs = [_reproduce(name, run_folder(self.out, name, several), self) for name in names]
        folders = [run_folder(self.out, name, several) for name in names]
        finished = [folder for folder, results in zip(folders, runs, strict=True) if results]
        if len(finished) > 1:
            _write_page((self.out or Path("runs")) / "report.html", finished)


@dataclass(frozen=True)
class Demo:
    """Train the 3-state ring and one-step digits on the CPU and write a page of figures.

    Takes about nine minutes on two cores.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("demo")
    """Folder of the page, the figures and the records."""
    scale: Literal["paper", "toy"] = "paper"
    """paper: the full demo. toy: seconds of work, to check that everything runs."""

    def __call__(self) -> None:
        options = Reproduce(names=("demo",), seeds=SEEDS[:1], device="cpu", scale=self.scale)
        folders = {"demo": self.out, "joint-digits": self.out / "digits"}
        # A finished demo starts again, an interrupted one resumes. Other files stay.
        if all((folder / "results.json").exists() for folder in folders.values()):
            for name, folder in folders.items():
                _remove_run(name, folder)
        for name, folder in folders.items():
            _reproduce(name, folder, options)
        _write_page(
            self.out / "index.html",
            list(folders.values()),
            "Discrete MeanFlow: a chain of three states, and digits in one step",
        )


@dataclass(frozen=True)
class Draw:
    """Redraw the figures of finished runs and write one page of all of them."""

    folders: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="DIR...", help_behavior_hint=""),
    ]
    """Folders that contain a results.json."""
    page: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("report.html")
    """The page to write."""

    def __call__(self) -> None:
        from dmf_reproduction.figures.draw import draw

        runs = [_read_results(folder) for folder in self.folders]
        for folder, results in zip(self.folders, runs, strict=True):
            draw(results, folder)
        _write_page(self.page, self.folders)


def _remove_run(name: str, folder: Path) -> None:
    """Remove the run of an experiment from a folder, if the folder holds that run."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if json.loads((folder / "settings.json").read_text()).get("experiment") == name:
            for part in ("parts", "samples"):
                shutil.rmtree(folder / part, ignore_errors=True)
            for file in ("settings.json", "results.json"):
                (folder / file).unlink(missing_ok=True)


def _read_results(folder: Path) -> dict[str, Any]:
    try:
        results = json.loads((folder / "results.json").read_text())
    except OSError:
        raise InputError(f"{folder} has no readable results.json") from None
    except ValueError as error:
        raise InputError(f"{folder}/results.json is damaged: {error}") from None
    if not isinstance(results, dict) or not {"experiment", "cells", "claims"} <= set(results):
        raise InputError(f"{folder}/results.json is not a record of dmf reproduce")
    return results


def _write_page(path: Path, folders: Sequence[Path], title: str = "") -> None:
    from discrete_meanflow.files import write_atomically
    from discrete_meanflow.report import report_page

    write_atomically(path, report_page(folders, title))
    print(f"tables and figures: {path}")


def _reproduce(name: str, folder: Path, options: Reproduce) -> dict[str, Any] | None:
    """Run one experiment with progress bars, print its claims and draw its figures."""
    from rich.console import Console

    from discrete_meanflow.device import choose_device
    from discrete_meanflow.run.progress import progress_printer
    from dmf_reproduction.engine.experiment import Scale
    from dmf_reproduction.engine.run import reproduce
    from dmf_reproduction.engine.spec import RunSpec
    from dmf_reproduction.figures.draw import draw
    from dmf_reproduction.report.table import claims_table

    console = Console()
    device, scale = choose_device(options.device), Scale(options.scale)
    spec = RunSpec(
        name, options.seeds, device, scale, folder, options.jobs, options.only, options.data
    )
    finished = (folder / "results.json").exists()
    with progress_printer(console) as on_progress:
        results = reproduce(spec, on_progress)
    if finished:
        console.print(f"{name}: already finished; read from {folder}", highlight=False)
    if results is None:
        console.print(f"{name}: some cells are not trained; run again without --only to finish")
        return None
    console.print(claims_table(results))
    draw(results, folder)
    console.print(f"record and figures: {folder}", highlight=False)
    return results
