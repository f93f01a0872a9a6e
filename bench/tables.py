"""Rows of a table from this library and from its peers, after equal minutes.

    PEERS/bin/python bench/table_files.py
    python bench/tables.py diamonds.csv --target price --minutes 5 \
        --peer-python PEERS/bin/python --tabdiff TABDIFF

``PEERS`` is a virtual environment with the package ``ctgan`` (CTGAN and TVAE), and ``TABDIFF`` a
checkout of https://github.com/MinkaiXu/TabDiff, whose imports ``PEERS`` has too; both are no
dependencies. ``TabDiff`` has the configured batches of 4,096 rows, of which a CPU core computes few
in minutes; ``TabDiff-256`` has smaller ones. ``tables_peer.py`` says how peers are run.

One fifth of the rows is held out. Each system trains on the others and generates as many rows as
are scored. The scores of held-out rows, in the row ``real``, are the best reachable. Results are
written after each system, and a peer that fails is recorded with its reason. ``--systems`` runs
some systems and adds them to the record.
"""

import argparse
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pandas
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.run.json_files import Json, read_json
from measure import RESULTS, record
from table_scores import scores

OURS = "ours"
GANS, TABDIFFS = ("CTGAN", "TVAE"), ("TabDiff", "TabDiff-256")
PEER_SCRIPT = Path(__file__).parent / "tables_peer.py"
STEPS = (1, 4, 16)
MOST = 5_000  # rows that are scored: TabDiff takes minutes to sample them
Frame: TypeAlias = pandas.DataFrame


class PeerError(Exception):
    """A peer has failed."""


@dataclass(frozen=True)
class Made:
    """Rows of a system.

    Args:
        rows: by system and number of steps.
        sampling: seconds for the same.
        training: seconds.
        details: of a peer: its version and its number of training steps.
    """

    rows: dict[str, Frame]
    sampling: dict[str, float]
    training: float
    details: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """What each system gets.

    Args:
        train: rows to train on.
        n: rows to generate.
        minutes: of training.
    """

    train: Frame
    n: int
    minutes: float
    seed: int


def ours(task: Task) -> Made:
    started = time.monotonic()
    model = OneStepModel.fit(task.train, task.minutes, seed=task.seed, device="cpu")
    training, rows, sampling = time.monotonic() - started, {}, {}
    for steps in STEPS:
        name = OURS if steps == 1 else f"{OURS}, {steps} steps"
        started = time.monotonic()
        rows[name] = model.sample(task.n, steps, seed=task.seed)
        sampling[name] = time.monotonic() - started
    return Made(rows, sampling, training)


def peer(name: str, task: Task, python: Path, tabdiff: Path | None) -> Made:
    """Rows of a peer, which trains in a Python of its own."""
    with TemporaryDirectory() as folder:
        train, out = Path(folder) / "train.csv", Path(folder) / "rows.csv"
        task.train.to_csv(train, index=False)
        words = [python, PEER_SCRIPT, name, train, out]
        words += ["--rows", task.n, "--minutes", task.minutes, "--seed", task.seed]
        words += ["--tabdiff", tabdiff] if name in TABDIFFS else []
        threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, env=os.environ | threads
        )
        if done.returncode < 0:
            name_of_signal = signal.Signals(-done.returncode).name
            raise PeerError(f"ended by {name_of_signal}, as when the machine is out of memory")
        if done.returncode:
            raise PeerError(done.stderr.strip().splitlines()[-1][:300])
        details = read_json(out.with_suffix(".json"))
        training, sampling = (float(details.pop(key)) for key in ("training", "sampling"))
        return Made({name: pandas.read_csv(out)}, {name: sampling}, training, details)


class Results:
    """The record of a comparison, which grows with each system.

    Args:
        file: of the record.
        settings: of the comparison.
        keep: whether to add to an earlier record of the same settings.
    """

    def __init__(self, file: Path, settings: Json, keep: bool) -> None:
        old = read_json(file) if keep and file.exists() else {}
        same = all(old.get(key) == value for key, value in settings.items())
        parts = ("seconds", "seconds per 1,000 rows", "peers", "failed", "scores")
        self._parts: Json = {part: dict(old[part]) if same else {} for part in parts}
        self._file, self._settings = file, settings

    def add(self, part: str, name: str, value: object) -> None:
        self._parts[part][name] = value

    def forget(self, system: str) -> None:
        """Drop what an earlier run says about a system."""
        for part in self._parts.values():
            for name in [name for name in part if name.split(",")[0] == system]:
                del part[name]

    def write(self, command: str) -> None:
        record(self._file.stem, "cpu", command, self._settings | self._parts, self._file.parent)


def run(options: argparse.Namespace, systems: Sequence[str]) -> None:
    table = pandas.read_csv(options.file).drop(columns=options.drop)
    table = table.sample(frac=1, random_state=options.seed).reset_index(drop=True)
    held_out, train = table[: len(table) // 5], table[len(table) // 5 :]
    n = min(MOST, len(held_out) // 2)
    reference, real = held_out[:n], held_out[n : 2 * n]
    settings: Json = {
        "rows": len(train),
        "columns": len(table.columns),
        "minutes": options.minutes,
        "seed": options.seed,
        "threads": torch.get_num_threads(),
    }
    file = options.out / f"tables-{options.file.stem}.json"
    results = Results(file, settings, keep=options.systems is not None)
    task = Task(train, n, options.minutes, options.seed)

    def judge(name: str, rows: Frame) -> None:
        results.add("scores", name, scores(train, reference, rows, options.target, options.seed))

    judge("real", real)
    for system in systems:
        results.forget(system)
        try:
            made = (
                ours(task)
                if system == OURS
                else peer(system, task, options.peer_python, options.tabdiff)
            )
            for name, rows in made.rows.items():
                judge(name, rows)
                seconds = made.sampling[name] * 1000 / n
                results.add("seconds per 1,000 rows", name, round(seconds, 3))
            results.add("seconds", system, round(made.training))
            if made.details:
                results.add("peers", system, made.details)
        except PeerError as error:
            results.add("failed", system, str(error))
        results.write(command(options))


def command(options: argparse.Namespace) -> str:
    """The command of the whole record."""
    drop = f" --drop {' '.join(options.drop)}" if options.drop else ""
    return (
        f"python bench/tables.py {options.file.name} --target {options.target}{drop} "
        f"--minutes {options.minutes:g} --seed {options.seed} --peer-python PEERS/bin/python "
        "--tabdiff TABDIFF"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--target", required=True, help="column that rows are used to predict")
    parser.add_argument("--drop", nargs="+", default=[])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--peer-python", type=Path)
    parser.add_argument("--tabdiff", type=Path, help="checkout of TabDiff")
    parser.add_argument("--systems", nargs="+", choices=[*GANS, *TABDIFFS, OURS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    gans = GANS if options.peer_python else ()
    tabdiffs = TABDIFFS if options.peer_python and options.tabdiff else ()
    available = (*gans, *tabdiffs, OURS)
    systems = options.systems or available
    for system in systems:
        if system not in available:
            parser.error(f"{system} needs --peer-python, and TabDiff --tabdiff too")
    run(options, systems)


if __name__ == "__main__":
    main()
