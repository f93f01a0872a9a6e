"""``dmf train``: read a file, plan, train."""

import importlib.util
import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from discrete_meanflow.cli.options import Device, build, optional
from discrete_meanflow.errors import DataError, InputError, Interrupted
from discrete_meanflow.model.options import FitOptions, ReadOptions

if TYPE_CHECKING:
    from rich.console import Console

    from discrete_meanflow.model.run_folder import Config
    from discrete_meanflow.training import Distributed

KindName = Literal["auto", "lines", "windows", "smiles", "fasta", "table", "array"]
LABEL = (
    "Classes of the records: a column of the table, an array of the .npz, a .npy file, or a text "
    "file with one class per line."
)
NO_ACCELERATE = "several processes need accelerate: pip install 'discrete-meanflow[distributed]'"
NO_TENSORBOARD = "no TensorBoard log, only metrics.jsonl; pip install 'discrete-meanflow[log]'"


@dataclass(frozen=True)
class Train:
    """Train a one-step generator on a file, or resume a run."""

    file: Annotated[Path | None, tyro.conf.Positional, optional("FILE")] = None
    """Text, SMILES, FASTA, CSV / TSV / Parquet or .npy / .npz file; may be gzipped."""
    out: Annotated[Path | None, optional("PATH")] = None
    """Run folder (default: runs/NAME for a file NAME.txt)."""
    resume: Annotated[Path | None, optional("RUN")] = None
    """Run folder to resume, instead of a file."""
    kind: KindName = "auto"
    """Kind of data; auto looks at the file name and the first lines."""
    minutes: float = FitOptions.minutes
    """Training time; the number of steps is chosen to fill it."""
    iterations: Annotated[int | None, optional("N")] = FitOptions.iterations
    """Number of optimiser steps, instead of a training time."""
    size: Annotated[float | None, optional("N")] = FitOptions.size
    """Parameters of the network (default: chosen from data and device)."""
    batch: Annotated[int | None, optional("N")] = FitOptions.batch
    """Records per step (default: chosen from data and device)."""
    accumulate: int = FitOptions.accumulate
    """Gradient accumulation steps."""
    length: int = ReadOptions.length
    """Window length for long texts."""
    pad: bool = ReadOptions.pad
    """Allow records of different lengths; short ones are padded."""
    tokenizer: Annotated[Path | None, optional("FILE")] = ReadOptions.tokenizer
    """Hugging Face tokenizers JSON; lines and windows become subwords instead of characters."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first row of a table names its columns."""
    missing: Annotated[str | None, optional("TEXT")] = ReadOptions.missing
    """Value for the empty cells of a table; without it they are an error."""
    drop: Annotated[tuple[str, ...], optional("COLUMN ...")] = ReadOptions.drop
    """Columns of a table to leave out, such as row identifiers."""
    bins: Annotated[int | None, optional("N")] = ReadOptions.bins
    """Number of quantile bins for numeric columns."""
    label: Annotated[str | None, optional("WHERE", text=LABEL)] = ReadOptions.label
    held_out: Annotated[int | None, optional("N")] = FitOptions.held_out
    """Records kept for evaluation (default: 15 %, at most 10,000)."""
    seed: int = FitOptions.seed
    """Random seed for the split, initialisation and training."""
    device: Device = "auto"
    """Device to train on."""

    def __call__(self) -> None:
        from rich.console import Console

        from discrete_meanflow.model.run_folder import is_trained, read_config

        if self.resume is not None and replace(self, resume=None, device="auto") != Train():
            raise InputError("--resume RUN takes no other options, except --device")
        distributed = _distributed(self.device)
        console = Console(quiet=not distributed.first)
        folder = self.resume or self.out or self.default_folder
        config: Config | None = None
        with distributed.first_before_others() as first:
            if first and self.resume is None:
                config = self._prepare(folder, console, distributed)
        config = config or read_config(folder)
        if is_trained(folder):
            _print(console, f"{folder} is already trained; next: dmf sample {folder}")
            return
        try:
            _train(folder, config, console, distributed)
        except (Interrupted, KeyboardInterrupt) as stop:
            raise type(stop)(f"dmf train --resume {folder}") from None
        _print(console, f"trained: {folder}; next: dmf sample {folder}")

    def _prepare(self, folder: Path, console: "Console", distributed: "Distributed") -> "Config":
        """Read the file and write a new run folder."""
        from discrete_meanflow.model.data_card import card_lines
        from discrete_meanflow.model.prepare import prepare
        from discrete_meanflow.model.read import file_context, read_dataset
        from discrete_meanflow.model.run_folder import check_new_folder

        path, options, reading = self._file, build(FitOptions, self), build(ReadOptions, self)
        check_new_folder(folder)
        kind, dataset = read_dataset(path, reading)
        timing = "" if self.iterations is not None else "; measuring the speed of this machine ..."
        _print(console, f"{path}: {kind.name}{timing}")
        with file_context(path, reading, DataError):
            notes = {"command": self.command}
            config, card = prepare(folder, kind, dataset, options, distributed, notes)
        for line in card_lines(card, config, distributed.device):
            _print(console, f"  {line}")
        return config

    @property
    def _file(self) -> Path:
        if self.file is None:
            raise InputError("train: pass a FILE, or --resume RUN")
        if not self.file.exists():
            raise InputError(f"{self.file} does not exist")
        return self.file

    @property
    def default_folder(self) -> Path:
        """``names.v2.txt.gz -> runs/names.v2``."""
        return Path("runs") / (Path(self._file.name.removesuffix(".gz")).stem.strip(".") or "run")

    @property
    def command(self) -> str:
        """The command that repeats this run, without the folders of this machine."""
        words = ["dmf", "train", self._file.name]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("file", "out", "device") or value == field.default:
                continue
            option = field.name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{option}" if value else f"--no-{option}")
            elif isinstance(value, tuple):
                words += [f"--{option}", *value]
            else:
                words += [f"--{option}", _as_word(field.name, value)]
        return shlex.join(words)


def _as_word(name: str, value: Any) -> str:
    if isinstance(value, Path) or (name == "label" and Path(value).is_file()):
        return Path(value).name
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _distributed(device: str) -> "Distributed":
    from discrete_meanflow.device import find_device
    from discrete_meanflow.training import Distributed

    try:
        return Distributed.from_environment(find_device(device))
    except ModuleNotFoundError as error:
        if error.name != "accelerate":
            raise
        raise InputError(NO_ACCELERATE) from None


def _train(folder: Path, config: "Config", console: "Console", distributed: "Distributed") -> None:
    """Train with a live bar, and print samples from time to time."""
    from discrete_meanflow.model.sample_preview import SamplePreview
    from discrete_meanflow.model.train import steps_done, train
    from discrete_meanflow.run.progress import ProgressEvent, progress_printer

    if importlib.util.find_spec("tensorboard") is None:
        _print(console, NO_TENSORBOARD)
    with progress_printer(console) as printer:
        done = config.plan.work_done(steps_done(folder), 0)
        printer.start(folder.name, done, "preparing, up to a minute")
        preview = SamplePreview(config, printer.print)

        def on_progress(event: ProgressEvent) -> None:
            printer(event)
            preview(event)

        train(folder, config, distributed, on_progress)


def _print(console: "Console", line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
