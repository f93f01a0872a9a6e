"""Run an experiment: train its cells, record the measurements, check the claims.

A run folder holds ``settings.json`` (what the run is), ``parts/`` (a JSON of measurements for
each finished cell, a checkpoint for each cell) and, at the end, ``results.json``. An interrupted
run resumes where it stopped; a run with other settings is never overwritten.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.run.environment import device_name, today, versions
from discrete_meanflow.run.json_files import write_json
from discrete_meanflow.run.progress import OnProgress, ProgressEvent
from discrete_meanflow.signals import stop_requests
from discrete_meanflow.training.resumable import SAVE_EVERY
from dmf_reproduction import catalog
from dmf_reproduction.engine.experiment import AnyCell, Experiment, Json
from dmf_reproduction.engine.record import read_part
from dmf_reproduction.engine.spec import RunSpec, cell_settings
from dmf_reproduction.engine.train_cell import train_cell, write_samples
from dmf_reproduction.engine.workers import run_in_processes, run_in_streams

CUDA_JOBS = 4  # cells trained side by side on one GPU


def reproduce(spec: RunSpec, on_progress: OnProgress) -> Json | None:
    """Run an experiment and return its results; None if ``spec.only`` leaves cells to train.

    ``spec.only`` splits a run into parts. To merge parts from several machines, copy their
    ``parts/`` and ``samples/`` into one folder and run without it.
    """
    experiment = catalog.find(spec.experiment, spec.data)
    if experiment.one_seed:
        spec = replace(spec, seeds=spec.seeds[:1])
    cells = experiment.cells(spec.scale)
    _check_selection(spec, cells)
    if spec.unfinished(cells) and spec.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this machine has no CUDA device; use --device cpu")
    settings, finished = _settings(spec, cells), spec.out / "results.json"
    with stop_requests() as stopped:  # once the folder is claimed, an interrupted run resumes
        _claim_folder(spec, settings)
        if finished.exists():
            return read_part(finished)
        for cell in cells:
            _reuse(spec, cell, experiment.reuses_cells_of)
        if stopped():
            raise Interrupted
    with _stopwatch(spec) as wall_seconds:
        _train(spec, cells, _noting(wall_seconds, on_progress))
        if spec.unfinished(cells):
            return None
        parts = {cell.name: _read_part(spec, cell) for cell in cells}
        results = assemble(experiment, spec, settings, parts)
        results["wall_seconds"] = round(wall_seconds(), 1)
    write_json(finished, results)
    return results


def _check_selection(spec: RunSpec, cells: Sequence[AnyCell]) -> None:
    if spec.only and not any(spec.only in cell.name for cell in cells):
        names = "; ".join(cell.name for cell in cells) or "it trains nothing"
        raise InputError(
            f"--only: no cell of {spec.experiment} contains '{spec.only}'; its cells: {names}"
        )


def _train(spec: RunSpec, cells: Sequence[AnyCell], on_progress: OnProgress) -> None:
    """Train the selected cells that are not finished."""
    pending = [cell for cell in spec.unfinished(cells) if spec.only in cell.name]
    # The number of threads depends on all cells: a resumed cell must round as it did before.
    cores = os.cpu_count() or 1
    jobs = max(1, min(spec.jobs or cores, len(cells)))
    threads = max(1, cores // jobs)
    if spec.device == "cuda":
        run_in_streams(spec, pending, spec.jobs or CUDA_JOBS, on_progress)
    elif jobs > 1:
        run_in_processes(spec, [cell.name for cell in pending], jobs, threads, on_progress)
    else:
        with stop_requests() as stopped:
            for cell in pending:
                train_cell(spec, cell, on_progress, stopped)


def _noting(wall_seconds: Callable[[], float], on_progress: OnProgress) -> OnProgress:
    """Record the wall time at most every 20 seconds, so that a killed run keeps it."""
    noted = time.monotonic()

    def report(event: ProgressEvent) -> None:
        nonlocal noted
        if time.monotonic() - noted > SAVE_EVERY:
            wall_seconds()
            noted = time.monotonic()
        on_progress(event)

    return report


def _read_part(spec: RunSpec, cell: AnyCell) -> Json:
    """The measurements of a cell. They may come from another machine: check their settings."""
    path = spec.part(cell.name, ".json")
    part = read_part(path)
    if part.pop("settings", None) != cell_settings(spec, cell):
        raise InputError(f"{path} was made with other settings; delete it to train that cell again")
    return part


def assemble(experiment: Experiment, spec: RunSpec, settings: Json, parts: Json) -> Json:
    """The JSON of a run: settings, raw measurements, and the claims computed from them."""
    facts = experiment.facts(spec.scale)
    write_samples(spec.out / "samples", facts.pop("samples", {}))
    if scores := experiment.scores(spec.out / "samples"):
        facts["scores"] = scores
    # An experiment that trains nothing ran here.
    origins = [(part.pop("device"), part.pop("versions")) for part in parts.values()]
    origins = origins or [(device_name("cpu"), versions())]
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "where": experiment.where,
        "command": spec.command,
        "date": today(),
        "of_the_paper": experiment.of_the_paper,
        "device": "; ".join(sorted({device for device, _ in origins})),
        "versions": origins[0][1],
        "training_seconds": round(sum(part["seconds"] for part in parts.values()), 1),
        "seeds": list(spec.seeds),
        "scale": spec.scale.value,
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
            f"{experiment.name}: a finished cell lacks {missing}; another version trained it. "
            "Delete the folder's parts/ to train again"
        ) from None


def _reuse(spec: RunSpec, cell: AnyCell, lenders: Sequence[str]) -> None:
    """Copy a cell that another experiment trained in the neighbouring folder.

    All its settings must agree; of its seeds, the requested ones are taken.
    """
    ours = spec.part(cell.name, ".json")
    expected = cell_settings(spec, cell)
    for lender in lenders:
        theirs = replace(spec, out=spec.out.parent / lender).part(cell.name, ".json")
        if ours.exists() or not theirs.exists():
            continue
        part = read_part(theirs)
        settings = part.get("settings", {})
        seeds = settings.get("seeds", [])
        same = settings | {"seeds": expected["seeds"]} == expected
        if not same or not set(spec.seeds) <= set(seeds):
            continue
        picked = [seeds.index(seed) for seed in spec.seeds]
        curve = part["curve"]
        lists = [key for key in curve if key not in ("iteration", "at")]
        curve |= {key: [[row[i] for i in picked] for row in curve[key]] for key in lists}
        part["measurements"] = [part["measurements"][i] for i in picked]
        write_json(ours, part | {"settings": expected, "seconds": 0.0, "reused from": lender})


def _settings(spec: RunSpec, cells: Sequence[AnyCell]) -> Json:
    return {
        "experiment": spec.experiment,
        "seeds": list(spec.seeds),
        "device": spec.device,
        "scale": spec.scale.value,
        "cells": {cell.name: cell.describe() for cell in cells},
    }


def _claim_folder(spec: RunSpec, settings: Json) -> None:
    """Take the run folder, or reject it if it holds another run."""
    path = spec.out / "settings.json"
    try:
        known, finished = path.exists(), (spec.out / "results.json").exists()
        if finished and not known:
            raise InputError(f"{spec.out} holds results of another run; choose another --out")
        existing = read_part(path) if known else settings
        differ = [key for key in settings if existing.get(key) != settings[key]]
        if differ:
            raise InputError(
                f"{spec.out} holds a run with other {' and '.join(differ)}; choose another --out"
            )
        (spec.out / "parts").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {spec.out}: {error.strerror}") from None
    if not known:
        write_json(path, settings)


@contextlib.contextmanager
def _stopwatch(spec: RunSpec) -> Iterator[Callable[[], float]]:
    """The wall time of a run over all its sessions; each session writes a file of its own."""
    folder = spec.out / "parts"
    ours = folder / f"wall-{time.time_ns()}.json"
    earlier = sum(read_part(path)["seconds"] for path in folder.glob("wall-*.json"))
    started = time.monotonic()

    def seconds() -> float:
        now = time.monotonic() - started
        write_json(ours, {"seconds": now})
        return earlier + now

    try:
        yield seconds
    finally:
        seconds()
