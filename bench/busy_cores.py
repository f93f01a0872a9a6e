"""``dmf train`` on cores that other programs use, against the same with OpenMP's own waiting.

    python bench/busy_cores.py

The command has threads that wait for each other sleep sooner (GOMP_SPINCOUNT). The others are as
many endless loops as there are cores.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from side_by_side import RESULTS, record

STEPS = 100
OPENMPS = "300000"  # what libgomp takes by itself


def measured(words: Path, spins: dict[str, str], others: int) -> float:
    """Seconds of training, with so many other programs."""
    given = {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"} | spins
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for _ in range(others):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        out = Path(folder) / "run"
        train = ["-m", "discrete_meanflow", "train", words, "--iterations", STEPS, "--out", out]
        command = [sys.executable, *map(str, train)]
        subprocess.run(command, env=given, capture_output=True, check=True)
        lines = (out / "metrics.jsonl").read_text().splitlines()
        return float(json.loads(lines[-1])["seconds"])


def main() -> None:
    draw = random.Random(0)
    numbers: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder) / "words.txt"
        lengths = (draw.randint(3, 12) for _ in range(5000))
        words.write_text("\n".join("".join(draw.choices("abcdefghij", k=n)) for n in lengths))
        for others in (0, os.cpu_count() or 1):
            theirs, ours = (measured(words, s, others) for s in ({"GOMP_SPINCOUNT": OPENMPS}, {}))
            numbers[f"{others} other programs: seconds, OpenMP's waiting"] = theirs
            numbers[f"{others} other programs: ours, over that"] = ours / theirs
    record("busy-cores-cpu", "cpu", "python bench/busy_cores.py", numbers, RESULTS)


if __name__ == "__main__":
    main()
