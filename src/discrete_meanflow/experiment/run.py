"""Run an experiment: train its cells, keep what is done, judge its claims.

A run folder holds ``settings.json`` (what the run is), ``parts/`` (a JSON of measurements for
each finished cell, a checkpoint for each cell) and, at the end, ``results.json``. A run that
was interrupted goes on where it stopped; a run of other settings is never touched.
"""

import contextlib
import copy
import datetime
import gzip
import json
import multiprocessing
import os
import platform
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy
import torch

import discrete_meanflow
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.experiment import catalog
from discrete_meanflow.experiment.base import Cell, Experiment, Json, Scale
from discrete_meanflow.files import write_whole
from discrete_meanflow.kernel import Kernel
from discrete_meanflow.signals import held_back, stop_signals
from discrete_meanflow.training import BlockRecord, Problem, Recipe, Trainer, train_session
from discrete_meanflow.training.checkpoint import iteration_in
from discrete_meanflow.training.session import SAVE_EVERY
from discrete_meanflow.training.trainer import EXCLUSIVE

CURVE_POINTS = 50
CUDA_JOBS = 4  # cells trained abreast on one GPU


@dataclass(frozen=True)
class Progress:
    """News of a cell, for whoever shows it."""

    cell: str
    iteration: int
    iterations: int
    loss: float
    metrics: dict[str, float]
    seconds: float


@dataclass(frozen=True)
class Order:
    """What is to be run: the whole of it is in settings.json."""

    experiment: str
    seeds: tuple[int, ...]
    device: str
    scale: Scale
    out: Path
    jobs: int | None = None  # cells trained side by side; None: one per core, or 4 on a GPU
    only: str = ""  # train the cells whose name holds this text, leave the others
    data: Path | None = None  # the folder of the files that are read, where any are

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            given = " ".join(map(str, self.seeds)) or "none"
            raise InputError(f"--seeds: needs distinct seeds, got {given}")
        if any(not 0 <= seed < 2**63 for seed in self.seeds):
            raise InputError("--seeds: a seed is a whole number from 0 to 2^63 - 1")
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"--jobs: needs at least 1, got {self.jobs}")

    @property
    def command(self) -> str:
        seeds = " ".join(map(str, self.seeds))
        return (
            f"dmf reproduce {self.experiment} --seeds {seeds} --device {self.device} "
            f"--scale {self.scale.value}" + (" --data DATA" if self.data else "")
        )

    def unfinished(self, cells: Sequence[Cell]) -> list[Cell]:
        return [cell for cell in cells if not self.part(cell.name, ".json").exists()]

    def part(self, cell: str, suffix: str) -> Path:
        name = "".join(c if c.isalnum() or c in ".-" else "_" for c in cell)
        return self.out / "parts" / f"{name}{suffix}"


def choose_device(device: str) -> str:
    """``auto`` is CUDA where there is one. Whether the device is there is seen when it is used."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise InputError(f"--device must be auto, cpu or cuda, got '{device}'")
    return device


def run_folder(out: Path | None, name: str, several: bool) -> Path:
    """``out`` itself for one experiment, a folder inside it for several; default runs/NAME."""
    return out if out is not None and not several else (out or Path("runs")) / name


def reproduce(order: Order, watch: Callable[[Progress], None]) -> Json | None:
    """Run an experiment to its results, or return the results it has; None if cells are left.

    Cells are left by ``order.only``, which cuts a run into parts. Parts that were run on
    different machines are merged by copying their ``parts/`` into one folder.
    """
    experiment = catalog.find(order.experiment, order.data)
    if experiment.one_seed:
        order = replace(order, seeds=order.seeds[:1])
    cells = experiment.cells(order.scale)
    if order.only and not any(order.only in cell.name for cell in cells):
        names = "; ".join(cell.name for cell in cells) or "it trains nothing"
        raise InputError(f"--only: no cell of {order.experiment} holds '{order.only}': {names}")
    settings = _settings(order, cells)
    _claim_folder(order, settings)
    finished = order.out / "results.json"
    if finished.exists():
        return read_json(finished)
    for cell in cells:
        _borrow(order, cell, experiment.borrows_from)
    pending = [c for c in order.unfinished(cells) if order.only in c.name]
    if pending and order.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: no CUDA device here; use --device cpu")
    # Threads follow from all cells, not from those left: a resumed cell must round as before.
    cores = os.cpu_count() or 1
    jobs = max(1, min(order.jobs or cores, len(cells)))
    threads = max(1, cores // jobs)
    with _stopwatch(order) as wall_seconds:
        noted = time.monotonic()

        def watched(news: Progress) -> None:
            nonlocal noted
            if time.monotonic() - noted > SAVE_EVERY:
                wall_seconds()  # noted, lest a run that is killed has taken no time
                noted = time.monotonic()
            watch(news)

        if order.device == "cuda":
            _run_in_streams(order, pending, order.jobs or CUDA_JOBS, watched)
        elif jobs > 1:
            _run_in_processes(order, [cell.name for cell in pending], jobs, threads, watched)
        else:
            with stop_signals() as stopped:
                for cell in pending:
                    run_cell(order, cell, watched, stopped)
        if order.unfinished(cells):
            return None
        parts = {cell.name: _read_part(order, cell) for cell in cells}
        results = assemble(experiment, order, settings, parts)
        results["wall_seconds"] = round(wall_seconds(), 1)
    write_json(finished, results)
    return results


def _read_part(order: Order, cell: Cell) -> Json:
    """The measurements of a cell, which may have been made elsewhere: they must be of this run."""
    path = order.part(cell.name, ".json")
    part = read_json(path)
    if part.pop("settings", None) != _cell_settings(order, cell):
        raise InputError(f"{path} was made with other settings; delete it to run that part again")
    return part


def assemble(experiment: Experiment, order: Order, settings: Json, parts: Json) -> Json:
    """The JSON of a run: settings, raw measurements, and the claims computed from them."""
    facts = experiment.facts(order.scale)
    if scores := experiment.scores(order.out / "samples"):
        facts["scores"] = scores
    # Where each part was trained; an experiment that trains nothing ran here.
    made = [(part.pop("device"), part.pop("versions")) for part in parts.values()]
    made = made or [(device_name("cpu"), versions())]
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "where": experiment.where,
        "command": order.command,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "of_the_paper": experiment.of_the_paper,
        "device": "; ".join(sorted({device for device, _ in made})),
        "versions": made[0][1],
        "training_seconds": round(sum(part["seconds"] for part in parts.values()), 1),
        "seeds": list(order.seeds),
        "scale": order.scale.value,
        "settings": settings["cells"],
        "facts": facts,
        "facts_device": device_name("cpu"),
        "cells": parts,
        "claims": _claims(experiment, facts, parts),
    }


def _claims(experiment: Experiment, facts: Json, parts: Json) -> list[Json]:
    try:
        return [claim.describe() for claim in experiment.claims(facts, parts)]
    except KeyError as missing:
        raise InputError(
            f"{experiment.name}: a finished part lacks {missing}, it was made by another version; "
            "delete the folder's parts/ to run them again"
        ) from None


def run_cell(
    order: Order, cell: Cell, watch: Callable[[Progress], None], stopped: Callable[[], bool]
) -> None:
    """Train one cell, from its checkpoint if there is one, and write its measurements."""
    stage = Stage(order, cell, watch, stopped)
    try:
        trainer = stage.train(cell.problem, cell.recipe, ".safetensors")
        for i, coupling in enumerate(cell.then):
            kernel, problem = copy.deepcopy(trainer.kernels()[0]), cell.problem
            suffix = f"-then{'' if i == 0 else i + 1}.safetensors"
            # A stage that has ended needs no couples, only its kernel.
            if iteration_in(order.part(cell.name, suffix)) < coupling.recipe.iterations:
                with EXCLUSIVE:
                    seed = order.seeds[0] + i
                    problem = coupling.problem(problem, kernel, seed, lambda done: stopped())
            trainer = stage.train(problem, coupling.recipe, suffix, [kernel])
    except InputError as error:
        raise InputError(f"{order.experiment}, cell '{cell.name}': {error}") from None
    kernels = zip(trainer.kernels(), order.seeds, strict=True)
    with EXCLUSIVE:  # no other cell changes the precision of products meanwhile
        measurements = [{"seed": seed, **cell.measure(kernel, seed)} for kernel, seed in kernels]
    for measured in measurements:
        _write_samples(order.out / "samples", measured.pop("samples", {}))
    part = {
        "settings": _cell_settings(order, cell),
        "device": device_name(order.device),
        "versions": versions(),
        "iterations": cell.iterations,
        "seconds": stage.seconds,
        "curve": stage.curve,
        "measurements": measurements,
    }
    write_json(order.part(cell.name, ".json"), rounded(part))


class Stage:
    """The trainings of a cell, one after the other: their curve and their time add up."""

    def __init__(
        self,
        order: Order,
        cell: Cell,
        watch: Callable[[Progress], None],
        stopped: Callable[[], bool],
    ) -> None:
        self.order, self.cell, self.watch, self.stopped = order, cell, watch, stopped
        self.curve: Json = {"iteration": [], "loss": [], "at": []}
        self.done, self.seconds = 0, 0.0  # in the stages before

    def train(
        self, problem: Problem, recipe: Recipe, suffix: str, start: list[Kernel] | None = None
    ) -> Trainer:
        """To the end, from the checkpoint if there is one."""
        trainer = Trainer(problem, recipe, self.order.seeds, self.order.device, start)
        every = recipe.block * max(1, recipe.iterations // (CURVE_POINTS * recipe.block))
        metrics: dict[str, float] = {}

        def on_block(record: BlockRecord, curve: Json) -> None:
            nonlocal metrics
            now = self.done + record.iteration
            curve["iteration"].append(now)
            curve["loss"].append(record.loss)
            if record.iteration % every == 0:
                metrics = self._look(trainer, curve, now)
            loss = sum(record.loss) / len(record.loss)
            seconds = self.seconds + record.seconds
            self.watch(Progress(self.cell.name, now, self.cell.iterations, loss, metrics, seconds))

        self.curve = train_session(
            trainer,
            self.order.part(self.cell.name, suffix),
            _cell_settings(self.order, self.cell),
            self.curve,
            on_block,
            self.stopped,
        )
        self.done += recipe.iterations
        self.seconds += trainer.seconds
        return trainer

    def _look(self, trainer: Trainer, curve: Json, now: int) -> dict[str, float]:
        """Add to the curve what the cell watches."""
        with EXCLUSIVE:  # a derivative taken here must not meet another cell's tracing
            watched = self.cell.watch(trainer.kernels())
        curve["at"].append(now)
        for name, values in watched.items():
            curve.setdefault(name, []).append(values)
        return {name: sum(v) / len(v) for name, v in watched.items()}


def _write_samples(folder: Path, samples: dict[str, list[str]]) -> None:
    """Lines of text, gzipped without a date: the same samples make the same file."""
    for name, lines in samples.items():
        folder.mkdir(exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        write_whole(folder / name, gzip.compress(text.encode(), mtime=0))


def _borrow(order: Order, cell: Cell, lenders: Sequence[str]) -> None:
    """Take over a cell that another experiment has trained in the folder next door.

    It must be the same cell in all its settings; of its seeds, those that are wanted.
    """
    ours = order.part(cell.name, ".json")
    for lender in lenders:
        theirs = replace(order, out=order.out.parent / lender).part(cell.name, ".json")
        if ours.exists() or not theirs.exists():
            continue
        part = read_json(theirs)
        found, wanted = part.get("settings", {}), _cell_settings(order, cell)
        seeds = found.get("seeds", [])
        if found | {"seeds": wanted["seeds"]} != wanted or not set(order.seeds) <= set(seeds):
            continue
        picked = [seeds.index(seed) for seed in order.seeds]
        curve = part["curve"]
        lists = [key for key in curve if key not in ("iteration", "at")]
        curve |= {key: [[row[i] for i in picked] for row in curve[key]] for key in lists}
        part["measurements"] = [part["measurements"][i] for i in picked]
        write_json(ours, part | {"settings": wanted, "seconds": 0.0, "borrowed": lender})


def _cell_settings(order: Order, cell: Cell) -> Json:
    return {
        "cell": cell.name,
        "seeds": list(order.seeds),
        "device": order.device,
        **cell.describe(),
    }


# -- cells side by side -----------------------------------------------------------------


def _run_in_streams(
    order: Order, cells: Sequence[Cell], jobs: int, watch: Callable[[Progress], None]
) -> None:
    """Train cells on one GPU, each in a thread with a stream of its own.

    A replayed step is a long line of tiny kernels; lines of several cells run abreast.
    """

    def own_stream() -> None:
        torch.cuda.set_stream(torch.cuda.Stream())

    with (
        stop_signals() as stopped,
        ThreadPoolExecutor(max(1, jobs), initializer=own_stream) as pool,
    ):
        failed = threading.Event()

        def work(cell: Cell) -> None:
            if failed.is_set() or stopped():
                return
            try:
                run_cell(order, cell, watch, lambda: failed.is_set() or stopped())
            except BaseException:
                failed.set()
                raise

        futures = [pool.submit(work, cell) for cell in cells]
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda e: isinstance(e, Interrupted)):
            raise error  # what went wrong, before what was stopped because of it
        if stopped():
            raise Interrupted


def _run_in_processes(
    order: Order, names: list[str], jobs: int, threads: int, watch: Callable[[Progress], None]
) -> None:
    """Train cells in ``jobs`` processes of ``threads`` threads each.

    Small networks gain little from a second thread; a second cell costs nothing. Each worker
    has a pipe of its own, so that one that dies cannot lock the others out.
    """
    context = multiprocessing.get_context("spawn")
    waiting = list(names)
    workers: dict[Connection, BaseProcess] = {}
    failure: Exception | None = None
    ending = False
    with stop_signals() as stopped:
        # Ctrl-C in a terminal reaches the whole group: workers never see it and wait for our word.
        with held_back(signal.SIGINT):
            for _ in range(min(jobs, len(names))):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(order, threads, theirs), daemon=True)
                process.start()
                theirs.close()  # so that the end of the worker is the end of its messages
                workers[ours] = process
        while workers:
            for pipe in wait(list(workers), timeout=0.2):
                assert isinstance(pipe, Connection)
                try:
                    message = pipe.recv()
                except EOFError:
                    worker = workers.pop(pipe)
                    worker.join()
                    if worker.exitcode and failure is None and not (ending or stopped()):
                        failure = RuntimeError(f"a worker ended with exit code {worker.exitcode}")
                    continue
                if message is READY:
                    pipe.send(waiting.pop(0) if waiting else None)
                elif isinstance(message, Exception):
                    failure = failure or message
                else:
                    watch(message)
            if (stopped() or failure is not None) and not ending:
                ending = True
                waiting.clear()
                for worker in workers.values():
                    worker.terminate()  # it saves its cell, then ends
    if failure is not None:
        raise failure
    if stopped():
        raise Interrupted


READY = None  # a worker asks for its next cell; the answer None sends it home


def _work(order: Order, threads: int, pipe: Connection) -> None:
    """The life of a worker: ask for a cell, train it, until there is none."""
    torch.set_num_threads(threads)
    with stop_signals(signal.SIGTERM) as stopped:
        try:
            experiment = catalog.find(order.experiment, order.data)
            cells = {cell.name: cell for cell in experiment.cells(order.scale)}
            pipe.send(READY)
            while (name := pipe.recv()) is not None:
                run_cell(order, cells[name], pipe.send, stopped)
                pipe.send(READY)
        except Interrupted:
            pass
        except InputError as error:
            pipe.send(error)
        except Exception:  # told to the parent, which treats it as the bug it is
            pipe.send(RuntimeError(f"in a worker:\n{traceback.format_exc()}"))


# -- the run folder ---------------------------------------------------------------------


def _settings(order: Order, cells: Sequence[Cell]) -> Json:
    return {
        "experiment": order.experiment,
        "seeds": list(order.seeds),
        "device": order.device,
        "scale": order.scale.value,
        "cells": {cell.name: cell.describe() for cell in cells},
    }


def _claim_folder(order: Order, settings: Json) -> None:
    """Make the run folder ours, or refuse it if it holds another run."""
    note = order.out / "settings.json"
    try:
        known, finished = note.exists(), (order.out / "results.json").exists()
        if finished and not known:
            raise InputError(f"{order.out} holds results of another run; choose another --out")
        found = read_json(note) if known else settings
        differ = [key for key in settings if found.get(key) != settings[key]]
        if differ:
            raise InputError(
                f"{order.out} holds a run with other {' and '.join(differ)}; choose another --out"
            )
        (order.out / "parts").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {order.out}: {error.strerror}") from None
    if not known:
        write_json(note, settings)


@contextlib.contextmanager
def _stopwatch(order: Order) -> Iterator[Callable[[], float]]:
    """The wall time of a run over all its sessions, each of which leaves a note of its own."""
    notes = order.out / "parts"
    ours = notes / f"wall-{time.time_ns()}.json"
    earlier = sum(read_json(note)["seconds"] for note in notes.glob("wall-*.json"))
    started = time.monotonic()

    def seconds() -> float:
        now = time.monotonic() - started
        write_json(ours, {"seconds": now})
        return earlier + now

    try:
        yield seconds
    finally:
        seconds()


def write_json(path: Path, content: Json) -> None:
    text = json.dumps(content, indent=1, allow_nan=False)
    # A list of numbers on one line: readable, and a third of the size.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text)
    write_whole(path, text.encode() + b"\n")


def read_json(path: Path) -> Json:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {path} ({error}); delete it to run that part again"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a record of this program; delete it")
    return content


def rounded(value: Any, digits: int = 7) -> Any:
    """Floats to ``digits`` significant digits, all the way down: float32 has no more."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return value


def device_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU, {os.cpu_count()} cores ({platform.machine()})"


def versions() -> dict[str, str]:
    return {
        "discrete-meanflow": discrete_meanflow.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }
