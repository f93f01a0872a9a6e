"""``dmf train`` on busy cores: our OpenMP spin count against OpenMP's default.

    python bench/busy_cores.py

The command lets waiting threads sleep sooner (GOMP_SPINCOUNT). The other programs are endless
loops, one per core.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from measure import RESULTS, record

STEPS = 100
DEFAULT_SPINS = "300000"  # the default of libgomp


def train_seconds(words: Path, spins: dict[str, str], others: int) -> float:
    """Seconds of training beside ``others`` other programs."""
    environment = {
        key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"
    } | spins
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for _ in range(others):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        out = Path(folder) / "run"
        train = ["-m", "discrete_meanflow", "train", words, "--iterations", STEPS, "--out", out]
        command = [sys.executable, *map(str, train)]
        subprocess.run(command, env=environment, capture_output=True, check=True)
        lines = (out / "metrics.jsonl").read_text().splitlines()
        return float(json.loads(lines[-1])["seconds"])


def main() -> None:
    rng = random.Random(0)
    numbers: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder) / "words.txt"
        lengths = (rng.randint(3, 12) for _ in range(5000))
        words.write_text("\n".join("".join(rng.choices("abcdefghij", k=n)) for n in lengths))
        for others in (0, os.cpu_count() or 1):
            theirs, ours = (
                train_seconds(words, spins, others)
                for spins in ({"GOMP_SPINCOUNT": DEFAULT_SPINS}, {})
            )
            numbers[f"{others} other programs: seconds, OpenMP's default"] = theirs
            numbers[f"{others} other programs: ours, relative to the default"] = ours / theirs
    record("busy-cores-cpu", "cpu", "python bench/busy_cores.py", numbers, RESULTS)


if __name__ == "__main__":
    main()
