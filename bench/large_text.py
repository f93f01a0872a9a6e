"""Memory of training on a text of 2 GB: the most that the process ever held for itself.

    python bench/large_text.py [--bytes 2e9]

Anonymous resident memory, looked at ten times a second; pages of mapped files are not counted,
the system takes them back when it needs them.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

from side_by_side import RESULTS, anonymous_mib, record

WORDS = ["the", "of", "and", "to", "in", "that", "was", "for", "with", "his", "they", "one", "by"]


def write_text(path: Path, size: int) -> None:
    """Random words: a text in which no window is like another."""
    g = numpy.random.default_rng(0)
    with open(path, "w") as file:
        while file.tell() < size:
            file.write(" ".join(numpy.array(WORDS)[g.integers(0, len(WORDS), 1_000_000)]) + "\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=float, default=2e9)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, run = Path(folder) / "text.txt", Path(folder) / "run"
        write_text(text, int(given.bytes))
        words = [sys.executable, "-m", "discrete_meanflow", "train", str(text), "--out", str(run),
                 "--iterations", "200", "--device", "cpu"]  # fmt: skip
        started, peak = time.monotonic(), 0.0
        process = subprocess.Popen(words)
        while process.poll() is None:
            peak = max(peak, anonymous_mib(process.pid))
            time.sleep(0.1)
        if process.returncode:
            sys.exit(process.returncode)
        numbers = {
            "text, MB": text.stat().st_size / 1e6,
            "largest anonymous memory, MiB": peak,
            "seconds": time.monotonic() - started,
        }
    record("large-text", "cpu", "python bench/large_text.py", numbers, given.out)


if __name__ == "__main__":
    main()
