"""Rows of a table from this library and from CTGAN and TVAE, after equal minutes.

    python bench/tables.py diamonds.csv --target price --drop x y z --minutes 5 \
        --peer-python PEERS/bin/python

``PEERS`` is a virtual environment with the package ``ctgan``; it is no dependency. One fifth of the
rows is held out. Each system trains on the others and generates as many rows as are held out. The
scores of other held-out rows, in the row ``real``, are the best reachable.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.run.json_files import Json
from measure import RESULTS, record
from table_scores import scores

PEERS = ("CTGAN", "TVAE")
PEER_SCRIPT = Path(__file__).parent / "tables_peer.py"
STEPS = (1, 4, 16)
MOST = 10_000  # rows that are scored


def ours(train: pandas.DataFrame, n: int, minutes: float, seed: int) -> dict[str, pandas.DataFrame]:
    model = OneStepModel.fit(train, minutes, seed=seed, device="cpu")
    return {f"ours, {k} steps" if k > 1 else "ours": model.sample(n, k, seed=seed) for k in STEPS}


def peer(
    python: Path, name: str, train: pandas.DataFrame, n: int, minutes: float
) -> pandas.DataFrame:
    """Rows of a peer, which trains in a Python of its own."""
    with TemporaryDirectory() as folder:
        rows, out = Path(folder) / "train.csv", Path(folder) / "rows.csv"
        train.to_csv(rows, index=False)
        words = [python, PEER_SCRIPT, name, rows, out, str(n), str(minutes)]
        subprocess.run(list(map(str, words)), check=True)
        return pandas.read_csv(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--target", required=True, help="column that rows are used to predict")
    parser.add_argument("--drop", nargs="+", default=[])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--peer-python", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = pandas.read_csv(options.file).drop(columns=options.drop)
    table = table.sample(frac=1, random_state=options.seed).reset_index(drop=True)
    held_out, train = table[: len(table) // 5], table[len(table) // 5 :]
    n = min(MOST, len(held_out) // 2)
    reference, real = held_out[:n], held_out[n : 2 * n]

    def judge(rows: pandas.DataFrame) -> Json:
        return scores(train, reference, rows, options.target, options.seed)

    results, seconds = {"real": judge(real)}, {}
    for name in PEERS if options.peer_python else ():
        started = time.monotonic()
        made = peer(options.peer_python, name, train, n, options.minutes)
        seconds[name], results[name] = time.monotonic() - started, judge(made)
        print(name, results[name], file=sys.stderr)
    started = time.monotonic()
    made = ours(train, n, options.minutes, options.seed)
    seconds["ours"] = time.monotonic() - started
    results |= {name: judge(rows) for name, rows in made.items()}
    numbers = {
        "rows": len(train),
        "columns": len(table.columns),
        "minutes": options.minutes,
        "seed": options.seed,
        "threads": torch.get_num_threads(),
        "seconds": {name: round(value) for name, value in seconds.items()},
        "scores": results,
    }
    drop = f" --drop {' '.join(options.drop)}" if options.drop else ""
    command = (
        f"python bench/tables.py {options.file.name} --target {options.target}{drop} "
        f"--minutes {options.minutes:g} --seed {options.seed} --peer-python PEERS/bin/python"
    )
    record(f"tables-{options.file.stem}", "cpu", command, numbers, options.out)


if __name__ == "__main__":
    main()
