"""Peak memory and time of training on a table of 1,000,000 rows and 20 columns.

    python bench/large_table.py [--rows 1e6] [--form csv parquet pandas]

Columns contain numbers, levels, dates and holes; one has 12,000 levels. Memory is the largest
anonymous resident memory, measured ten times a second.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from measure import RESULTS, anonymous_mib, record

ITERATIONS = 40
FORMS = ("csv", "parquet", "pandas")
FIT = """
import sys, pandas
from discrete_meanflow import OneStepModel
frame = pandas.read_parquet(sys.argv[1])
print("table", flush=True)
OneStepModel.fit(frame, iterations=int(sys.argv[3]), device="cpu", out=sys.argv[2])
"""


def table(rows: int) -> pyarrow.Table:
    """Columns that depend on a hidden group, and on noise."""
    g = numpy.random.default_rng(0)
    group = g.integers(0, 5, rows)
    day, minute = numpy.datetime64("2000-01-01"), numpy.datetime64("2013-01-01T00:00:00")
    columns: dict[str, Any] = {
        "product": words("p", (g.zipf(1.2, rows) * 7 + group) % 12_000),
        "shop": words("s", (g.integers(0, 300, rows) + 60 * group) % 1000),
        "count": g.poisson(3 + group),
        "age": g.integers(17, 60, rows) + 5 * group,
        "gain": numpy.where(g.random(rows) < 0.9, 0, g.lognormal(8, 2, rows).astype(int)),
        "hundreds": 100 * g.integers(-10_000, 10_000, rows),
        "day": day + g.integers(0, 3000, rows) + 1000 * group,
        "minute": minute + 60 * g.integers(0, 500_000, rows),
        "new": g.random(rows) < 0.2 + 0.1 * group,
    }
    columns |= {f"price{i}": g.lognormal(3 + group / 5, 1, rows).round(2) for i in range(3)}
    columns |= {f"float{i}": g.normal(group, 1, rows) for i in range(3)}
    columns |= {f"word{i}": words("w", (g.integers(0, 9, rows) + group) % 12) for i in range(5)}
    holes = {name: g.random(rows) < 0.05 for name in ("shop", "price0", "word0", "day", "age")}
    arrays = {name: pyarrow.array(x, mask=holes.get(name)) for name, x in columns.items()}
    return pyarrow.table(arrays)


def words(prefix: str, numbers: numpy.ndarray) -> numpy.ndarray:
    """Words with these numbers."""
    return numpy.char.add(prefix, numbers.astype(str)).astype(object)


def watch(command: list[object]) -> tuple[float, float, float]:
    """Run a command; return its peak memory, and the seconds to its first line and to its end."""
    started, peak, first = time.monotonic(), 0.0, 0.0
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    while process.poll() is None:
        peak = max(peak, anonymous_mib(process.pid))
        if process.stdout.read() and not first:
            first = time.monotonic() - started
        time.sleep(0.1)
    if process.returncode:
        sys.exit(process.returncode)
    return peak, first, time.monotonic() - started


def measure_form(form: str, folder: Path, rows: int) -> dict[str, float]:
    """Train on a file or frame; sample as many rows from a run on a file."""
    source, run = folder / f"table.{'csv' if form == 'csv' else 'parquet'}", folder / form
    dmf = [sys.executable, "-m", "discrete_meanflow"]
    train = [*dmf, "train", source, "--out", run, "--iterations", ITERATIONS, "--device", "cpu"]
    if form == "pandas":
        train = [sys.executable, "-c", FIT, source, run, ITERATIONS]
    started = time.time()
    peak, reading, _ = watch(train)
    blocks = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    numbers = {
        f"{form}: largest anonymous memory, MiB": peak,
        f"{form}: reading, s": reading,
        f"{form}: reading and preparation, s": (run / "config.json").stat().st_mtime - started,
        f"{form}: tokens per second": blocks[-1]["tokens_per_second"],
    }
    if form != "pandas":
        out = folder / f"samples{source.suffix}"
        sample = [*dmf, "sample", run, "-n", rows, "--seed", 0, "--out", out, "--device", "cpu"]
        peak, _, seconds = watch(sample)
        numbers[f"{form}: memory of sampling, MiB"] = peak
        numbers[f"{form}: sampled rows per second"] = rows / seconds
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--form", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = int(options.rows)
    numbers: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, content = Path(name), table(rows)
        pyarrow.csv.write_csv(content, folder / "table.csv")
        pyarrow.parquet.write_table(content, folder / "table.parquet")
        numbers["rows"] = rows
        numbers["CSV, MB"] = (folder / "table.csv").stat().st_size / 1e6
        del content
        for form in options.form:
            numbers |= measure_form(form, folder, rows)
    record("large-table", "cpu", "python bench/large_table.py", numbers, options.out)


if __name__ == "__main__":
    main()
