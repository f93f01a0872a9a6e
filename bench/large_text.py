"""Peak memory of training on a text of 2 GB.

    python bench/large_text.py [--lines] [--bytes 2e9]

Records are windows of one text or, with --lines, its distinct lines.

Measures anonymous resident memory ten times a second. Pages of mapped files are not counted: the
system reclaims them when it needs memory.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

from measure import RESULTS, anonymous_mib, record

WORDS = ["the", "of", "and", "to", "in", "that", "was", "for", "with", "his", "they", "one", "by"]


def write_text(path: Path, size: int, lines: bool) -> None:
    """Random words, eight per line or in one paragraph: nearly all windows and lines differ."""
    g = numpy.random.default_rng(0)
    with open(path, "w") as file:
        while file.tell() < size:
            words = numpy.array(WORDS)[g.integers(0, len(WORDS), (125_000, 8))]
            joined = "\n".join(map(" ".join, words)) + "\n"
            file.write(joined if lines else joined.replace("\n", " ") + "\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=float, default=2e9)
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    name, command = "large-text", "python bench/large_text.py"
    if options.lines:
        name, command = "large-lines", f"{command} --lines"
    with tempfile.TemporaryDirectory() as folder:
        text, run = Path(folder) / "text.txt", Path(folder) / "run"
        write_text(text, int(options.bytes), options.lines)
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
    record(name, "cpu", command, numbers, options.out)


if __name__ == "__main__":
    main()
