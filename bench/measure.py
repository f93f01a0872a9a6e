"""Shared by the benchmarks: timing, memory, and the record of a run."""

import contextlib
import datetime
import json
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discrete_meanflow.kernel import Kernel
from discrete_meanflow.process import PathSample
from discrete_meanflow.run.environment import device_name, versions
from discrete_meanflow.training import Trainer

RESULTS = Path(__file__).parent.parent / "results" / "bench"


def seconds(call: Callable[[], object], repeats: int, device: str = "cpu") -> float:
    """Median wall time of a call, after one warm-up call."""
    times = []
    for _ in range(repeats + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def anonymous_mib(process: int | str = "self") -> float:
    """Anonymous resident memory of a process, without mapped files; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(x.split()[1]) / 1024 for x in lines if x.startswith("RssAnon")), 0.0)


@contextlib.contextmanager
def watched() -> Iterator[list[float]]:
    """Yield ``[MiB]``: the largest anonymous memory of this process inside the block."""
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], anonymous_mib())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:  # also after an exception
        done.set()
        watcher.join()


def eager_step(
    kernel: Kernel, loss: Callable[[int], Tensor], steps: int, repeats: int, device: str
) -> float:
    """Seconds per step of an eager loop over one seed; ``loss(i)`` is the loss of step i."""
    optimiser = torch.optim.AdamW(kernel.parameters(), lr=3e-4, weight_decay=1e-5)

    def block() -> None:
        for i in range(steps):
            optimiser.zero_grad()
            loss(i).backward()
            nn.utils.clip_grad_norm_(kernel.parameters(), 1.0)
            optimiser.step()

    return seconds(block, repeats, device) / steps


def library_step(trainer: Trainer, paths: PathSample, repeats: int, device: str) -> float:
    """Seconds per step and seed of the library's training step."""
    steps = len(paths.x)
    rates = torch.full((steps, 2), 3e-4, device=device)
    run = trainer._prepared(paths, rates)
    return seconds(lambda: run(paths, rates), repeats, device) / steps / len(trainer.seeds)


def record(name: str, device: str, command: str, numbers: dict[str, Any], folder: Path) -> None:
    """Print the numbers and write them with command, date, device and versions."""
    content = {
        "bench": name,
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "device": device_name(device),
        "system": platform.system(),
        "versions": versions(),
        **numbers,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    for key, value in numbers.items():
        print(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")
