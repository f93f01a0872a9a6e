"""From a file to a one-step generator and back to a file of the same kind."""

import contextlib
import errno
import gc
import gzip
import importlib.util
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

import side_by_side
from discrete_meanflow import OneStepModel
from discrete_meanflow.data import TokenArray, windows
from discrete_meanflow.data import kind as kinds
from discrete_meanflow.data.arrays import Arrays
from discrete_meanflow.data.cells import type_of, type_told_by
from discrete_meanflow.data.classes import Classed
from discrete_meanflow.data.columns import Columns
from discrete_meanflow.data.pieces import Pieces
from discrete_meanflow.data.strings import Strings
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.onestep import drawn as drawing
from discrete_meanflow.onestep import export as exporting
from discrete_meanflow.onestep import folder as run
from discrete_meanflow.onestep import plan as plans
from discrete_meanflow.onestep.drawn import Asked, draw, find, keep
from discrete_meanflow.onestep.evaluate import Judge, evaluate, judged
from discrete_meanflow.onestep.export import export
from discrete_meanflow.onestep.plan import Plan, choose, fitted, sensible_size
from discrete_meanflow.onestep.prepare import cut, dataset_of, prepare
from discrete_meanflow.onestep.train import train
from discrete_meanflow.sampler import lot_size
from discrete_meanflow.training import Coupling, Processes, Recipe, checkpoint, session
from test_cli import in_process

FILES = [name for name in kinds.KINDS if name != "tokenised"]  # which has a test of its own
WORDS = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in ("", "i", "jk")]
ROWS = [[a, b, "same"] for a in ("red", "blue", "grey") for b in ("x", "y")] * 6


def write(folder, kind):
    """A small file of each kind."""
    if kind == "array":
        path = folder / "data.npy"
        numpy.save(path, numpy.random.default_rng(0).integers(0, 3, (60, 2, 3)))
        return path
    text = {
        "lines": ("data.txt", "\n".join(WORDS)),
        "windows": ("long.txt", "it was a dark and stormy night.\n\n" * 40),
        "smiles": (
            "data.smi",
            "smiles\n" + "\n".join("C" * n + "O" * (n % 3) for n in range(1, 40)),
        ),
        "fasta": ("data.fasta.gz", "".join(f">{i}\n{w}\n" for i, w in enumerate(WORDS))),
        "table": ("data.csv", "colour,letter,k\n" + "\n".join(",".join(r) for r in ROWS)),
    }
    name, content = text[kind]
    path = folder / name
    content = content.encode()
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny trained run of each kind, by the command line."""
    folder = tmp_path_factory.mktemp("runs")
    for kind in FILES:
        (folder / "files").mkdir(exist_ok=True)
        path = write(folder / "files", kind)
        words = ["train", path, "--out", folder / kind, "--iterations", 20, "--size", 1e4,
                 "--batch", 16, "--device", "cpu"]  # fmt: skip
        words += ["--length", 16] if kind == "windows" else []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["dmf", *map(str, words)])
            from discrete_meanflow.cli import main

            with pytest.raises(SystemExit) as ended:
                main()
        assert not ended.value.code
    return folder


@pytest.mark.parametrize("kind", FILES)
def test_files_are_told_and_read(kind, tmp_path):
    path = write(tmp_path, kind)
    assert type(kinds.detect(path)) is kinds.KINDS[kind]
    dataset = kinds.detect(path).read(path)
    tokens = dataset.encoded()
    assert int(tokens.max()) < dataset.codec.vocabulary
    again = dataset.codec.decode(tokens)
    if kind == "windows":
        assert "".join(again) == path.read_text()[: len(again) * 64]
    else:
        assert numpy.array_equal(again, dataset.records)
    assert type(dataset.codec).made_from(dataset.codec.describe()) == dataset.codec


@pytest.mark.parametrize("kind", FILES)
def test_samples_are_a_file_of_the_same_kind(kind, trained, tmp_path, monkeypatch, capsys):
    suffix = {"table": ".csv", "array": ".npy", "fasta": ".fasta.gz", "smiles": ".smi"}
    out = tmp_path / f"out{suffix.get(kind, '.txt')}"
    words = ("sample", trained / kind, "-n", 7, "--seed", 1, "--out", out)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    first = out.read_bytes()
    monkeypatch.setattr(time, "time", lambda: 10**9)
    in_process(monkeypatch, capsys, *words)
    assert out.read_bytes() == first  # the same seed, at another time
    if kind == "array":
        assert numpy.load(out).shape == (7, 2, 3)
    elif kind == "table":
        names, rows, *_ = kinds.read.table(out)
        assert names == ["colour", "letter", "k"]
        assert len(rows) == 7
        assert {row[2] for row in rows} == {"same"}  # a column of one level
    elif kind == "fasta":
        assert len(kinds.read.fasta(out)) == 7
    elif kind == "lines":
        assert out.read_text().count("\n") == 7


@pytest.mark.parametrize("name", ["a.npy", "a.npy.gz", "a.npz", None])
def test_arrays_are_written_as_they_are_read(name, trained, tmp_path, monkeypatch, capsys):
    words = ("sample", trained / "array", "-n", 7, "--seed", 1)
    given = () if name is None else ("--out", tmp_path / name)
    code, said, err = in_process(monkeypatch, capsys, *words, *given)
    assert code == 0, err
    if name is not None:
        first = (tmp_path / name).read_bytes()
        monkeypatch.setattr(time, "time", lambda: 10**9)  # at another time
        in_process(monkeypatch, capsys, *words, *given)
        assert (tmp_path / name).read_bytes() == first
    records = OneStepModel.load(trained / "array", "cpu").sample(7, seed=1)
    if name is None:
        assert said.split() == [",".join(map(str, each.ravel())) for each in records]
    else:
        assert numpy.array_equal(kinds.read.array(tmp_path / name), records)


def test_what_is_clamped_stays(trained):
    names = OneStepModel.load(trained / "lines", "cpu")
    assert all(name.startswith("ae") for name in names.sample(20, clamp="ae??"))
    assert all(name[1] == "h" for name in names.sample(20, clamp="?h", steps=3))
    rows = OneStepModel.load(trained / "table", "cpu").sample(20, clamp="colour=blue,letter=y")
    assert all(row[:2] == ["blue", "y"] for row in rows)
    arrays = OneStepModel.load(trained / "array", "cpu").sample(20, clamp="?,2")
    assert bool((arrays[:, 0, 1] == 2).all())
    alike = {
        "table": ("colour=blue", {"colour": "blue"}),
        "array": ("?,2,0,1,1,2", [[None, 2, 0], [1, 1, 2]], [None, 2, 0, 1, 1, 2]),
    }
    for kind, clamps in alike.items():
        model = OneStepModel.load(trained / kind, "cpu")
        assert len({str(model.sample(5, seed=0, clamp=clamp)) for clamp in clamps}) == 1
    assert {len(name) for name in names.sample(20, clamp="a?_")} <= {1, 2}  # nothing behind
    for n, steps, clamp in ((2.5, 1, None), (1, 1.5, None), (1, 1, {"a": 1})):
        with pytest.raises(InputError):
            names.sample(n, steps, clamp=clamp)
    escaped = Strings.of(["a?b\\", "??aa"])
    tokens, held = escaped.clamp("\\??\\\\")
    assert held.tolist() == [True, False, True, False]
    assert [escaped.alphabet.symbols[i] for i in tokens[held]] == ["?", "\\"]


def train_by_command(monkeypatch, capsys, path, out, *words):
    given = ("train", path, "--out", out, "--iterations", 12, "--size", 1e4, "--batch", 16)
    code, _, err = in_process(monkeypatch, capsys, *given, "--device", "cpu", *words)
    assert code == 0, err
    return OneStepModel.load(out, "cpu")


def test_a_table_may_have_semicolons_and_become_parquet(tmp_path, monkeypatch, capsys):
    rows = [[row[0], row[1] + ",", row[2]] for row in ROWS]
    path = tmp_path / "data.csv"
    path.write_text("colour;letter;k\n" + "\n".join(";".join(row) for row in rows))
    model = train_by_command(monkeypatch, capsys, path, tmp_path / "run")
    assert model.config.codec.names == ("colour", "letter", "k")
    assert all(row[1] == "x," for row in model.sample(5, clamp="letter=x\\,"))
    out = tmp_path / "out.parquet"
    code, _, err = in_process(
        monkeypatch, capsys, "sample", tmp_path / "run", "-n", 7, "--seed", 1, "--out", out
    )
    assert code == 0, err
    assert kinds.read.parquet(out)[:2] == (["colour", "letter", "k"], model.sample(7, seed=1))


def test_classes_of_every_kind(tmp_path, monkeypatch, capsys):
    """A column, an array of an .npz, a file of lines: the class is learned, and held."""
    table = train_by_command(
        monkeypatch, capsys, write(tmp_path, "table"), tmp_path / "table", "--label", "colour"
    )
    assert all(row[0] == "red" for row in table.sample(9, label="red"))
    with pytest.raises(InputError, match="contradict each other"):
        table.sample(1, clamp="colour=blue", label="red")

    x = numpy.random.default_rng(0).integers(0, 2, (40, 3))
    numpy.savez(tmp_path / "data.npz", x=x, y=x.sum(1))
    array = train_by_command(
        monkeypatch, capsys, tmp_path / "data.npz", tmp_path / "array", "--label", "y"
    )
    assert array.config.codec.classes == ("0", "1", "2", "3")
    assert (array.config.codec.length, array.sample(4, label=3).shape) == (5, (4, 3))
    out = tmp_path / "out.npy"
    words = ("sample", tmp_path / "array", "-n", 4, "--class", 3, "--out", out, "--seed", 0)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    assert numpy.array_equal(numpy.load(out), array.sample(4, label=3, seed=0))

    (tmp_path / "classes").write_text("\n".join(word[0] for word in WORDS))
    path = write(tmp_path, "lines")
    words = train_by_command(
        monkeypatch,
        capsys,
        path,
        tmp_path / "lines",
        "--label",
        tmp_path / "classes",
        "--held-out",
        8,
    )
    tokens = next(words.tokens(6, label="c", clamp="?e"))
    classes = words.config.codec.encode((["ae"], ["c"]))[0, words.config.codec.inner.length :]
    assert (tokens[:, -len(classes) :] == classes).all()
    assert all(word[1:2] == "e" for word in words.config.codec.decode(tokens))
    assert json.loads((tmp_path / "lines" / "data.json").read_text())["classes"]["c"] == 12
    assert len(words.evaluate(4)["scores"]) == 6
    for wish, message in (
        ({"label": "z"}, "no 'z'; there are a, b, c, d"), ({"clamp": "????a"}, "5 positions"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            words.sample(1, **wish)


def test_a_class_is_learned():
    """Words of the class, in one step, more so with guidance."""
    words = [f"{a}{b}{c}" for a in "ab" for b in "ef" for c in "gh"] * 8
    data = [word + f"{i % 4}" for i, word in enumerate(words)]
    gen = OneStepModel.fit(
        data, labels=[word[0] for word in data], iterations=600, size=3e4, device="cpu"
    )
    for guidance in (1.0, 2.0):
        found = gen.sample(200, label="b", guidance=guidance, seed=0)
        assert sum(word[0] == "b" for word in found) > 190


STREAM = """
import sys
from discrete_meanflow.cli.generate import Sample
from pathlib import Path
from side_by_side import watched

def sampled(n):
    with watched() as peak:
        Sample(Path(sys.argv[1]), n=n, seed=0, out=Path(sys.argv[2]), device="cpu")()
    return peak[0]

sampled(20_000)  # imports, and a lot
few, many = max(sampled(20_000), sampled(20_000)), sampled(900_000)
print(many - few)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["lines.txt.gz", "table.csv", "table.parquet", "array.npz"])
def test_many_samples_take_no_more_memory_than_a_few(name, trained, tmp_path, monkeypatch):
    words = [sys.executable, "-c", STREAM, trained / name.split(".")[0], tmp_path / name]
    monkeypatch.setenv("PYTHONPATH", str(Path(side_by_side.__file__).parent))
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # MiB; records that are kept would take 33 to 82, and allocators differ by up to 20 of a run
    assert float(done.stdout) < 27


def test_too_few_held_out_records_are_not_judged(trained, monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, "evaluate", trained / "table")
    assert code == 2
    assert "too few" in err


@pytest.fixture(scope="module")
def judgeable(tmp_path_factory):
    """A run of which enough is held out to judge it by."""
    words = [f"{a}{b}{c}{d}" for a in "abc" for b in "def" for c in "ghi" for d in "jklm"]
    folder = tmp_path_factory.mktemp("judged") / "run"
    return OneStepModel.fit(words, iterations=40, size=1e4, out=folder, held_out=40, device="cpu")


def test_evaluation_tells_copies_from_the_new(judgeable):
    model = judgeable
    found = model.evaluate(20)
    assert (found["records"], set(found["scores"])) == (
        20, {"held out", "1 step", "2 steps", "4 steps", "8 steps", "16 steps"},
    )  # fmt: skip
    real = found["scores"]["held out"]
    assert real["copies"] == 0
    train = run.read_tokens(model.folder, run.TRAIN, model.config.codec)
    judge = Judge(model.config, train, train[:20])
    mixed = judge(torch.cat([train[:10], train[:10]]))
    assert (mixed["copies"], mixed["unique"], mixed["nearest"]) == (1, 0.5, 0)
    assert real["unique"] == real["well-formed"] == 1
    assert 0 <= real["AUC"] <= 1
    assert 0 < real["nearest"] < 1


ASKED, READ = Asked(20, 3, (1, 4)), ("held out", "1 step", "4 steps")


def test_samples_drawn_elsewhere_are_judged_without_the_weights(judgeable, tmp_path):
    folder, weights = tmp_path / "run", tmp_path / "run" / "weights.safetensors"
    judgeable.save(folder)
    assert find(folder, ASKED) is None
    keep(folder, draw(judgeable, ASKED))
    weights.rename(tmp_path / "apart")
    found = find(folder, ASKED)
    assert found is not None
    assert judged(folder, found) == evaluate(judgeable, ASKED)
    others = (replace(ASKED, seed=4), replace(ASKED, steps=(1,)), replace(ASKED, n=10))
    for other in others:
        with pytest.raises(InputError, match=r"other samples: .* -n 20 --seed 3 --steps 1 4"):
            find(folder, other)
    weights.write_bytes(b"others")  # by which these samples were not drawn
    assert [find(folder, each) for each in (ASKED, *others)] == [None] * 4


def test_samples_of_another_machine_are_not_replaced(judgeable, tmp_path, monkeypatch, capsys):
    """With their weights beside them they could be drawn anew, elsewhere and otherwise."""
    folder = tmp_path / "run"
    judgeable.save(folder)
    there = run.environment() | {"gpu": "[/a large one]"}
    keep(folder, replace(draw(judgeable, ASKED), environment=there))
    before = (folder / "samples.safetensors").read_bytes()
    code, _, err = in_process(monkeypatch, capsys, "evaluate", folder, "-n", 10)
    assert (code, err.count("\n")) == (2, 1), err
    assert "drawn on [/a large one]: " in err
    assert f"dmf evaluate {folder} {ASKED.options}; or delete it" in err
    assert (folder / "samples.safetensors").read_bytes() == before
    code, out, err = in_process(
        monkeypatch, capsys, "evaluate", folder, "-n", 20, "--seed", 3, "--steps", 1, 4
    )
    assert code == 0, err
    assert "[/a large one], as they were kept" in out


DAMAGE = {
    "no words": None,
    "bits": {"bits": "{}"},
    "no number": {"bits": json.dumps(dict.fromkeys(READ, math.nan))},
    "much": {"bits": json.dumps(dict.fromkeys(READ, 10**400))},
    "asked": {"asked": "{"},
    "environment": {"environment": "3"},
    "odd": {"environment": json.dumps(run.environment() | {"gpu": "\ud800"})},
}


@pytest.mark.parametrize("what", [*DAMAGE, "few", "tokens", "no file"])
def test_damaged_samples_are_refused(what, judgeable, tmp_path):
    folder, path = tmp_path / "run", tmp_path / "run" / "samples.safetensors"
    judgeable.save(folder)
    asked = replace(ASKED, reading=50)
    keep(folder, replace(draw(judgeable, ASKED), asked=asked, bits=dict.fromkeys(READ, 1.0)))
    assert find(folder, asked) is not None
    with safe_open(path, "pt") as file:
        words, tokens = file.metadata(), {k: file.get_tensor(k) for k in ("1", "4")}
    change = DAMAGE.get(what, {})
    tokens["4"] = {"few": tokens["4"][:3], "tokens": tokens["4"] + 100}.get(what, tokens["4"])
    save_file(tokens, path, None if change is None else words | change)
    if what == "no file":
        path.write_bytes(b"x")
    with pytest.raises(InputError, match=r"samples\.safetensors"):
        find(folder, asked)


def test_a_reader_learns_from_what_is_compared_with_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "FEWEST_READ", 20)
    text = tmp_path / "long.txt"
    text.write_text("it was a dark and stormy night, " * 200)
    kind = kinds.Windows(16)
    prepare(tmp_path / "run", kind, kind.read(text), "cpu", iterations=4, size=1e4, held_out=40)
    train(tmp_path / "run", Processes(), lambda news: None)
    model = OneStepModel.load(tmp_path / "run", "cpu")
    heard, trained = [], drawing.Reader.trained

    def listen(x, *given):
        heard.extend([x, trained(x, *given, batch=8, width=32, layers=1)])
        return heard[1]

    monkeypatch.setattr(drawing.Reader, "trained", listen)
    found = draw(model, Asked(10, 0, (1, 4), reading=50))
    held_out = run.read_tokens(model.folder, run.HELD_OUT, model.config.codec)
    assert torch.equal(heard[0][::16], held_out[20:])
    assert torch.equal(heard[0][1, :-1], heard[0][0, 1:])  # windows begin anywhere
    read = (held_out[10:20], found.samples[1], found.samples[4])
    assert found.bits == dict(zip(READ, map(heard[1].bits, read), strict=True))
    scores = judged(model.folder, found)["scores"]
    assert {who: each["bits"] for who, each in scores.items()} == found.bits
    with pytest.raises(InputError, match="a reader needs 20 held-out records"):
        draw(model, Asked(15, 0, (1,), reading=50))


BARE = """
import runpy, sys
for name in (
    "tyro", "rich", "matplotlib", "scipy", "sklearn", "rdkit",
    "accelerate", "tensorboard", "pyarrow",
):
    sys.modules[name] = None
runpy.run_module("discrete_meanflow.onestep", run_name="__main__", alter_sys=True)
"""


def test_a_bare_machine_trains_and_draws_what_is_judged_elsewhere(tmp_path, monkeypatch, capsys):
    """On a GPU machine there may be little but PyTorch."""
    path, out = tmp_path / "words.txt", tmp_path / "run"
    path.write_text("\n".join(f"{a}{b}{c}" for a in "abcdefgh" for b in "ijklm" for c in "nopqr"))
    words = [path, "--out", out, "--minutes", "0.01", "--size", "1e4", "-n", "8", "--steps", "1"]
    command = [sys.executable, "-c", BARE, *map(str, words)]
    other = tmp_path / "b" / "words.txt"  # of the same name
    other.parent.mkdir()
    other.write_text(path.read_text() + "\nzz")
    for line, code, message in (
        ([*command, "--steps", "0"], 2, "steps from 1"),
        ([*command, "--reading", "50"], 2, "a reader needs 1000 held-out"),
        (command, 0, "now dmf evaluate"),
        (command, 0, "going on with it"),
        ([*command, "--seed", "1"], 2, "another run"),
        ([*command[:3], str(other), *command[4:]], 2, "another run"),
    ):
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert message in done.stdout + done.stderr
    (out / "weights.safetensors").unlink()
    code, said, err = in_process(
        monkeypatch, capsys, "evaluate", out, "-n", 8, "--seed", 0, "--steps", 1
    )
    assert code == 0, err
    assert "1 step" in said
    assert "as they were kept" in said


def test_what_is_no_sequence_is_invalid():
    assert kinds.Fasta().valid(["ACG-U", "", "AC_G", "AC G"]) == [True, False, False, False]


def test_the_five_lines_of_the_readme(tmp_path):
    gen = OneStepModel.fit(WORDS, iterations=30, size=1e4, device="cpu")
    assert len(gen.sample(5)) == 5
    assert all(word.startswith("a") for word in gen.sample(5, clamp="a???"))
    gen.save(tmp_path / "kept")
    again = OneStepModel.load(tmp_path / "kept", "cpu")
    assert again.sample(5, seed=3) == gen.sample(5, seed=3)
    with pytest.raises(InputError, match="is there already"):
        gen.save(tmp_path / "kept")


def test_records_of_many_sorts():
    import pandas

    frame = pandas.DataFrame(ROWS, columns=["a", "b", "c"])
    array = numpy.arange(24).reshape(4, 2, 3) % 5

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return torch.from_numpy(array[i]), i

    class Polars:  # what is asked of such a frame
        columns = ("a", "b", "c")

        def rows(self):
            return ROWS

    for records, codec in (
        (WORDS, Strings), (frame, Columns), (ROWS, Columns), (array, Arrays),
        (torch.from_numpy(array), Arrays), (Pictures(), Arrays), (iter(WORDS), Strings),
        (Polars(), Columns), (frame.rename(columns={"a": "rows"}), Columns),
        (numpy.array(ROWS), Columns), ([(0, "a"), (1, "b")], Columns),
        ([(0, 1, 2), (1, 2, 0)], Arrays), ([[0, 1], [1, 1]], Arrays),
    ):  # fmt: skip
        _, dataset = dataset_of(records)
        assert isinstance(dataset.codec, codec)
        assert len(dataset.encoded()) == len(records) if hasattr(records, "__len__") else True
    assert dataset_of(frame)[1].codec.names == ("a", "b", "c")


def test_strings_may_be_molecules():
    kind, dataset = dataset_of(["C[nH]C", "CCl"], kinds.find_kind("smiles"))
    assert (kind.name, dataset.codec.length) == ("smiles", 3)
    assert dataset_of(["C[nH]C", "CCl"])[1].codec.length == 6
    for records, name, message in (
        (["ab", "cd"], "table", "strings are no table"), (ROWS, "smiles", "list of strings alone"),
        (["ab", "cd"], "tokenised", "needs --tokenizer"), (["ab", "cd"], "poems", "unknown kind"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            OneStepModel.fit(records, iterations=2, kind=name)


def test_a_frame_comes_back_as_a_frame(tmp_path):
    """With the names and the types of its columns, also from a run folder that was moved."""
    import pandas
    import polars

    columns = {
        "code": ["01", "02", "01", "03"], "count": [1, 2, 30, 1], "size": [0.5, 1.0, 2.25, 0.5],
        "new": [True, False, True, True],
    }  # fmt: skip
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        folder = tmp_path / type(frame).__module__
        OneStepModel.fit(frame, iterations=2, size=1e4, device="cpu", out=folder)
        moved = folder.rename(tmp_path / f"{folder.name} moved")
        found = OneStepModel.load(moved, "cpu").sample(20, seed=0)
        assert type(found) is type(frame)
        assert list(found.columns) == list(frame.columns)
        assert list(found.dtypes) == list(frame.dtypes)
        for name, column in columns.items():
            assert set(found[name]) <= set(column)
    with pytest.raises(InputError, match="two columns of the frame have one name"):
        dataset_of(pandas.DataFrame([["a", "b"], ["c", "d"]], columns=["x", "x"]))


def test_a_frame_is_rows_where_its_library_is_not(monkeypatch):
    import pandas

    codec = dataset_of(pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}))[1].codec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert codec.as_given([["1", "y"]]) == [["1", "y"]]


@pytest.mark.parametrize(
    ("column", "told", "meant"),
    [
        ([1, 2], "int", "int"), ([1, 2.5], "float", "float"), ([True, False], "str", "bool"),
        (["1", "2"], "int", "str"), (["01", "2"], "str", "str"), (["1_0", "2"], "str", "str"),
        (["0.5", "-3"], "float", "str"), ([10**19, 1], "str", "str"),
        (["inf", "1"], "str", "str"),
        ([True, 2], "str", "str"), (["²", "1"], "str", "str"), (["-0.25", "00.5"], "str", "str"),
    ],
)  # fmt: skip
def test_cells_are_numbers_where_nothing_is_lost(column, told, meant):
    assert type_told_by([str(cell) for cell in column]) == told
    assert type_of(column) == meant


def test_parquet_keeps_its_types(tmp_path):
    import pandas

    frame = pandas.DataFrame({"zip": ["10", "20"], "x": [0.5, 1.5], "b": [True, False]})
    frame.to_parquet(tmp_path / "a.parquet")
    dataset = kinds.detect(tmp_path / "a.parquet").read(tmp_path / "a.parquet")
    codec = Columns.made_from(json.loads(json.dumps(dataset.codec.describe())))
    with kinds.Table().writer(tmp_path / "b.parquet", codec, 2) as out:
        out(dataset.records)
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "b.parquet"), frame)
    for lie in ({"types": ["int", "int", "bool"]}, {"types": ["str"]}, {"frame": "os"},
                {"types": ["str", "float", "pickle"]}):  # fmt: skip
        with pytest.raises(InputError, match=r"^table: "):
            Columns.made_from(codec.describe() | lie)


@pytest.mark.parametrize("network", [{}, {"width": 16, "layers": 1, "heads": 2}])
def test_the_exported_graph_is_the_kernel(network, trained, tmp_path):
    """Of a table, over the flattened state or with attention; the kernel stays as it is."""
    model = OneStepModel.load(trained / "table", "cpu")
    plan = replace(model.config.plan, **network)
    kernel = plan.kernel(model.config.codec)
    model = OneStepModel(model.folder, replace(model.config, plan=plan), kernel)
    kinds_before = {name: tensor.dtype for name, tensor in kernel.named_buffers()}
    assert export(model, tmp_path / "graph.onnx") < 1e-5
    assert {name: tensor.dtype for name, tensor in kernel.named_buffers()} == kinds_before
    told = {p.key: p.value for p in onnx.load(tmp_path / "graph.onnx").metadata_props}
    assert json.loads(told["codec"])["columns"] == ["colour", "letter", "k"]


def test_a_graph_that_differs_is_not_written(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "CLOSE", 0.0)
    with pytest.raises(InputError, match="differs from PyTorch"):
        export(OneStepModel.load(trained / "lines", "cpu"), tmp_path / "graph.onnx")
    assert not list(tmp_path.iterdir())


def test_a_fit_goes_on_where_it_was_stopped(tmp_path):
    """In a thread, too, which hears no signals; what lay in a passing folder goes with it."""

    def stop(news):
        raise Interrupted

    with pytest.raises(Interrupted, match=r"OneStepModel\.resume"):
        OneStepModel.fit(WORDS, iterations=4, size=1e4, out=tmp_path / "run", watch=stop)
    with ThreadPoolExecutor(1) as pool:
        model = pool.submit(OneStepModel.resume, tmp_path / "run", "cpu").result()
        passing = pool.submit(OneStepModel.fit, WORDS, iterations=4, size=1e4).result()
    assert len(model.sample(3)) == len(passing.sample(3)) == 3
    folder = passing.folder
    assert folder.exists()
    del passing
    gc.collect()
    assert not folder.parent.exists()


def test_a_fit_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(news):
        raise ZeroDivisionError

    for wish in ({"iterations": 1}, {"iterations": 4, "watch": fail}):
        with pytest.raises((InputError, ZeroDivisionError)):
            OneStepModel.fit(WORDS, size=1e4, device="cpu", **wish)
        assert not list(tmp_path.glob("dmf-*"))


def test_a_run_with_links_is_not_copied(trained, tmp_path):
    (tmp_path / "secret.json").write_text("mine")
    shutil.copytree(trained / "lines", tmp_path / "run")
    model = OneStepModel.load(tmp_path / "run", "cpu")
    model.save(tmp_path / "kept")
    assert OneStepModel.load(tmp_path / "kept", "cpu").sample(3, seed=0) == model.sample(3, seed=0)
    (tmp_path / "run" / "data.json").unlink()
    (tmp_path / "run" / "data.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(InputError, match="no file of its own"):
        model.save(tmp_path / "stolen")
    assert not (tmp_path / "stolen").exists()


def test_a_run_that_cannot_be_copied_whole_is_not_copied(trained, tmp_path, monkeypatch):
    model, copied = OneStepModel.load(trained / "lines", "cpu"), []

    def copy(source, to):
        copied.append(source)
        if len(copied) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return shutil.copyfile(source, to)

    monkeypatch.setattr(shutil, "copy2", copy)
    with pytest.raises(InputError, match="No space left"):
        model.save(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_what_killed_writers_left_is_removed(tmp_path):
    folder = prepared(tmp_path / "run")
    (folder / ".checkpoint-1.safetensors.1.2.tmp").write_text("half")
    train(folder, Processes(), lambda news: None)
    assert not list(folder.glob(".*"))


def test_columns_and_levels_may_have_any_letters():
    odd = Columns(("a=b", "c,d"), (("x=y", "z"), ("p\\", "q,")))
    assert odd.known(r"a\=b=x=y,c\,d=p\\") == {0: 0, 1: 0}
    assert odd.known(r"c\,d=q\,") == {1: 1}


def test_a_long_text_is_read_piece_by_piece(tmp_path, monkeypatch):
    """Letters of two bytes on the edge of a piece, and the end that fills no window."""
    text = "größe und maß, " * 300
    (tmp_path / "a.txt").write_text(text)
    monkeypatch.setattr(windows, "PIECE", 7)
    alphabet, tokens = windows.windows(tmp_path / "a.txt", 16)
    assert "".join(alphabet.decode(tokens)) == text[: len(text) // 16 * 16]
    (tmp_path / "b.txt").write_bytes(b"all is well here\n" * 9 + b"\xff")
    with pytest.raises(InputError, match="line 10: not UTF-8"):
        windows.windows(tmp_path / "b.txt", 16)
    (tmp_path / "c.txt").write_bytes(b"\xef\xbb\xbf" + b"one line\r\n" * 9)
    alphabet, tokens = windows.windows(tmp_path / "c.txt", 9)
    assert alphabet.decode(tokens) == ["one line\n"] * 9  # as lines are read, too


def test_a_disk_without_room_for_tokens_is_told(tmp_path, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    (tmp_path / "a.txt").write_text("a text of some length " * 9)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"no room for .* tokens: No space left"):
        windows.windows(tmp_path / "a.txt", 9)


MEMORY = """
import sys
from pathlib import Path
from discrete_meanflow.data.kind import Windows
from discrete_meanflow.data import TokenArray
from discrete_meanflow.onestep import folder
from side_by_side import anonymous_mib, watched
import torch

before = anonymous_mib()
with watched() as peak:
    dataset = Windows(64).read(Path(sys.argv[1]))
    stored = {"tokens": dataset.encoded()}
    folder.write_tokens(Path(sys.argv[2]), stored, dataset.codec.vocabulary)
    tokens = folder.read_tokens(Path(sys.argv[2]).parent, "train", dataset.codec)
    data = TokenArray(tokens, dataset.codec.vocabulary)
    data.sample((100, 256), torch.Generator().manual_seed(0))
print(peak[0] - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_text_need_not_fit_into_memory(tmp_path, monkeypatch):
    """Of a text of 200 MB, less than half is ever held."""
    monkeypatch.setenv("PYTHONPATH", str(Path(side_by_side.__file__).parent))
    line = b"the quick brown fox jumps over the lazy dog and away\n"
    (tmp_path / "a.txt").write_bytes(line * (200 * 2**20 // len(line)))
    words = [sys.executable, "-c", MEMORY, str(tmp_path / "a.txt"),
             str(tmp_path / "train.safetensors")]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < 100


def test_numbers_are_binned_on_request(tmp_path):
    rows = [f"{i / 7:.3f},{'ab'[i % 2]},{i % 3}" for i in range(90)]
    (tmp_path / "a.csv").write_text("\n".join(["x,letter,few", *rows]))
    codec = kinds.Table(5).read(tmp_path / "a.csv").codec
    assert [len(levels) for levels in codec.levels] == [5, 2, 3]
    assert len(kinds.Table().read(tmp_path / "a.csv").codec.levels[0]) == 90
    middle = sorted(map(float, codec.levels[0]))
    assert 0 < middle[0] < middle[-1] < 90 / 7
    (tmp_path / "b.csv").write_text("x,y\n" + "\n".join(f"{i},1" for i in [0] * 50 + [1, 2, 3]))
    assert len(kinds.Table(3).read(tmp_path / "b.csv").codec.levels[0]) <= 3
    with pytest.raises(InputError, match="at least 2"):
        kinds.Table(1).read(tmp_path / "a.csv")


@pytest.fixture
def tokenizer(tmp_path):
    """Words of a tiny language, as a tokenizer's JSON."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"the": 0, "cat": 1, "dog": 2, "sat": 3, "ran": 4, "?": 5}
    made = Tokenizer(models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_a_tokenizer_gives_other_symbols(tokenizer, tmp_path, monkeypatch, capsys):
    text = tmp_path / "a.txt"
    text.write_text("the cat sat\nthe dog ran\nthe cat ran\nthe dog sat\ncat sat\ndog ran\n")
    words = ("train", text, "--out", tmp_path / "run", "--iterations", 8, "--size", 1e4,
             "--batch", 16, "--device", "cpu", "--tokenizer", tokenizer)  # fmt: skip
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    model = OneStepModel.load(tmp_path / "run", "cpu")
    assert (model.config.codec.vocabulary, model.config.codec.length) == (7, 3)
    assert all(line.startswith("the cat") for line in model.sample(5, clamp="the cat"))
    tokens = model.config.codec.encode(["the dog ran", "cat"])
    assert tokens.tolist() == [[0, 2, 4], [1, 6, 6]]
    assert model.config.codec.decode(tokens) == ["the dog ran", "cat"]
    with pytest.raises(InputError, match="no tokenizer"):
        kinds.Tokenised(text).read(text)


BAD_FILES = [
    ("a.txt", b"", "is empty"),
    ("a.txt", b"one\n", "one distinct record"),
    ("a.txt", b"aa\naaa\n\xff\n", "line 3: not UTF-8"),
    ("a.txt", b"aaa\naaa\n", "at least 2 symbols"),
    ("a.csv", b"a,b\n1,2\n3\n", "line 3: 1 cells"),
    ("a.csv", b"a,b\n1,2\n1,nan\n", "line 3, column 2: a missing value"),
    ("a.csv", b"a,b\n1,1\n1,1\n", "every column is constant"),
    ("a.fasta", b"ACGU", "line 1: a sequence before"),
    ("a.npy", b"not an array", "cannot read"),
    ("a.txt", "\n".join(map(chr, range(0x4E00, 0x4E00 + 12_000))).encode(), "distinct symbols"),
    ("a.smi", b"smiles\n", "no molecule"),
    ("a.csv", "\n".join(f"{i},x" for i in range(12_000)).encode(), "12,000 levels"),
    ("a.smi", b" \n \n", "no molecule"),
    ("a.npz", b"PK\x03\x04 no archive", "cannot read"),
    ("a.npy.gz", gzip.compress(b"no array", mtime=0), "cannot read"),
    ("a.parquet.gz", gzip.compress(b"no table", mtime=0), "cannot read"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_bad_data_gets_one_line(name, content, message, tmp_path, monkeypatch, capsys):
    (tmp_path / name).write_bytes(content)
    words = ("train", tmp_path / name, "--out", tmp_path / "run", "--iterations", 4)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (numpy.zeros((3, 2)), "needs whole numbers"),
        (numpy.array([[0, -1], [1, 0]]), "-1 at (0, 1)"),
        (numpy.array([1, 2, 3]), "records along the first axis"),
        (numpy.array([[0, 10**6], [1, 0]]), "at most 10,000"),
        (numpy.array([[{}], [{}]], dtype=object), "cannot read"),
    ],
)
def test_bad_arrays_get_one_line(array, message, tmp_path, monkeypatch, capsys):
    numpy.save(tmp_path / "a.npy", array)
    words = ("train", tmp_path / "a.npy", "--out", tmp_path / "run", "--iterations", 4)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 2
    assert message in err


@given(
    st.binary(max_size=80), st.sampled_from(["a.txt", "a.csv", "a.fa", "a.npy", "a.npz", "a.gz"])
)
def test_any_bytes_are_read_or_refused(tmp_path_factory, content, suffix):
    path = tmp_path_factory.mktemp("fuzz") / f"a.{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(InputError):  # and no other error
        kinds.detect(path).read(path).encoded()


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    """Name and bytes of a file of every kind."""
    import pandas

    folder = tmp_path_factory.mktemp("whole")
    paths = [write(folder, kind) for kind in FILES]
    numpy.savez_compressed(folder / "data.npz", x=numpy.arange(60).reshape(20, 3) % 4)
    pandas.DataFrame(ROWS, columns=["a", "b", "c"]).to_parquet(folder / "data.parquet")
    paths += [folder / "data.npz", folder / "data.parquet"]
    return [(path.name, path.read_bytes()) for path in paths]


@given(st.data())
def test_damaged_files_are_read_or_refused(tmp_path_factory, whole_files, data):
    """Files of every kind in which some bytes are others, or are gone."""
    name, content = data.draw(st.sampled_from(whole_files))
    damaged = bytearray(content)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_bytes(damaged[: data.draw(st.integers(len(content) // 2, len(content)))])
    with contextlib.suppress(InputError):  # and no other error
        kinds.detect(path).read(path).encoded()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--clamp", "zz"), "'z' at position 0 is not in the alphabet"),
        (("--clamp", "abcdefgh"), "8 positions, the sequences have 4"),
        (("--steps", "0"), "at least one step"),
        (("-n", "0"), "at least one record"),
        (("--temperature", "0"), "temperature: from 0.001"),
        (("--temperature", "inf"), "temperature: from 0.001"),
        (("--clamp", "a", "--guidance", "nan"), "guidance up to 100"),
        (("--clamp", "??", "--guidance", "2"), "guidance needs a clamp or a class"),
        (("--clamp", "a_f"), "text behind its end"),
        (("--out", "/nowhere/x"), "cannot write"),
    ],
)
def test_bad_wishes_get_one_line(words, message, trained, monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, "sample", trained / "lines", *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seed", "-1"), "--seed: a whole number"),
        (("--kind", "windows", "--length", "0"), "--length: at least 1"),
        (("--kind", "windows", "--length", "8", "--held-out", "-5"), "cannot be held out"),
        (("--held-out", "0"), "cannot be held out"),
        (("--iterations", "1"), "--iterations: at least 2"),
        (("--size", "5"), "--size: parameters from"),
        (("--bins", "4"), "--bins is for table"),
        (("--length", "8"), "--length is for windows"),
        (("--header", "yes"), "--header is for table"),
        (("--resume", "nowhere"), "goes on as it began"),
        (("--batch", "0"), "--batch: from 1"),
        (("--size", "0"), "--size: parameters from"),
        (("--batch", "16", "--accumulate", "3"), "3 pieces do not make up a batch"),
        (("--label", "nowhere"), "cannot read nowhere"),
        (("--batch", "256", "--accumulate", "200"), "200 pieces do not make up a batch"),
    ],
)
def test_bad_wishes_of_training_get_one_line(words, message, tmp_path, monkeypatch, capsys):
    path = write(tmp_path, "lines")
    given = ("train", path, "--out", tmp_path / "run", "--iterations", "4", *words)
    code, _, err = in_process(monkeypatch, capsys, *given)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err
    assert not (tmp_path / "run" / "config.json").exists()


def test_what_cannot_be_written_or_judged_is_told(trained, tmp_path, monkeypatch, capsys):
    old = tmp_path / "old.txt"
    old.write_text("mine")
    for words, message in (
        (("export", trained / "lines", "--onnx", "/nowhere/a.onnx"), "cannot write"),
        (("sample", trained / "array", "--out", "/nowhere/a.npy"), "cannot write"),
        (("sample", trained / "array", "--out", tmp_path / "a.txt"), "FILE.npy, FILE.npy.gz"),
        (("sample", trained / "table", "--out", tmp_path / "a.parquet.gz"), "packed by itself"),
        (("sample", trained / "table", "--temperature", 101), "from 0.001 to 100"),
        (("sample", trained / "lines", "--class", "a"), "knows no classes"),
        (("sample", trained / "lines", "--guidance", "2"), "guidance needs a clamp or a class"),
        (("train", "--resume", trained / "lines", "--minutes", "3"), "goes on as it began"),
        (("train", trained / "files" / "data.txt", "--minutes", "inf"), "minutes: more than 0"),
        (("sample", trained / "lines", "--clamp", "zz", "--out", old), "not in the alphabet"),
        (("evaluate", trained / "lines", "-n", 0), "at least 4"),
        (("train", trained.parent / "nothing"), "does not exist"),
        (("train",), "give a FILE"),
    ):
        code, _, err = in_process(monkeypatch, capsys, *words)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
    assert old.read_text() == "mine"


def test_tokens_of_256_symbols_are_read_back(tmp_path):
    tokens = torch.arange(256).reshape(64, 4)
    codec = Arrays((4,), 256)
    run.write_tokens(tmp_path / "train.safetensors", {"tokens": tokens}, 256)
    again = run.read_tokens(tmp_path, "train", codec)
    assert torch.equal(TokenArray(again, 256).tokens.long(), tokens)
    with pytest.raises(InputError, match="token 255 in record 63"):
        TokenArray(again, 255)


def test_small_data_get_a_small_network_where_there_is_time_to_learn_them_by_heart():
    assert sensible_size("cpu", 10**6) == sensible_size("cpu", 10**9) == plans.CPU_SIZE
    assert sensible_size("cuda", 10**6) == 3e6
    assert sensible_size("cuda", 10**9) == plans.GPU_SIZE
    assert choose(Arrays((4,), 4), "cuda", sensible_size("cuda", 8), 0, None).parameters < 1e5


def test_repeats_of_rows_stay_and_strings_are_on_one_side():
    rows = torch.tensor([[0, 0]] * 90 + [[i, 1] for i in range(10)])
    train, apart, note = cut(rows, 20, 0, repeats=True)
    assert (len(train), len(apart)) == (80, 20)
    assert note == {"distinct": 11, "duplicates kept": 89}
    assert 0.7 < (apart == 0).all(1).double().mean() < 1  # nine of ten, as in the file
    sorted_rows = torch.arange(200)[:, None].expand(200, 2)
    halves = cut(sorted_rows, 100, 0, repeats=True)[1].double().chunk(2)
    assert abs(halves[0].mean() - halves[1].mean()) < 40  # 100 apart, if they were in order
    train, apart, note = cut(rows, 4, 0, repeats=False)
    assert (len(train), len(apart), note["duplicates removed"]) == (7, 4, 89)
    classes = torch.tensor([[i // 2, i // 2, i % 2] for i in range(40)])  # each under two classes
    sides = cut(classes, 5, 0, False, 2)[:2]
    assert [len(side) for side in sides] == [30, 10]
    assert not torch.isin(sides[0][:, 0], sides[1][:, 0]).any()


PLANS = {
    "huge batch": {"batch": 10**12}, "many couples": {"couples": 10**14},
    "long seed": {"seed": 2**70}, "no end": {"iterations": 10**30},
    "a crowd": {"matched": 2**20}, "no rate": {"muon": float("nan")},
    "a long block": {"batch": 2**20, "block": 10**6},
    "wide couples": {"couples": 10**6},
}  # fmt: skip
NOTES = {
    "checkpoint": {"iteration": 10**9}, "deep note": {}, "no generator": {},
    "endless note": {"iteration": float("inf")},
    "no history": {"iteration": 0, "history": {"first loss": "x"}},
}  # fmt: skip


def spoil(folder, what):
    """Make a run folder hostile in one way."""
    config = json.loads((folder / "config.json").read_text())
    weights = folder / "weights.safetensors"
    if what == "pickle":
        weights.write_bytes(b"\x80\x04cos\nsystem\n(S'false'\ntR.")
    elif what == "shapes":
        found = {n: torch.zeros(1) for n, _ in run.read_weights(
            folder, run.read_config(folder)).named_parameters()}  # fmt: skip
        save_file(found, weights)
    elif what == "names":
        save_file({"../../x": torch.zeros(1)}, weights)
    elif what == "giant":
        config["plan"]["width"] = 10**9
    elif what == "huge header":
        weights.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    elif what == "kind":
        config["kind"] = "__import__"
    elif what == "plan":
        config["plan"]["width"] = "64"
    elif what == "no count":
        config["plan"]["layers"] = 3.0
    elif what == "a tower":
        config["plan"] |= {"width": 2, "layers": 10**8, "heads": 0}
    elif what == "endless":
        config["codec"]["length"] = float("inf")
    elif what == "deep":
        (folder / "config.json").write_text("[" * 100_000)
        return
    elif what in NOTES:
        weights.unlink()
        with safe_open(folder / "checkpoint-1.safetensors", "pt") as file:
            note = json.dumps(json.loads(file.metadata()["note"]) | NOTES[what])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if what == "no generator":
            tensors["generator/0"] = torch.full_like(tensors["generator/0"], 255)
        note = "[" * 100_000 if what == "deep note" else note
        save_file(tensors, folder / "checkpoint-1.safetensors", {"note": note})
    elif what == "odd tokens":
        weights.unlink()
        tokens = run.read_tokens(folder, run.TRAIN, run.read_config(folder).codec)
        save_file({"tokens": tokens.to(torch.uint16)}, folder / "train.safetensors")
    elif what == "log":
        weights.unlink()
        (folder / "metrics.jsonl").unlink()
        (folder / "metrics.jsonl").mkdir()
    elif what == "board":
        weights.unlink()
        shutil.rmtree(folder / run.BOARD)
        (folder / run.BOARD).write_text("")
    elif what in PLANS:
        weights.unlink()
        config["plan"] |= PLANS[what]
        if what == "wide couples":
            config["codec"]["length"] = 100_000
    elif what == "surrogate":
        config["codec"]["symbols"] = "\ud800" + config["codec"]["symbols"][1:]
    elif what == "long":
        config["codec"]["length"] = 10**18
    elif what == "codec":
        del config["codec"]["symbols"]
    elif what == "json":
        (folder / "config.json").write_text("[1, 2")
        return
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "what",
    ["pickle", "shapes", "names", "giant", "huge header", "kind", "plan", "codec", "json",
     "no count", "a tower", "endless", "deep", "checkpoint", "deep note", "no history",
     "no generator", "surrogate", "long", "endless note", "odd tokens", "log", "board", *PLANS],
)  # fmt: skip
def test_a_hostile_folder_is_refused_in_one_line(what, trained, tmp_path, monkeypatch, capsys):
    OneStepModel.load(trained / "lines", "cpu").save(tmp_path / "run")
    spoil(tmp_path / "run", what)
    asked = [("sample", tmp_path / "run"), ("train", "--resume", tmp_path / "run")]
    # With its weights there, a run is trained already: resuming looks at its config alone.
    blind = what in ("pickle", "shapes", "names", "huge header")
    for words in asked[:1] if blind else asked:
        code, _, err = in_process(monkeypatch, capsys, *words)
        assert (code, err.count("\n")) == (2, 1), err


def test_tokens_that_a_column_does_not_have_are_refused(trained, tmp_path):
    shutil.copytree(trained / "table", tmp_path / "run")
    codec = run.read_config(tmp_path / "run").codec
    tokens = run.read_tokens(tmp_path / "run", run.TRAIN, codec).clone()
    few = min(range(codec.length), key=lambda i: len(codec.levels[i]))
    tokens[-1, few] = codec.vocabulary - 1  # of another column
    save_file({"tokens": tokens}, tmp_path / "run" / "train.safetensors")
    with pytest.raises(InputError, match="their columns do not have"):
        run.read_tokens(tmp_path / "run", run.TRAIN, codec)


def test_couples_are_not_made_again_for_a_stage_that_has_ended(tmp_path, monkeypatch):
    folder, told = prepared(tmp_path / "run"), []
    train(folder, Processes(), lambda news: None, told.append)
    assert told == [1.0]
    weights = folder / "weights.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    train(folder, Processes(), lambda news: None, told.append)
    assert told == [1.0]
    assert weights.read_bytes() == before


def test_a_run_stays_on_its_kind_of_device(tmp_path):
    """Random numbers of a GPU are others than those of a CPU."""
    folder = prepared(tmp_path / "run")

    def stop(news):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(folder, Processes(), stop)
    path = folder / "checkpoint-1.safetensors"
    with safe_open(path, "pt") as file:
        note = json.loads(file.metadata()["note"]) | {"device": "cuda"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, {"note": json.dumps(note)})
    with pytest.raises(InputError, match="made on cuda"):
        train(folder, Processes(), lambda news: None)


@pytest.mark.parametrize(("device", "room"), [("cpu", 2**29), ("cuda", 2**32)])
def test_couples_fit_into_their_room(device, room):
    codec = Arrays((28, 28), 2)
    long = plans.of_iterations(choose(codec, device, plans.CPU_SIZE, 0, None), codec, device, 10**6)
    some = Coupling(4, 1, Recipe(1)).couples(
        long.problem(codec, TokenArray(torch.zeros(2, 784, dtype=torch.uint8), 2)).process,
        long.kernel(codec), 0,
    )  # fmt: skip
    stored = sum(each.nbytes for each in (some.starts, some.ends, some.held)) / 4
    assert 0.99 * room < long.couples * stored <= room


def test_an_mlp_carries_many_at_once():
    codec = Arrays((28, 28), 2)
    plan = choose(codec, "cpu", plans.CPU_SIZE, 0, None)
    assert lot_size(784, 2, plan.network(codec)) == 10_000
    assert lot_size(784, 2, replace(plan, width=32, heads=2).network(codec)) < 100


@pytest.mark.parametrize(("most", "stored"), [(1, torch.uint8), (256, torch.int32)])
def test_arrays_are_kept_as_small_as_their_numbers(most, stored, tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.array([[0, most], [1, 1]], dtype=numpy.uint16))
    dataset = kinds.Array().read(tmp_path / "a.npy")
    assert dataset.records.dtype == numpy.uint16
    assert dataset.encoded().dtype == stored
    assert dataset.encoded().tolist() == [[0, most], [1, 1]]


KILLED = """
import builtins, os, random, shutil, signal, sys, time
from pathlib import Path
import discrete_meanflow.training.session as session
from discrete_meanflow.onestep.train import CHECKPOINTS, train
from discrete_meanflow.training import Processes
from discrete_meanflow.training.checkpoint import iteration_in

session.SAVE_EVERY = 0.0  # a checkpoint after every block
opened, calls = open, {name: getattr(os, name) for name in ("fsync", "replace")}
ready, folder = Path(sys.argv[1]), Path(sys.argv[2])

def child(left):
    "A process that trains the run and dies before it touches the disk for the ``left``-th time."
    def fragile(call):
        def made(*given, **more):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **more)
        return made

    pid = os.fork()
    if not pid:
        for name, call in calls.items():
            setattr(os, name, fragile(call))
        write = fragile(opened)
        builtins.open = lambda path, mode="r", *given, **more: (
            opened if mode[0] == "r" else write)(path, mode, *given, **more)
        train(folder, Processes(), lambda news: None)
        os._exit(0)
    return pid

def ended(pid):
    return os.waitpid(pid, 0)[1] == 0

def anew():
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ready, folder)

def weights():
    return (folder / "weights.safetensors").read_bytes()

anew()
train(folder, Processes(), lambda news: None)  # here: what it imports, children need not
anew()
started = time.monotonic()
assert ended(child(0))
seconds, whole = time.monotonic() - started, weights()

killed = 0
while True:  # at each call, the first, the second, ...
    anew()
    if ended(child(killed + 1)):
        break
    killed += 1
    assert ended(child(0))
    assert weights() == whole, f"killed at call {killed}"

chance, seen = random.Random(0), set()
anew()
kills = 0
while kills < 20 or (len(seen) < 3 and kills < 200):  # at any moment, on and on
    kills += 1
    pid = child(0)
    time.sleep(chance.uniform(0, seconds))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    seen.add(tuple(iteration_in(folder / name) for name in CHECKPOINTS))
    if (folder / "weights.safetensors").exists():
        assert weights() == whole
        anew()
assert ended(child(0))
assert weights() == whole
print(killed, len(seen))
"""


def test_a_run_that_is_killed_ends_as_if_it_was_not(tmp_path, monkeypatch):
    """kill -9 before each write, flush and rename, and at random moments: the same weights."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ready = prepared(tmp_path / "ready", iterations=20, second=20, block=10)  # two blocks a stage
    words = [sys.executable, "-c", KILLED, str(ready), str(tmp_path / "cut")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    killed, seen = map(int, done.stdout.split())
    assert killed >= 15  # opening, flush and rename of four checkpoints and the weights
    assert seen >= 3  # moments in both stages
    lines = (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == list(range(10, 41, 10))


def prepared(folder, **changes):
    """A run that is ready to be trained, its plan changed as asked."""
    kind, dataset = dataset_of(WORDS)
    prepare(folder, kind, dataset, "cpu", iterations=40, size=1e4, batch=16)
    config = json.loads((folder / "config.json").read_text())
    config["plan"] |= changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


ATTENTION = {"width": 16, "layers": 1, "heads": 2, "matched": 8, "muon": 4.0}


@pytest.mark.parametrize(
    ("number", "at", "network"),
    [(signal.SIGTERM, 1, {}), (signal.SIGINT, 3, {}), (signal.SIGINT, 3, ATTENTION)],
    ids=["first stage", "second stage", "with attention"],
)
def test_a_run_that_is_asked_to_stop_saves_first(number, at, network, tmp_path):
    """In the first stage and in the second; then it goes on as if nothing had been."""
    longer = {"iterations": 200, "second": 200, **network}  # two blocks a stage
    whole, cut = prepared(tmp_path / "whole", **longer), prepared(tmp_path / "cut", **longer)
    train(whole, Processes(), lambda news: None)
    heard = []

    def stop(news):
        heard.append(news.iteration)
        if len(heard) == at:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        train(cut, Processes(), stop)
    assert not (cut / "weights.safetensors").exists()
    train(cut, Processes(), lambda news: None)
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (whole, cut)]
    assert weights[0] == weights[1]


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    folder = prepared(tmp_path / "run")
    train(folder, Processes(), lambda news: None)
    kept = (folder / "checkpoint-1.safetensors").read_bytes()
    for name in ("weights", "checkpoint-2"):
        (folder / f"{name}.safetensors").unlink()

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device"):
        train(folder, Processes(), lambda news: None)
    assert (folder / "checkpoint-1.safetensors").read_bytes() == kept
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


def test_a_training_that_comes_apart_says_where(tmp_path, monkeypatch):
    """And keeps a state whose next block went well: that at 4, as steps 7 and 8 did not."""
    monkeypatch.setattr(session, "SAVE_EVERY", 0.0)
    folder, rate = prepared(tmp_path / "run", block=2), Recipe.learning_rate_at
    monkeypatch.setattr(
        Recipe, "learning_rate_at", lambda self, step: 1e8 if step >= 6 else rate(self, step)
    )
    with pytest.raises(InputError, match=r"(the loss is \w+ at step|the loss went from)"):
        train(folder, Processes(), lambda news: None)
    assert not (folder / "weights.safetensors").exists()
    assert checkpoint.iteration_in(folder / "checkpoint-1.safetensors") == 4
    monkeypatch.undo()
    train(folder, Processes(), lambda news: None)
    assert (folder / "weights.safetensors").exists()


def test_of_several_tries_the_quickest_tells_the_pace(monkeypatch):
    now, spent = [0.0], iter([50.0, 0.2, 0.1])
    monkeypatch.setattr(plans, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(plans, "FEWEST_TRIES", 3)

    def work():
        now[0] += next(spent)

    assert plans._quickest(work) == pytest.approx(0.1)


def test_the_plan_fits_the_minutes(monkeypatch):
    """With a second for ten steps and for a thousand couples, the steps fill the time."""
    _, dataset = dataset_of(WORDS)
    codec, data = dataset.codec, TokenArray(dataset.encoded(), dataset.codec.vocabulary)
    monkeypatch.setattr(plans, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(plans, "_pace", lambda trainer: 0.1)
    monkeypatch.setattr(plans, "_quickest", lambda work: plans.TRIED / 1000)
    plan = fitted(choose(codec, "cpu", 1e4, 0, 16), codec, data, "cpu", 2.5)
    shares = [plan.iterations / 10, plan.couples / 1000, plan.second / 10]
    assert sum(shares) == pytest.approx(150 * (1 - plans.RESERVED), abs=0.3)
    assert shares == pytest.approx([s * sum(shares) for s in plans.SHARES], abs=0.3)


def test_a_gpu_has_couples_in_whole_lots_and_steps_in_whole_blocks(monkeypatch):
    """Lots are of the size of the trial, whose code they share."""
    _, dataset = dataset_of(WORDS)
    codec, data = dataset.codec, TokenArray(dataset.encoded(), dataset.codec.vocabulary)
    trainer, tried = SimpleNamespace(kernels=lambda: [None]), []
    chosen = choose(codec, "cuda", 1e4, 0, 16)
    lot = lot_size(codec.length, codec.vocabulary, chosen.network(codec))
    monkeypatch.setattr(plans, "Trainer", lambda *_: trainer)
    monkeypatch.setattr(Coupling, "problem", lambda self, *_: tried.append(self.count))

    def lots(self, process, kernel, seed, size, compiled):
        tried.append(size)
        yield

    monkeypatch.setattr(Coupling, "lots", lots)
    monkeypatch.setattr(plans, "_pace", lambda trainer: 0.1)
    monkeypatch.setattr(plans, "_quickest", lambda work: lot / 500)
    plan = fitted(chosen, codec, data, "cuda", 10)
    assert tried == [lot, lot]
    assert plan.couples > lot
    assert plan.couples % lot == 0
    assert plan.iterations % plan.block == plan.second % plan.block == 0
    assert min(plan.iterations, plan.second) > 100


def test_a_transformer_has_matched_noise_and_muon():
    """Of a class, which is known as a rule, noise is matched nowhere; an MLP has neither."""
    images, words = Arrays((80, 80), 3), dataset_of(WORDS)[1].codec
    plans = {
        codec: choose(codec, "cpu", 1e4, 0, None)
        for codec in (images, Classed(images, ("a", "b")), words)
    }
    kinds = [(plan.heads > 0, plan.matched, plan.muon) for plan in plans.values()]
    assert kinds == [(True, 1024, 4.0), (True, 0, 4.0), (False, 0, 0.0)]
    plan = plans[images]
    assert plan.first.muon == plan.coupling.recipe.muon == 4.0
    process = plan.problem(images, TokenArray(torch.zeros(4, 6400, dtype=torch.long), 3)).process
    assert process.matched == 1024


def test_a_plan_of_before_is_the_plan_without_what_is_new(tmp_path):
    words = json.loads((prepared(tmp_path / "run") / "config.json").read_text())["plan"]
    assert not {"matched", "muon"} & set(words)
    assert Plan.made_from(words).describe() == words
    with pytest.raises(InputError, match="block"):
        Plan.made_from({name: value for name, value in words.items() if name != "block"})


def test_a_damaged_log_is_begun_anew(tmp_path):
    folder = prepared(tmp_path / "run")
    (folder / "metrics.jsonl").write_bytes(b"\xff\n" + b"[" * 100_000)
    train(folder, Processes(), lambda news: None)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [20, 40]


TABLES = [
    ("a.csv", "0,5;1,25\n0,7;1,5\n0,5;2,5", ["c1", "c2"], 3),
    ("a.tsv", "x\ty\n1,2,3\ta\n2,2,2\ta", ["x", "y"], 2),
    ("a.csv", "2020-01-01,user0\n2020-01-02,user1\n2020-01-03,user2", ["c1", "c2"], 3),
    ("a.csv", "x,y\na,1\na,2", ["x", "y"], 2),
    ("a.csv", "a,b\na,1\na,2", ["c1", "c2"], 3),
]


@pytest.mark.parametrize(("name", "content", "names", "rows"), TABLES)
def test_how_a_table_is_read(name, content, names, rows, tmp_path):
    (tmp_path / name).write_text(content)
    found = kinds.read.table(tmp_path / name)
    assert (found[0], len(found[1])) == (names, rows)
    said = kinds.read.table(tmp_path / name, header=True)
    assert len(said[1]) == content.count("\n")
    assert len(kinds.read.table(tmp_path / name, header=False)[1]) == content.count("\n") + 1


@pytest.mark.parametrize(
    ("name", "content", "out", "written"),
    [
        ("a.csv", "x;y\na;1\na;2\n", "b.csv", "x;y\na;1\na;2\n"),  # as it was read
        ("a.data", "a\t1\na\t2\n", "b.data", "a\t1\na\t2\n"),  # without a heading
        ("a.tsv", "x\ty\na\t1\na\t2\n", "b.csv", "x,y\na,1\na,2\n"),  # as its name says
        ("a.csv", "x;y\na;1\na;2\n", "b.tsv", "x\ty\na\t1\na\t2\n"),
        ("a.csv", "x;y\na;1\na;2\n", "b.csv.gz", "x;y\na;1\na;2\n"),
    ],
)
def test_rows_are_written_as_they_were_read(name, content, out, written, tmp_path):
    (tmp_path / name).write_text(content)
    dataset = kinds.Table().read(tmp_path / name)
    again = type(dataset.codec).made_from(dataset.codec.describe())
    with kinds.Table().writer(tmp_path / out, again, 2) as write:
        write(dataset.records)
    assert kinds.read.text(tmp_path / out) == written


def test_a_table_of_an_earlier_version_has_commas_and_a_heading():
    codec = Columns(("x",), (("a", "b"),), None, ";", heading=False)
    words = codec.describe()
    del words["delimiter"], words["heading"]
    assert Columns.made_from(words) == Columns(("x",), (("a", "b"),))
    with pytest.raises(InputError, match="no delimiter"):
        Columns.made_from(words | {"delimiter": ""})


def test_one_blank_line_makes_no_prose(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join([*WORDS, "", *WORDS]))
    assert isinstance(kinds.detect(tmp_path / "a.txt"), kinds.Lines)


def test_tables_and_arrays_may_be_gzipped(tmp_path):
    import pandas

    frame = pandas.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "y"]})
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(frame.to_parquet()))
    dataset = kinds.detect(tmp_path / "a.parquet.gz").read(tmp_path / "a.parquet.gz")
    assert dataset.records == [["1", "x"], ["2", "y"], ["2", "y"]]
    with kinds.Table().writer(tmp_path / "b.parquet", dataset.codec, 3) as out:
        out(dataset.records)
    assert pandas.read_parquet(tmp_path / "b.parquet")["a"].tolist() == [1, 2, 2]  # numbers
    numpy.save(tmp_path / "a.npy", numpy.arange(6).reshape(3, 2))
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress((tmp_path / "a.npy").read_bytes()))
    assert kinds.detect(tmp_path / "a.npy.gz").read(tmp_path / "a.npy.gz").records.shape == (3, 2)


def test_many_symbols_are_drawn_a_few_at_a_time():
    """A step of 256 images of 784 pixels in 256 shades: 200 MB, and never a hundred of them."""
    plan = choose(Arrays((28, 28), 256), "cpu", plans.CPU_SIZE, 0, None)
    assert 4 * plan.batch * plan.block * 784 * 256 <= 2**28
    assert choose(Arrays((4, 4), 16), "cpu", plans.CPU_SIZE, 0, None).block == 100
    assert choose(Arrays((4, 4), 16), "cpu", plans.CPU_SIZE, 0, None, processes=3).batch % 6 == 0
    assert choose(Arrays((4, 4), 16), "cpu", plans.CPU_SIZE, 0, None, accumulate=200).batch == 400
    with pytest.raises(InputError, match="are too many"):
        choose(Arrays((100_000,), 10_000), "cpu", plans.CPU_SIZE, 0, None)


def test_a_tokenizer_that_adds_ends_and_leaves_gaps(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {"[CLS]": 0, "[SEP]": 1, "the": 2, "cat": 3, "sat": 7, "?": 9}
    made = Tokenizer(models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    codec = Pieces.of(["the cat sat", "cat ?"], tmp_path / "tokenizer.json")
    assert (codec.pad, codec.length) == (10, 5)
    assert codec.known("the cat") == {0: 0, 1: 2, 2: 3}  # an end is not known
    assert codec.encode(["cat"]).tolist() == [[0, 3, 1, 10, 10]]


def test_a_full_disk_while_logging_is_told(tmp_path, monkeypatch):
    folder = prepared(tmp_path / "run")

    def full(*given, **more):
        raise OSError(28, "No space left on device")

    from torch.utils.tensorboard import SummaryWriter

    monkeypatch.setattr(SummaryWriter, "add_scalar", full)
    with pytest.raises(InputError, match=r"cannot write to .*No space left"):
        train(folder, Processes(), lambda news: None)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no full device")
def test_what_cannot_be_printed_is_told(trained):
    words = [sys.executable, "-m", "discrete_meanflow", "sample", str(trained / "lines")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "cannot print" in done.stderr


def test_couples_can_be_stopped(tmp_path):
    folder = prepared(tmp_path / "run")
    config = run.read_config(folder)
    data = TokenArray(run.read_tokens(folder, run.TRAIN, config.codec), config.codec.vocabulary)
    first, kernel = config.plan.problem(config.codec, data), config.plan.kernel(config.codec)
    with pytest.raises(Interrupted):
        config.plan.coupling.problem(first, kernel, 0, lambda done: True)
