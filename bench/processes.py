"""Training steps a second of two processes on two cores over those of one, same batch.

    python bench/processes.py

Each process has one thread. The numbers come from the runs' own metrics.jsonl, of the first
stage, without its first block.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

from side_by_side import RESULTS, record

LAUNCH = ["-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]


def pace(processes: int, data: Path, out: Path, iterations: int) -> float:
    """Steps a second."""
    words = [
        sys.executable, *LAUNCH, "--nproc-per-node", str(processes), "-m", "discrete_meanflow",
        "train", str(data), "--out", str(out), "--iterations", str(2 * iterations),
        "--batch", "512", "--device", "cpu",
    ]  # fmt: skip
    subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["iteration"] <= iterations]
    steps = lines[-1]["iteration"] - lines[0]["iteration"]
    return steps / (lines[-1]["seconds"] - lines[0]["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npy"
        numpy.save(data, numpy.random.default_rng(0).integers(0, 12, (5000, 24)))
        one, two = (pace(n, data, Path(folder) / str(n), given.iterations) for n in (1, 2))
    numbers = {
        "batch": 512,
        "one process, steps per second": one,
        "two processes, steps per second": two,
        "two processes over one": two / one,
    }
    record("processes-cpu", "cpu", "python bench/processes.py", numbers, given.out)


if __name__ == "__main__":
    main()
