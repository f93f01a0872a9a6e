"""Run an experiment: train its cells, keep what is done, judge its claims.

A run folder holds ``settings.json`` (what the run is), ``parts/`` (a JSON of measurements for
each finished cell, a checkpoint for each cell) and, at the end, ``results.json``. A run that
was interrupted goes on where it stopped; a run of other settings is never touched.
"""

import contextlib
import datetime
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.signals import stop_requests
from discrete_meanflow.training.resumable import SAVE_EVERY
from dmf_reproduction import catalog
from dmf_reproduction.engine.experiment import Cell, Experiment, Json
from dmf_reproduction.engine.record import device_name, read_json, versions, write_json
from dmf_reproduction.engine.spec import Progress, RunSpec, cell_settings
from dmf_reproduction.engine.train_cell import train_cell, write_samples
from dmf_reproduction.engine.workers import run_in_processes, run_in_streams

CUDA_JOBS = 4  # cells trained abreast on one GPU


def reproduce(order: RunSpec, watch: Callable[[Progress], None]) -> Json | None:
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
        _borrow(order, cell, experiment.reuses_cells_of)
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
            run_in_streams(order, pending, order.jobs or CUDA_JOBS, watched)
        elif jobs > 1:
            run_in_processes(order, [cell.name for cell in pending], jobs, threads, watched)
        else:
            with stop_requests() as stopped:
                for cell in pending:
                    train_cell(order, cell, watched, stopped)
        if order.unfinished(cells):
            return None
        parts = {cell.name: _read_part(order, cell) for cell in cells}
        results = assemble(experiment, order, settings, parts)
        results["wall_seconds"] = round(wall_seconds(), 1)
    write_json(finished, results)
    return results


def _read_part(order: RunSpec, cell: Cell) -> Json:
    """The measurements of a cell, which may have been made elsewhere: they must be of this run."""
    path = order.part(cell.name, ".json")
    part = read_json(path)
    if part.pop("settings", None) != cell_settings(order, cell):
        raise InputError(f"{path} was made with other settings; delete it to run that part again")
    return part


def assemble(experiment: Experiment, order: RunSpec, settings: Json, parts: Json) -> Json:
    """The JSON of a run: settings, raw measurements, and the claims computed from them."""
    facts = experiment.facts(order.scale)
    write_samples(order.out / "samples", facts.pop("samples", {}))
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


def _borrow(order: RunSpec, cell: Cell, lenders: Sequence[str]) -> None:
    """Take over a cell that another experiment has trained in the folder next door.

    It must be the same cell in all its settings; of its seeds, those that are wanted.
    """
    ours = order.part(cell.name, ".json")
    for lender in lenders:
        theirs = replace(order, out=order.out.parent / lender).part(cell.name, ".json")
        if ours.exists() or not theirs.exists():
            continue
        part = read_json(theirs)
        found, wanted = part.get("settings", {}), cell_settings(order, cell)
        seeds = found.get("seeds", [])
        if found | {"seeds": wanted["seeds"]} != wanted or not set(order.seeds) <= set(seeds):
            continue
        picked = [seeds.index(seed) for seed in order.seeds]
        curve = part["curve"]
        lists = [key for key in curve if key not in ("iteration", "at")]
        curve |= {key: [[row[i] for i in picked] for row in curve[key]] for key in lists}
        part["measurements"] = [part["measurements"][i] for i in picked]
        write_json(ours, part | {"settings": wanted, "seconds": 0.0, "borrowed": lender})


def _settings(order: RunSpec, cells: Sequence[Cell]) -> Json:
    return {
        "experiment": order.experiment,
        "seeds": list(order.seeds),
        "device": order.device,
        "scale": order.scale.value,
        "cells": {cell.name: cell.describe() for cell in cells},
    }


def _claim_folder(order: RunSpec, settings: Json) -> None:
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
def _stopwatch(order: RunSpec) -> Iterator[Callable[[], float]]:
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
