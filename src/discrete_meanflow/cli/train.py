"""``dmf train``: read a file, plan, train."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from discrete_meanflow.cli.options import OptionalPath, embedded
from discrete_meanflow.errors import DataError, InputError, Interrupted
from discrete_meanflow.model.options import FitOptions, ReadOptions, optional
from discrete_meanflow.run.progress import print_line

if TYPE_CHECKING:
    from rich.console import Console

    from discrete_meanflow.model.run_folder import Config
    from discrete_meanflow.training import Distributed


@dataclass(frozen=True)
class Train:
    """Train a one-step generator on a file, or resume a run."""

    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(**optional("FILE"))] = None
    """Text, SMILES, FASTA, CSV / TSV / Parquet or .npy / .npz file; may be gzipped."""
    out: OptionalPath = None
    """Run folder (default: runs/NAME for a file NAME.txt)."""
    resume: Annotated[Path | None, tyro.conf.arg(**optional("RUN"))] = None
    """Run folder to resume, instead of a file."""
    init: Annotated[Path | None, tyro.conf.arg(**optional("RUN"))] = None
    """Trained run from whose weights the training starts; its file had the same columns."""
    reading: Annotated[ReadOptions, embedded(ReadOptions)] = field(default_factory=ReadOptions)
    fit: Annotated[FitOptions, embedded(FitOptions)] = field(default_factory=FitOptions)

    def __call__(self) -> None:
        from rich.console import Console

        from discrete_meanflow.device import find_device
        from discrete_meanflow.model.run_folder import is_trained, read_config
        from discrete_meanflow.model.training_record import divergence_note, sampling_note
        from discrete_meanflow.training import Distributed

        others = replace(self, resume=None, fit=replace(self.fit, device="auto"))
        if self.resume is not None and others != Train():
            raise InputError("--resume RUN takes no other options, except --device")
        distributed = Distributed.from_environment(find_device(self.fit.device))
        console = Console(quiet=not distributed.first)
        folder = self.resume or self.out or self.default_folder
        name = shlex.quote(str(folder))  # as commands take it
        config: Config | None = None
        with distributed.first_before_others() as first:
            if first and self.resume is None:
                config = self._prepare(folder, console, distributed)
        config = config or read_config(folder)
        if is_trained(folder):
            print_line(console, f"{folder} is already trained; next: dmf sample {name}")
            return
        try:
            _train(folder, config, console, distributed)
        except (Interrupted, KeyboardInterrupt) as stop:
            raise type(stop)(f"dmf train --resume {name}") from None
        config = read_config(folder)  # the steps may have been revised
        for note in (divergence_note(folder), sampling_note(folder, config)):
            if note is not None:
                print_line(console, f"note: {note}")
        print_line(console, f"trained: {folder}; next: dmf sample {name}")

    def _prepare(self, folder: Path, console: "Console", distributed: "Distributed") -> "Config":
        """Read the file and write a new run folder."""
        from discrete_meanflow.model.display import card_lines
        from discrete_meanflow.model.prepare import prepare
        from discrete_meanflow.model.read import file_context, read_dataset
        from discrete_meanflow.model.run_folder import check_new_folder

        path = self._file
        check_new_folder(folder)
        kind, dataset = read_dataset(path, self.reading)
        timing = "; measuring the speed of this machine ..." * (self.fit.iterations is None)
        print_line(console, f"{path}: {kind.name}{timing}")
        with file_context(path, self.reading, DataError):
            notes = {"command": self.command}
            config, card = prepare(folder, kind, dataset, self.fit, distributed, notes, self.init)
        for line in card_lines(card, config, distributed.device):
            print_line(console, f"  {line}")
        return config

    @property
    def _file(self) -> Path:
        if self.file is None:
            raise InputError("train: pass a FILE, or --resume RUN")
        return self.file

    @property
    def default_folder(self) -> Path:
        """``names.v2.txt.gz -> runs/names.v2``."""
        return Path("runs") / (Path(self._file.name.removesuffix(".gz")).stem.strip(".") or "run")

    @property
    def command(self) -> str:
        """The command that repeats this run, without the folders of this machine."""
        words = ["dmf", "train", self._file.name, *_words(self.reading), *_words(self.fit)]
        words += [] if self.init is None else ["--init", self.init.name]
        return shlex.join(words)


def _words(options: ReadOptions | FitOptions) -> Iterator[str]:
    """The words of a command line that set the options, without the device."""
    for option in fields(options):
        name, value = option.name.replace("_", "-"), getattr(options, option.name)
        if name == "device" or value == option.default:
            continue
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
            continue
        yield f"--{name}"
        if isinstance(value, Path) or (name == "label" and Path(value).is_file()):
            yield Path(value).name
        elif isinstance(value, tuple):
            yield from value
        else:
            yield f"{value:.15g}" if isinstance(value, float) else str(value)


def _train(folder: Path, config: "Config", console: "Console", distributed: "Distributed") -> None:
    """Train with a live bar, and print samples from time to time."""
    from discrete_meanflow.model.display import SamplePreview
    from discrete_meanflow.model.train import train
    from discrete_meanflow.model.training_record import steps_done
    from discrete_meanflow.run.progress import ProgressEvent, progress_printer

    with progress_printer(console) as printer:
        done = config.plan.work_done(steps_done(folder, config.plan), 0)
        printer.start(folder.name, done, "preparing, up to a minute")
        preview = SamplePreview(config)

        def on_progress(event: ProgressEvent) -> None:
            printer(event)
            if line := preview(event):
                print_line(console, line)

        train(folder, config, distributed, on_progress)
