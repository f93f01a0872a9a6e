"""Training steps per second: two processes on two cores against one, same batch size.

    python bench/distributed.py

Records of 24 positions over 12 symbols, a network of two million parameters, one thread per
process. The first block, which prepares the code, is not counted.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from discrete_meanflow.data import TokenArray
from discrete_meanflow.io.array_codec import ArrayCodec
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.sizing import CPU_SIZE, choose_plan
from discrete_meanflow.training import Distributed, Recipe, Trainer
from measure import RESULTS, record

BATCH, BLOCK, BLOCKS = 512, 20, 6
LAUNCH = ["-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]


def work() -> None:
    """The work of each process; the first one prints steps per second."""
    torch.set_num_threads(1)
    ranks = Distributed.from_environment("cpu")
    codec = ArrayCodec((24,), 12)
    g = torch.Generator().manual_seed(0)
    data = TokenArray(torch.randint(12, (5000, 24), generator=g), 12)
    problem = choose_plan(codec, "cpu", CPU_SIZE, FitOptions(batch=BATCH)).problem(codec, data)
    recipe = Recipe(BLOCK * BLOCKS, BATCH, ema_decay=0.999, block=BLOCK, compiled=False)
    blocks = Trainer(problem, recipe, [0], distributed=ranks).blocks()
    next(blocks)
    started = time.perf_counter()
    steps = BLOCK * sum(1 for _ in blocks)
    if ranks.first:
        print(steps / (time.perf_counter() - started))


def steps_per_second(processes: int) -> float:
    """Launch the processes and read their speed."""
    words = [sys.executable, *LAUNCH, "--nproc-per-node", str(processes), __file__, "--work"]
    done = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.work:
        return work()
    one, two = steps_per_second(1), steps_per_second(2)
    numbers = {
        "batch": BATCH,
        "one process, steps per second": one,
        "two processes, steps per second": two,
        "two processes over one": two / one,
    }
    record("distributed-cpu", "cpu", "python bench/distributed.py", numbers, options.out)


if __name__ == "__main__":
    main()
