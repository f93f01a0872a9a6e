"""The kernel of a 5,000-state sparse chain acting on a law: uniformization against dense expm.

    python bench/uniformization.py [--states 5000]

Each way runs in a process of its own, so that the peak of its anonymous memory is its own.
"""

import argparse
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import torch

from discrete_meanflow.ctmc.chains import BulkQueue, truncate
from discrete_meanflow.ctmc.transition import uniformized_action
from side_by_side import RESULTS, anonymous_mib, record

QUEUE = BulkQueue({1: 10.0, 8: 10.0, 64: 5.0}, service=40.0)


def measured(trajectory: str, states: int, pipe: Any) -> None:
    """Run one way; send (seconds, MiB above the start, law)."""
    u = truncate(QUEUE, states)
    p = torch.zeros(states, dtype=torch.float64)
    p[0] = 1
    before, peak, done = anonymous_mib(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], anonymous_mib())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    if trajectory == "dense":
        law = scipy.linalg.expm(u.to_dense().numpy()) @ p.numpy()
    else:
        law = uniformized_action(lambda v: u @ v, QUEUE.max_exit_rate, p, 1.0).numpy()
    taken = time.perf_counter() - started
    done.set()
    watcher.join()
    pipe.send((taken, max(peak[0], anonymous_mib()) - before, law))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=5_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    found = {}
    for trajectory in ("uniformization", "dense"):
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=measured, args=(trajectory, given.states, theirs))
        worker.start()
        found[trajectory] = ours.recv()
        worker.join()
    (fast, small, law), (slow, large, exact) = found["uniformization"], found["dense"]
    record(
        "uniformization",
        "cpu",
        f"python bench/uniformization.py --states {given.states}",
        {
            "states": given.states,
            "dense seconds": slow,
            "uniformization seconds": fast,
            "ratio": slow / fast,
            "dense MiB (anonymous)": large,
            "uniformization MiB (anonymous)": small,
            "max difference": float(np.abs(law - exact).max()),
        },
        given.out,
    )


if __name__ == "__main__":
    main()
