"""The commands for one's own data: train, sample, evaluate, export."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from discrete_meanflow.errors import DataError, InputError, Interrupted

if TYPE_CHECKING:
    from rich.console import Console

    from discrete_meanflow.data.kind import Kind
    from discrete_meanflow.data.table_codec import TableCodec
    from discrete_meanflow.model.train import ProgressEvent
    from discrete_meanflow.training import Distributed

SHOW_EVERY = 30.0  # seconds between samples shown while training
SHOWN = 5
WIDE, WIDEST = 100, 600  # letters of what is shown of a value, and of many by name
WORTH = """pair TV: how far pairs of neighbours, or of columns, are from held-out ones, 0 to 1;
copies: share that are training records; nearest: distance to the nearest of these,
of 20,000 of them if there are more;
AUC: how well a classifier tells them from real ones, 0.5 is not at all.
A perfect generator scores what 'held out' does, but has more copies: what is held
out is kept apart from training records, and what a law is likely to give is not."""
KindName = Literal["auto", "lines", "windows", "smiles", "fasta", "table", "array"]
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


def given(what: str, name: str | None = None) -> Any:
    """An option that need not be given, what it is in help, and its name if that is another."""
    return tyro.conf.arg(name=name, metavar=what, help_behavior_hint="")


@dataclass(frozen=True)
class Train:
    """Train a one-step generator on a file, or go on with a run that was stopped."""

    file: Annotated[Path | None, tyro.conf.Positional, given("FILE")] = None
    """Text, SMILES, FASTA, CSV / TSV / Parquet, .npy / .npz; gzipped too."""
    out: Annotated[Path | None, given("PATH")] = None
    """Run folder (default: runs/NAME of the file)."""
    resume: Annotated[Path | None, given("RUN")] = None
    """A run folder to go on with, in place of a file."""
    kind: KindName = "auto"
    """What the file holds; auto looks at its name and its beginning."""
    minutes: float = 10.0
    """Time to train in; the schedule is fitted to it."""
    iterations: Annotated[int | None, given("N")] = None
    """Steps to train, in place of a time."""
    size: Annotated[float | None, given("N")] = None
    """Parameters of the network (default: chosen from data and machine)."""
    batch: Annotated[int | None, given("N")] = None
    """Records a step (default: chosen from the machine)."""
    accumulate: int = 1
    """Pieces that a batch is worked through in, where memory is short."""
    length: int = 64
    """Of the windows that a long text is cut into."""
    pad: bool = True
    """Whether records may differ in length, and short ones are filled up."""
    tokenizer: Annotated[Path | None, given("FILE")] = None
    """A Hugging Face tokenizers JSON: lines or windows in its pieces, not in characters."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first row of a table names its columns."""
    missing: Annotated[str | None, given("TEXT")] = None
    """What stands for the empty cells of a table, which are refused without it."""
    drop: Annotated[tuple[str, ...], given("COLUMN ...")] = ()
    """Columns of a table to leave out, such as names of rows."""
    bins: Annotated[int | None, given("N")] = None
    """Cut columns of numbers into so many values, each of an equal share of the rows."""
    label: Annotated[str | None, given("WHERE")] = None
    """Where classes are: a column of the table, an array of the .npz, a .npy, or a file of one a
    line."""
    held_out: Annotated[int | None, given("N")] = None
    """Records kept apart for evaluation (default: 15 %, at most 10,000)."""
    seed: int = 0
    """Of the split, the weights and all draws."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train."""

    def __call__(self) -> None:
        from rich.console import Console

        from discrete_meanflow.device import find_device
        from discrete_meanflow.model import run_folder as run
        from discrete_meanflow.model.train import train
        from discrete_meanflow.training import Distributed

        if self.resume is not None and replace(self, resume=None, device="auto") != Train():
            raise InputError("train: --resume RUN goes on as it began; nothing else can be given")
        processes = Distributed.here(find_device(self.device))
        console = Console(quiet=not processes.first)
        folder = self.resume or self.out or self._default_folder
        with processes.first_before_others() as first:
            if first and self.resume is None:
                self._prepare(folder, console, processes)
        before = "was trained already" if run.is_trained(folder) else ""
        if not before:
            try:
                with _bar(console, folder) as (show, on_couples):
                    train(folder, processes, show, on_couples)
            except (Interrupted, KeyboardInterrupt) as stop:
                raise type(stop)(f"dmf train --resume {folder}") from None
        text = f"{before or 'trained'}: {folder}; now dmf sample {folder}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    @property
    def _file(self) -> Path:
        if self.file is None:
            raise InputError("train: give a FILE, or --resume RUN")
        if not self.file.exists():
            raise InputError(f"{self.file} does not exist")
        return self.file

    @property
    def _default_folder(self) -> Path:
        """``names.v2.txt.gz -> runs/names.v2``."""
        return Path("runs") / (Path(self._file.name.removesuffix(".gz")).stem.strip(".") or "run")

    @property
    def _command(self) -> str:
        """What was asked for, without the places of this machine."""
        from discrete_meanflow.model.prepare import as_option

        words = ["dmf", "train", self._file.name]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("file", "out", "device") and value != field.default:
                option = field.name.replace("_", "-")
                if isinstance(value, bool):
                    words.append(f"--{'' if value else 'no-'}{option}")
                    continue
                if isinstance(value, Path) or (field.name == "label" and Path(value).is_file()):
                    value = Path(value).name
                each = value if isinstance(value, tuple) else (value,)
                words += [f"--{option}", *map(as_option, each)]
        return shlex.join(words)

    @contextmanager
    def _place(self, kind: type[InputError]) -> Iterator[None]:
        """Names the file in what is said of it."""
        try:
            yield
        except kind as error:
            named = (self._file, self.tokenizer or self._file)  # either may be at fault
            place = "" if any(str(path) in str(error) for path in named) else f"{self._file}: "
            raise InputError(f"{place}{error}") from None

    def _find_kind(self) -> "Kind":
        """Of the file, with what the options say of it; one that does not fit is refused."""
        from discrete_meanflow.data.kind import (
            Table,
            Tokenised,
            TokenisedWindows,
            Windows,
            detect,
            find_kind,
        )

        kind = detect(self._file) if self.kind == "auto" else find_kind(self.kind)
        if isinstance(kind, Windows):
            given = self.tokenizer
            kind = TokenisedWindows(self.length, given) if given else Windows(self.length)
        elif self.tokenizer is not None:
            if kind.name != "lines":
                seen = f"{self._file} is taken for {kind.name}; --kind lines or windows, if it is"
                raise InputError(f"--tokenizer is for lines and windows, and {seen}")
            kind = Tokenised(self.tokenizer)
        elif isinstance(kind, Table):
            header = {"auto": None, "yes": True, "no": False}[self.header]
            kind = Table(self.bins, header, self.missing, self.drop)
        of_kinds: dict[str, type[Kind]] = {
            "bins": Table, "header": Table, "missing": Table, "without": Table, "length": Windows,
        }  # fmt: skip
        for option, fits in of_kinds.items():
            asked = getattr(self, option) != getattr(Train, option)
            if asked and not isinstance(kind, fits):
                raise InputError(f"--{option} is for {fits.name}; {self._file} is {kind.name}")
        return kind

    def _prepare(self, folder: Path, console: "Console", processes: "Distributed") -> None:
        from discrete_meanflow.data.labelled_codec import read_classes
        from discrete_meanflow.data.table_codec import TableCodec
        from discrete_meanflow.model.plan import check_minutes, count
        from discrete_meanflow.model.prepare import check_one_length, prepare
        from discrete_meanflow.model.run_folder import check_room, read_config

        check_minutes(self.minutes)
        check_room(folder)  # before a large file is read
        kind = self._find_kind()
        with self._place(InputError):
            dataset = kind.read(self._file)
            if self.label is not None:
                dataset = read_classes(dataset, self._file, self.label)
            if not self.pad:
                check_one_length(dataset)
        wait = "" if self.iterations is not None else "; looking for the pace of this machine ..."
        console.print(f"{self.file}: {kind.name}{wait}", highlight=False, markup=False)
        with self._place(DataError):
            card = prepare(
                folder, kind, dataset, processes.device, minutes=self.minutes,
                iterations=self.iterations, size=self.size, batch=self.batch,
                accumulate=self.accumulate, seed=self.seed, held_out=self.held_out,
                processes=processes.count, told={"command": self._command},
            )  # fmt: skip
        for key, value in card.items():
            console.print(f"  {key}: {_short(value)}", highlight=False, markup=False)
        if isinstance(dataset.codec.bare, TableCodec):
            for text in _notes(dataset.codec.bare, card["records"]):
                console.print(f"  note: {text}", highlight=False, markup=False)
        plan = read_config(folder).plan
        console.print(
            f"  network: {count(plan.kernel(dataset.codec)):,} parameters; "
            f"{plan.iterations:,} steps of {plan.batch}, then {plan.second:,} with "
            f"{plan.couples:,} couples; on {processes.device}",
            highlight=False,
        )


@dataclass(frozen=True)
class Sample:
    """Generate records with a trained run."""

    run: RunFolder
    """The run folder."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 10
    """How many records."""
    steps: int = 1
    """Forward passes for each."""
    seed: Annotated[int | None, given("N")] = None
    """The same seed gives the same records."""
    clamp: Annotated[str | None, given("TEXT")] = None
    """What is known: 'ma??' for text (?: unknown, \\?: a question mark, \\\\: a backslash),
    'colour=red' for tables, '0,?,3' for arrays."""
    label: Annotated[str | None, given("NAME", "class")] = None
    """The class of the records, where the run was trained with classes."""
    guidance: float = 1.0
    """Above 1, truer to what is known; costs a second forward pass."""
    temperature: Annotated[float | None, given("X")] = None
    """Above 1 bolder, below 1 safer."""
    top_p: Annotated[float | None, given("X")] = None
    """Only the likeliest symbols that make up this share."""
    out: Annotated[Path | None, given("PATH")] = None
    """File to write, of the kind that was read, in the place of one that is there (default:
    print)."""
    labels: Annotated[Path | None, given("FILE")] = None
    """File to write the class of each record to, one a line."""
    so_far: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """From a run that is still in training, or was stopped: as of its last checkpoint."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to run."""

    def __call__(self) -> None:
        import torch

        from discrete_meanflow.data.kind import Lines
        from discrete_meanflow.model import OneStepModel

        model = OneStepModel.load(self.run, self.device, so_far=self.so_far)
        codec, kind = model.config.codec, model.config.kind
        lots = model.tokens(
            self.n, self.steps, seed=self.seed, clamp=self.clamp, label=self.label,
            guidance=self.guidance, temperature=self.temperature, top_p=self.top_p,
        )  # fmt: skip
        if self.labels is not None:
            codec.classes_in(torch.empty(0, codec.length))  # refused before anything is written
            if self.out is not None and self.out.resolve() == self.labels.resolve():
                raise InputError("sample: --out and --labels are one file; give each its own")
        with ExitStack() as files:
            if self.labels is not None:  # before a pipe that may break, which ends all that follows
                name = files.enter_context(Lines().writer(self.labels, codec, self.n))
            write = files.enter_context(kind.writer(self.out, codec.bare, self.n))
            for lot in lots:
                if self.labels is not None:
                    name(codec.classes_in(lot))
                write(codec.decode(lot))
        if self.out is not None:
            print(f"{self.n:,} records: {self.out}", file=sys.stderr)


@dataclass(frozen=True)
class Evaluate:
    """Judge a run against the records it has not seen."""

    run: RunFolder
    """The run folder."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 2000
    """Records to generate at each number of steps."""
    steps: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Numbers of forward passes."""
    reading: int = 0
    """Steps to train a small autoregressive network on other held-out records, which then tells
    bits per symbol (some thousands; slow without a GPU)."""
    seed: int = 0
    """Of the records."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to run."""

    def __call__(self) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from discrete_meanflow.model import OneStepModel
        from discrete_meanflow.model.eval_samples import EvaluateOptions, draw, find, keep
        from discrete_meanflow.model.evaluate import judged
        from discrete_meanflow.model.run_folder import write_json
        from discrete_meanflow.report.evaluation import draw_evaluation

        console = Console()
        asked = EvaluateOptions(self.n, self.seed, self.steps, self.reading)
        drawn = find(self.run, asked)
        if drawn is None:
            drawn = draw(OneStepModel.load(self.run, self.device), asked)
            keep(self.run, drawn)
        else:
            made = drawn.environment
            text = f"samples of {made['date']}, {made['gpu'] or made['machine']}, as they were kept"
            text += "; to draw anew, delete samples.safetensors"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
        found = judged(self.run, drawn)
        write_json(self.run / "evaluation.json", found)
        draw_evaluation(found, self.run / "evaluation.png")
        fewer = f", half of the held-out ones, {self.n} asked for"
        title = f"{self.run}: {found['records']} records each"
        table = Table(  # narrow: eleven columns fit into eighty letters
            title=Text(title + (fewer if found["records"] < self.n else "")),
            title_justify="left", box=None, padding=(0, 1, 0, 0),
        )  # fmt: skip
        names = list(found["scores"]["held out"])
        for name in ("", *names):
            heading = name.replace("-", " ").replace(" ", "\n")
            table.add_column(heading, justify="right", overflow="fold")
        for who, scores in found["scores"].items():
            table.add_row(who, *(f"{scores[name]:.3f}" for name in names))
        console.print(table)
        console.print(WORTH, highlight=False, markup=False, soft_wrap=True)
        text = f"{self.run}/evaluation.json, evaluation.png"
        console.print(text, highlight=False, markup=False, soft_wrap=True)


@dataclass(frozen=True)
class Export:
    """Write the generator as one ONNX graph: noise in, probabilities out."""

    run: RunFolder
    """The run folder."""
    onnx: Path
    """File to write."""

    def __call__(self) -> None:
        from discrete_meanflow.model import OneStepModel
        from discrete_meanflow.model.export import export

        difference = export(OneStepModel.load(self.run, "cpu"), self.onnx)
        print(f"{self.onnx}: largest difference from PyTorch {difference:.1e}")


def _notes(codec: "TableCodec", records: int) -> list[str]:
    """Of columns that are numbers, or names of rows, rather than categories."""
    from discrete_meanflow.data.bins import numeric_levels

    columns = zip(codec.names, codec.levels, strict=True)
    many = {name: levels for name, levels in columns if len(levels) > max(100, records // 20)}
    numbers = [name for name, levels in many.items() if numeric_levels(levels)]
    words = [name for name in many if name not in numbers]
    found = []
    if numbers:
        found.append(f"{', '.join(numbers)} of many values; numbers can be cut, as by --bins 20")
    if words:
        out = " ".join(map(shlex.quote, words))
        found.append(
            f"{', '.join(words)} of many values, which can only be copied: --without {out}"
        )
    return found


def _short(value: Any) -> str:
    if isinstance(value, dict):
        text = ", ".join(f"{name} {each}" for name, each in value.items())
    elif isinstance(value, list):
        text = ",".join(map(str, value))
    elif hasattr(value, "ravel"):  # an array
        text = " ".join(map(str, value.ravel().tolist()))
    else:
        text = str(value)
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    most = WIDEST if isinstance(value, dict) else WIDE
    return text if len(text) <= most else text[: most - 3] + "..."


@contextmanager
def _bar(
    console: "Console", folder: Path
) -> "Iterator[tuple[Callable[[ProgressEvent], None], Callable[[float], None]]]":
    """A live bar with loss, pace and time left; now and then a few samples above it.

    Between the stages, which share of the couples is made.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from discrete_meanflow.model import OneStepModel
    from discrete_meanflow.model.plan import COUPLE_STEPS
    from discrete_meanflow.model.run_folder import read_config
    from discrete_meanflow.model.train import steps_done

    config, shown = read_config(folder), time.monotonic()
    plan, total = config.plan, config.plan.iterations + config.plan.second
    columns = (BarColumn(bar_width=30), TextColumn("{task.description}"), TimeRemainingColumn())
    live = console.is_terminal  # else lines, now and then
    with Progress(*columns, console=console, refresh_per_second=2, disable=not live) as progress:
        # Of a run that is gone on with, steps done before tell nothing of the pace; its couples
        # are made anew.
        before = steps_done(folder)
        task = progress.add_task(
            "preparing, up to a minute or so",
            total=plan.work(total, 1),
            completed=int(plan.work(before, 0)),
        )

        def on_couples(done: float) -> None:
            nonlocal shown
            at = plan.work(max(before, plan.iterations), done)
            progress.update(task, completed=at, description=f"couples: {done:.0%}")
            if not live and time.monotonic() - shown > SHOW_EVERY:
                shown = time.monotonic()
                console.print(f"couples: {done:.0%}", highlight=False)

        def show(news: "ProgressEvent") -> None:
            nonlocal shown
            at, second = f"{news.iteration:,} of {total:,} steps", news.iteration > plan.iterations
            words = f"loss {news.loss:.3f}  {news.tokens_per_second:,.0f} tokens/s"
            progress.update(
                task, completed=plan.work(news.iteration, second), description=f"{at}  {words}"
            )
            if time.monotonic() - shown > SHOW_EVERY:
                shown = time.monotonic()
                if not live:
                    line = f"{at}, {news.seconds:.0f} s, {words}"
                    console.print(line, highlight=False, soft_wrap=True)
                now = OneStepModel(folder, config, news.kernel())
                # The first stage learns short steps alone.
                steps = 1 if second else COUPLE_STEPS
                some = config.codec.decode(next(now.tokens(SHOWN, steps, seed=0)))
                text = "  ".join(_short(each) for each in some)
                console.print(f"{news.iteration:>8}  {text}", highlight=False, markup=False)

        yield show, on_couples
