"""Feed damaged files, damaged run folders and odd arguments to the library.

Each case must work or raise an ``InputError`` of one line. Prints every other exception with the
seed that repeats it, and a summary; the exit code is 1 if there was one.

    python bench/fuzz.py --count 300
"""

import argparse
import collections
import contextlib
import gzip
import inspect
import io
import json
import random
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pandas
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.detect import detect
from discrete_meanflow.model.options import KindName, ReadOptions
from discrete_meanflow.model.read import read_dataset

Case = Callable[[random.Random, Path], object]
SECONDS = 60  # of a case
WORDS = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in ("", "i", "jk")]
TABLE = pandas.DataFrame(
    {
        "colour": ["red", "blue", "grey"] * 16,
        "number": [0.5 * i for i in range(48)],
        "day": pandas.date_range("2024-01-01", periods=48),
        "kind": pandas.Categorical(["x", "y"] * 24),
    }
)
ARRAY = numpy.random.default_rng(0).integers(0, 3, (48, 2, 3))
TINY: dict[str, Any] = {"iterations": 2, "size": 1e4, "batch": 8, "device": "cpu"}
TOKENS = (
    "", "0", "-1", "1e999", "9" * 5000, "NaN", "\0", "\ud800", "\x1b[2J", "\r", "\n", '"', ",", "?",
    "{", "2024-02-30", "9999999-01-01", "x" * 100_000,
)  # fmt: skip


def odd_values() -> list[Any]:
    """Values that no argument expects."""
    return [
        None, True, -1, 0, 10**5000, 2**70, 1.5, float("nan"), float("inf"), 1j, b"x", "", ".",
        "abab", "\0", "\ud800", "x" * 300, "?" * 5000, "9" * 5000, [], {}, (), set(), [None], [[]],
        ["a", 5], {"a": 1}, {"colour": "red"}, {"number": ">=3"}, [0, None, 3], ["a", "\ud800"],
        range(3), object(), object, len, iter([1, 2]), numpy.int64(2), numpy.float32(0.5),
        numpy.array([1, 2]), numpy.array(5), numpy.zeros((0, 3)), numpy.array(["a", None], object),
        torch.zeros(2, 3), torch.tensor(1), TABLE, TABLE.head(0), TABLE["colour"], pandas.NA,
        pandas.NaT, Path("nowhere"), WORDS, ARRAY, WORDS[:1], ["a" * 5000, "b"],
    ]  # fmt: skip


def write_files(folder: Path) -> list[Path]:
    """A file of every kind."""
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(WORDS))
    (folder / "a.smi").write_text("".join("C" * n + "O" * (n % 3) + "\n" for n in range(1, 30)))
    (folder / "a.fasta").write_text("".join(f">{i}\n{w}\n" for i, w in enumerate(WORDS)))
    (folder / "long.txt").write_text("it was a dark and stormy night.\n\n" * 40)
    TABLE.to_csv(folder / "a.csv", index=False)
    TABLE.to_csv(folder / "a.tsv", index=False, sep="\t")
    TABLE.to_csv(folder / "b.csv.gz", index=False)
    TABLE.to_parquet(folder / "a.parquet")
    numpy.save(folder / "a.npy", ARRAY)
    numpy.savez_compressed(folder / "a.npz", x=ARRAY, y=numpy.arange(48) % 2)
    return sorted(folder.iterdir())


def mutated(rng: random.Random, content: bytes) -> bytes:
    """Content with bytes replaced, removed, repeated or inserted."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 6))):
        place = rng.randrange(len(data) + 1)
        length = rng.choice((1, 1, 4, 40))
        change = rng.randrange(5)
        if change == 0:
            data[place : place + 1] = bytes([rng.randrange(rng.choice((128, 256)))])
        elif change == 1:
            del data[place : place + length]
        elif change == 2:
            data[place:place] = data[place : place + length] * rng.choice((1, 3, 100))
        elif change == 3:
            data[place:place] = rng.choice(TOKENS).encode(errors="surrogatepass")
        elif not data.isascii():
            data[place : place + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"))
    return bytes(data)


def file_case(files: list[Path]) -> Case:
    """Read a damaged file, by its name or as another kind."""
    kinds: tuple[KindName, ...] = (
        *("auto",) * 6,
        "lines",
        "windows",
        "smiles",
        "fasta",
        "table",
        "array",
    )

    def case(rng: random.Random, folder: Path) -> None:
        source = rng.choice(files)
        path, content = folder / source.name, mutated(rng, source.read_bytes())
        if rng.random() < 0.1:
            path, content = folder / f"{source.name}.gz", gzip.compress(content)
        path.write_bytes(content)
        label = rng.choice((*(None,) * 6, "y", "colour", str(path)))
        kind = rng.choice(kinds)
        _, dataset = read_dataset(path, ReadOptions(kind, label=label))
        dataset.codec.card(dataset)
        dataset.encoded()
        detect(path)

    return case


def mutated_json(rng: random.Random, value: Any) -> Any:
    """JSON in which one value is another."""
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(keys)
        changed = value.copy()
        if rng.random() < 0.1:
            del changed[key]
        else:
            changed[key] = mutated_json(rng, value[key])
        return changed
    return rng.choice(
        [None, True, -1, 0, 1, 3, 2**31, 2**70, 1.5, float("nan"), float("inf"), [], {}, [value],
         *TOKENS, [0] * 3, [[1]], {"a": value}]
    )  # fmt: skip


def folder_case(runs: list[Path]) -> Case:
    """Use a damaged run folder: load, sample, resume."""

    def case(rng: random.Random, folder: Path) -> None:
        run = folder / "run"
        shutil.copytree(rng.choice(runs), run)
        if rng.random() < 0.5:
            (run / "weights.safetensors").unlink()
        for _ in range(rng.choice((1, 1, 2))):
            path = rng.choice(sorted(path for path in run.iterdir() if path.is_file()))
            if path.suffix == ".json" and rng.random() < 0.8:
                content = mutated_json(rng, json.loads(path.read_text()))
                path.write_text(json.dumps(content), errors="surrogatepass")
            else:
                path.write_bytes(mutated(rng, path.read_bytes()))
        model = OneStepModel.load(run, "cpu", from_checkpoint=True)
        model.sample(3, seed=0)
        repr(model)
        if not (run / "weights.safetensors").exists() and model.config.plan.steps <= 100:
            OneStepModel.resume(run, "cpu")

    return case


def call_case(runs: list[Path]) -> Case:
    """Call the Python API with one or two odd arguments."""
    arguments = {
        name: [x for x in inspect.signature(getattr(OneStepModel, name)).parameters if x != "self"]
        for name in ("fit", "sample", "fill", "evaluate", "load", "resume", "save")
    }
    required = {"fill": {"rows": TABLE}, "evaluate": {"n": 8, "steps": [1]}, "sample": {"n": 2}}

    def case(rng: random.Random, folder: Path) -> None:
        name = rng.choice(["fit", "fit", "sample", "sample", *arguments])
        values = dict(required.get(name, {}))
        values |= TINY if name == "fit" else {}
        values |= {"records": rng.choice((WORDS, TABLE, ARRAY))} if name == "fit" else {}
        run = rng.choice(runs)
        values |= {"folder": folder / "x" if name == "save" else run} if name in (
            "load", "resume", "save") else {}  # fmt: skip
        for argument in rng.choices(arguments[name], k=rng.choice((1, 1, 2))):
            values[argument] = rng.choice(odd_values())
        cost = [values.get(key) for key in ("n", "draws", "steps", "lm_steps", "minutes")]
        if any(isinstance(x, int) and 100 < x < 10**9 for x in cost):
            return
        target = OneStepModel if name in ("fit", "load", "resume") else OneStepModel.load(run)
        getattr(target, name)(**values)

    return case


class TooSlowError(BaseException):
    """A case took longer than its limit."""


def attempt(case: Case, seed: str) -> str:
    """Run a case; say how it ended."""

    def stop(*_: object) -> None:
        raise TooSlowError(f"over {SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory(prefix="dmf-fuzz-") as folder:
        signal.alarm(SECONDS)
        try:
            with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                case(random.Random(seed), Path(folder))
        except InputError as error:
            lines = len(str(error).splitlines())
            return "rejected" if lines == 1 and len(str(error)) < 10_000 else f"{lines} lines"
        except (Exception, TooSlowError) as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            print(f"{seed}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
            return f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
        finally:
            signal.alarm(0)
    return "accepted"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="cases of each sort (10,000, 1,500 and 2,000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="a single case again, such as calls-0-17")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="dmf-fuzz-") as name:
        files = write_files(Path(name) / "files")
        runs = [Path(name) / kind for kind in ("lines", "table", "array")]
        for run, records in zip(runs, (WORDS, TABLE, ARRAY), strict=True):
            OneStepModel.fit(records, out=run, **TINY | {"iterations": 8})
        sorts = {
            "files": (file_case(files), 10_000),
            "folders": (folder_case(runs), 1500),
            "calls": (call_case(runs), 2000),
        }
        if options.case:
            with contextlib.chdir(name):
                sorts[options.case.partition("-")[0]][0](random.Random(options.case), Path(name))
            return 0
        failed = False
        for sort, (case, count) in sorts.items():
            numbers = range(count if options.count is None else options.count)
            ends = collections.Counter(attempt(case, f"{sort}-{options.seed}-{i}") for i in numbers)
            failed |= bool(set(ends) - {"accepted", "rejected"})
            print(f"{sort}: {dict(ends.most_common())}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
