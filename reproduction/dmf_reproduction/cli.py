"""The commands that repeat the paper and show what came of it."""

import contextlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from discrete_meanflow.errors import InputError
from dmf_reproduction import SEEDS


@dataclass(frozen=True)
class List:
    """Show the experiments and the claims each one tests."""

    def __call__(self) -> None:
        from rich.console import Console

        from dmf_reproduction.catalog import ALL, EXPERIMENTS, PAPER

        console = Console()
        for name, experiment in EXPERIMENTS.items():
            console.print(f"[bold]{name}[/]  {experiment.title}  [dim]({experiment.where})[/]")
            for promise in experiment.claims_summary:
                console.print(f"    - {promise}", highlight=False)
        console.print(f"[bold]{ALL}[/]  {', '.join(PAPER)}")


@dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper and compare with its numbers. An interrupted run goes on."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME...")]
    """Experiments, as `dmf list` shows them; `paper` stands for all of the paper."""
    seeds: tuple[int, ...] = SEEDS
    """Random seeds; all are trained side by side."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train: auto takes a CUDA device if there is one."""
    scale: Literal["paper", "toy"] = "paper"
    """paper: the paper's iterations. toy: seconds of work, to see that all runs."""
    out: Path | None = None
    """Run folder (default: runs/NAME). With several names, each gets a folder inside it."""
    jobs: int | None = None
    """Trainings run side by side (default: one per core, or 4 on a GPU)."""
    only: str = ""
    """Train only the cells whose name holds this text: a part of a run, merged with the others
    by copying their parts/ and samples/ into one folder and running without it."""
    data: Path | None = None
    """Folder of the files that are read, for experiments on real data."""

    def __call__(self) -> None:
        from dmf_reproduction import catalog
        from dmf_reproduction.engine.spec import run_folder

        names = catalog.holding(catalog.expand(list(self.names)), self.only, self.scale, self.data)
        several = len(names) > 1
        made = [_reproduce(name, run_folder(self.out, name, several), self) for name in names]
        runs = [results for results in made if results is not None]
        if len(runs) > 1:
            from dmf_reproduction.report.page import write_page

            page = write_page((self.out or Path("runs")) / "report.html", "Discrete MeanFlow", runs)
            print(f"all tables and figures: {page}")


@dataclass(frozen=True)
class Demo:
    """Train two kernels here and now and show them: the 3-state ring, and one-step digits.

    Some minutes on a CPU.
    """

    out: Path = Path("demo")
    """Where the page, the figures and the records go."""
    scale: Literal["paper", "toy"] = "paper"
    """paper: the real thing. toy: seconds, to see that all runs."""

    def __call__(self) -> None:
        from dmf_reproduction.report.page import write_page

        options = Reproduce(names=("demo",), seeds=SEEDS[:1], device="cpu", scale=self.scale)
        parts = {"demo": self.out, "joint-digits": self.out / "digits"}
        finished = [(folder / "results.json").exists() for folder in parts.values()]
        for name, folder in parts.items():
            # A finished demo is shown anew, an interrupted one goes on. What is not its own stays.
            if all(finished) and _experiment_in(folder) == name:
                for own in ("parts", "samples"):
                    shutil.rmtree(folder / own, ignore_errors=True)
                for own in ("settings.json", "results.json"):
                    (folder / own).unlink(missing_ok=True)
        runs = [_reproduce(name, folder, options) for name, folder in parts.items()]
        page = write_page(
            self.out / "index.html",
            "Discrete MeanFlow: a chain of three states, and digits in one step",
            [results for results in runs if results is not None],
        )
        print(f"pictures and table: {page}")


@dataclass(frozen=True)
class Draw:
    """Draw the figures of finished runs again, and one page of all of them."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR...")]
    """Folders that hold a results.json."""
    page: Path = Path("report.html")
    """The page to write."""

    def __call__(self) -> None:
        from dmf_reproduction.figures.draw import draw
        from dmf_reproduction.report.page import write_page

        runs = [_read_results(folder) for folder in self.folders]
        for folder, results in zip(self.folders, runs, strict=True):
            draw(results, folder)
        print(f"all tables and figures: {write_page(self.page, 'Discrete MeanFlow', runs)}")


def _experiment_in(folder: Path) -> str | None:
    """The name of the experiment whose run a folder holds, if it holds one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return json.loads((folder / "settings.json").read_text()).get("experiment")
    return None


def _read_results(folder: Path) -> dict[str, Any]:
    try:
        results = json.loads((folder / "results.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} has no readable results.json ({error})") from None
    if not isinstance(results, dict) or not {"experiment", "cells", "claims"} <= set(results):
        raise InputError(f"{folder}/results.json is not a record of this program")
    return results


def _reproduce(name: str, folder: Path, options: Reproduce) -> dict[str, Any] | None:
    """Run one experiment with bars, then show its table and draw its figures."""
    from rich.console import Console

    from discrete_meanflow.device import choose_device
    from discrete_meanflow.progress import bars
    from dmf_reproduction.engine.experiment import Scale
    from dmf_reproduction.engine.run import reproduce
    from dmf_reproduction.engine.spec import RunSpec
    from dmf_reproduction.figures.draw import draw
    from dmf_reproduction.report.table import claims_table

    console = Console()
    device, scale = choose_device(options.device), Scale(options.scale)
    order = RunSpec(
        name, options.seeds, device, scale, folder, options.jobs, options.only, options.data
    )
    finished = (folder / "results.json").exists()
    with bars(console) as show:
        results = reproduce(order, show)
    if finished:
        console.print(f"{name}: finished earlier, read from {folder}", highlight=False)
    if results is None:
        console.print(f"{name}: cells are left; run again without --only to finish")
        return None
    console.print(claims_table(results))
    draw(results, folder)
    console.print(f"record and figures: {folder}", highlight=False)
    return results
