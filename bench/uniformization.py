"""Kernel of a 5,000-state sparse chain times a vector: uniformization against dense expm.

    python bench/uniformization.py [--states 5000]

Each method runs in its own process, so that its peak memory is its own.
"""

import argparse
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import torch

from discrete_meanflow.ctmc.uniformization import uniformized_action
from dmf_reproduction.bulk_queue import BulkQueue, truncate
from measure import RESULTS, anonymous_mib, record, watched

QUEUE = BulkQueue({1: 10.0, 8: 10.0, 64: 5.0}, service=40.0)


def measure(method: str, states: int, pipe: Any) -> None:
    """Run one method; send (seconds, MiB above the start, distribution)."""
    u = truncate(QUEUE, states)
    p = torch.zeros(states, dtype=torch.float64)
    p[0] = 1
    before = anonymous_mib()
    with watched() as peak:
        started = time.perf_counter()
        if method == "dense":
            law = scipy.linalg.expm(u.to_dense().numpy()) @ p.numpy()
        else:
            law = uniformized_action(lambda v: u @ v, QUEUE.max_exit_rate, p, 1.0).numpy()
        seconds = time.perf_counter() - started
    pipe.send((seconds, max(peak[0], anonymous_mib()) - before, law))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=5_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results = {}
    for method in ("uniformization", "dense"):
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=measure, args=(method, options.states, theirs))
        worker.start()
        results[method] = ours.recv()
        worker.join()
    (fast, small, law), (slow, large, exact) = results["uniformization"], results["dense"]
    record(
        "uniformization",
        "cpu",
        f"python bench/uniformization.py --states {options.states}",
        {
            "states": options.states,
            "dense seconds": slow,
            "uniformization seconds": fast,
            "ratio": slow / fast,
            "dense MiB (anonymous)": large,
            "uniformization MiB (anonymous)": small,
            "max difference": float(np.abs(law - exact).max()),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
