"""The command ``dmf``. Torch is imported by the commands that need it, not by ``--help``."""

import datetime
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from discrete_meanflow.errors import InputError, Interrupted

SEEDS = (42, 123, 2024)
BAD_INPUT, OUR_BUG, STOPPED = 2, 70, 130


@dataclass(frozen=True)
class List:
    """Show the experiments and the claims each one tests."""

    def __call__(self) -> None:
        from rich.console import Console

        from discrete_meanflow.experiment.catalog import ALL, EXPERIMENTS

        console = Console()
        for name, experiment in EXPERIMENTS.items():
            console.print(f"[bold]{name}[/]  {experiment.title}  [dim]({experiment.where})[/]")
            for promise in experiment.promises:
                console.print(f"    - {promise}", highlight=False)
        console.print(f"[bold]{ALL}[/]  all of the above")


@dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper and compare with its numbers. An interrupted run goes on."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME...")]
    """Experiments, as `dmf list` shows them; `paper` stands for all."""
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

    def __call__(self) -> None:
        from discrete_meanflow.experiment import catalog

        names = catalog.expand(list(self.names))
        runs = []
        for name in names:
            folder = (self.out or Path("runs")) / name
            if self.out is not None and len(names) == 1:
                folder = self.out
            runs.append(_reproduce(name, folder, self))
        if len(runs) > 1:
            from discrete_meanflow.report.page import write_page

            page = write_page((self.out or Path("runs")) / "report.html", "Discrete MeanFlow", runs)
            print(f"all tables and figures: {page}")


@dataclass(frozen=True)
class Demo:
    """Train the 3-state ring kernel here and now, and show it: two to four minutes on a CPU."""

    out: Path = Path("demo")
    """Where the page, the figures and the record go."""
    scale: Literal["paper", "toy"] = "paper"
    """paper: the paper's 20,000 iterations. toy: seconds, to see that all runs."""

    def __call__(self) -> None:
        import shutil

        from discrete_meanflow.report.page import write_page

        if (self.out / "results.json").exists() and (self.out / "parts").is_dir():
            shutil.rmtree(self.out)  # a finished demo is shown anew; an interrupted one goes on
        options = Reproduce(names=("demo",), device="cpu", scale=self.scale)
        results = _reproduce("demo", self.out, options)
        page = write_page(self.out / "index.html", "Discrete MeanFlow: the 3-state ring", [results])
        print(f"pictures and table: {page}")


@dataclass(frozen=True)
class Draw:
    """Draw the figures of finished runs again, and one page of all of them."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR...")]
    """Folders that hold a results.json."""
    page: Path = Path("report.html")
    """The page to write."""

    def __call__(self) -> None:
        import json

        from discrete_meanflow.report.figures import draw
        from discrete_meanflow.report.page import write_page

        runs = []
        for folder in self.folders:
            try:
                results = json.loads((folder / "results.json").read_text())
                runs.append({**results, "figures": [str(p) for p in draw(results, folder)]})
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{folder} has no readable results.json ({error})") from None
        print(f"all tables and figures: {write_page(self.page, 'Discrete MeanFlow', runs)}")


Command = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Draw, tyro.conf.subcommand("draw")]
)


def _reproduce(name: str, folder: Path, options: Reproduce) -> dict[str, Any]:
    """Run one experiment with bars, then show its table and draw its figures."""
    from rich.console import Console

    from discrete_meanflow.experiment.base import Scale
    from discrete_meanflow.experiment.run import Order, choose_device, reproduce
    from discrete_meanflow.progress import bars
    from discrete_meanflow.report.figures import draw
    from discrete_meanflow.report.table import claims_table

    console = Console()
    seeds = _check_seeds(options.seeds)
    order = Order(name, seeds, choose_device(options.device), Scale(options.scale), folder)
    if (folder / "results.json").exists():
        console.print(f"{name}: finished earlier, read from {folder}", highlight=False)
    with bars(console) as show:
        results = reproduce(order, show, options.jobs)
    console.print(claims_table(results))
    draw(results, folder)
    console.print(f"record and figures: {folder}", highlight=False)
    return results


def _check_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if not seeds or len(set(seeds)) != len(seeds):
        raise InputError(
            f"--seeds: needs distinct seeds, got {' '.join(map(str, seeds)) or 'none'}"
        )
    if any(not 0 <= seed < 2**63 for seed in seeds):
        raise InputError("--seeds: a seed is a whole number from 0 to 2^63 - 1")
    return seeds


def main() -> None:
    """Exit codes: 0 done, 2 bad input (one line), 70 our bug (a log), 130 stopped and saved."""
    command = tyro.cli(Command, prog="dmf", description="One-step generation of discrete data.")
    try:
        command()
    except InputError as error:
        print(f"dmf: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except (Interrupted, KeyboardInterrupt):
        print("dmf: stopped; all is saved. Run the same command again to go on.", file=sys.stderr)
        sys.exit(STOPPED)
    except Exception:
        log = _write_log(traceback.format_exc())
        print(f"dmf: this is a bug in dmf, not in your input; see {log}", file=sys.stderr)
        sys.exit(OUR_BUG)


def _write_log(text: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"dmf-{stamp}-", suffix=".log", delete=False
    ) as file:
        file.write(" ".join(sys.argv) + "\n" + text)
    return Path(file.name)
