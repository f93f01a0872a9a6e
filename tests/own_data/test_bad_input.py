"""Bad data, bad arguments and hostile run folders give an error of one line."""

import contextlib
import gzip
import json
import os
import resource
import shutil

import numpy
import pytest
import torch
from hypothesis import given, strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.io import kinds
from discrete_meanflow.io.detect import detect
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.read import check_one_length
from discrete_meanflow.model.run_folder import read_weights
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.model.training_record import steps_done
from discrete_meanflow.training import checkpoint
from own_records import FILES, ROWS, train_run, write
from test_cli import in_process

BAD_FILES = [
    ("a.txt", b"", "is empty"),
    ("a.txt", b"one\n", "one distinct record"),
    ("a.txt", b"aa\naaa\n\xff\n", "line 3: not UTF-8"),
    ("a.txt", b"aaa\naaa\n", "at least 2 symbols"),
    ("a.txt", b"aaa\naa\n", "at least 2 symbols, got 'a'"),  # the pad does not count
    ("a.csv", b"a,b\n1,2\n3\n", "line 3 has 1 cells"),
    ("a.csv", b"a,b\n1,\n2,nan\n3,\n", "column b is empty; --drop 'b'"),
    ("a.csv", b"a,b\n1,2\n3,inf\n", "column b, row 2: inf is too large"),
    ("a.csv", b"a,b\n1,2\n3,12345678901234567890\n", "column b, row 2: 12345678901234567890 is"),
    ("a.csv", b"a,d\n1,2024-02-29\n3,2023-02-29\n", "column d, row 2: '2023-02-29' is no date"),
    ("a.csv", b"a,b\n1,1\n1,1\n", "every column is constant"),
    ("a.csv", b"a,b\n1,2\n3,1e400\n", "column b, row 2: 1e400 is too large"),
    ("a.csv", b"a,b\n1,2\n3,-1e400\n", "column b, row 2: -1e400 is too large"),
    ("a.csv", b"a,b\nx,1\ny\0,2\n", "column a, row 2: contains a NUL character; remove it"),
    ("a.csv", b"a,b\n1,2\n3," + b"x" * 10**6, "line 3: field larger than field limit (131072); is"),
    ("a.csv", b'a,b\n1,2\n"2,1\n1,2\n', "line 3 has 1 cells, the first 2; it extends to line 4"),
    ("a.csv", b"a,b\n", "a table needs 2 rows, it has 1"),
    ("a.fasta", b"ACGU", "line 1: a sequence before"),
    ("a.npy", b"not an array", "cannot read"),
    (
        "a.txt",
        "\n".join(map(chr, range(0x4E00, 0x4E00 + 12_000))).encode(),
        "12,000 distinct symbols, the limit is 10,000; line 10001 exceeds it",
    ),
    ("a.smi", b"smiles\n", "it contains no record"),
    (
        "a.csv",
        "\n".join(f"n{i},x" for i in range(200_001)).encode(),
        "column c1 has 200,001 levels, the limit is 200,000; --drop 'c1'",
    ),
    ("a.smi", b" \n \n", "it contains no record"),
    ("a.npz", b"PK\x03\x04 no archive", "cannot read"),
    ("a.npy.gz", gzip.compress(b"no array", mtime=0), "cannot read"),
    ("a.csv", "a,b\nä,1\nö,2\n".encode("latin1"), "line 2: not UTF-8 text; convert the file, as"),
    ("a.csv", b"\xff\xfea\x00,\x00b\x00\n\x00\x00\xd8", "line 2: not UTF-16 text"),
    ("a.xlsx", b"PK", "is a workbook; save its sheet as .csv"),
    ("a.zip", b"PK", "is an archive; unpack it"),
    ("a.png", b"", "is a picture; collect the pictures"),
    ("a.pkl", b"", "is a pickle, which may run code; save it as"),
    ("a.parquet.gz", gzip.compress(b"no table", mtime=0), "cannot read"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_bad_data_gives_an_error_of_one_line(name, content, message, tmp_path, monkeypatch, capsys):
    (tmp_path / name).write_bytes(content)
    words = ("train", tmp_path / name, "--out", tmp_path / "run", "--iterations", 4)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err
    assert name in err
    assert not (tmp_path / "run" / "config.json").exists()


def test_folder_as_file_is_one_line(tmp_path, monkeypatch, capsys):
    for content, message in ((None, "is a folder, not a file"), ("{}", "use dmf sample")):
        if content is not None:
            (tmp_path / "config.json").write_text(content)
        code, _, err = in_process(monkeypatch, capsys, "train", tmp_path, "--iterations", 4)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ["lines", "table", "windows"])
def test_text_with_a_byte_order_mark_may_be_utf16(encoding, kind, tmp_path):
    """As Excel and the PowerShell write it."""
    plain, wide = tmp_path / "plain", tmp_path / "wide"
    text = "name\tcolour\n" + "anna\trød\nbo\tblå\n" * 60
    plain.write_text(text, "utf-8")
    mark = b"" if encoding == "utf-16" else "\ufeff".encode(encoding)
    wide.write_bytes(mark + text.encode(encoding))
    one, other = (kinds.find_kind(kind).read(path) for path in (plain, wide))
    assert one.codec.describe() == other.codec.describe()
    assert torch.equal(one.encoded(), other.encoded())
    assert detect(plain).name == detect(wide).name


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (numpy.array([[0, 1], [1, 0.5]]), "needs integers from 0, got 0.5 at (1, 1)"),
        (numpy.array([[0, numpy.inf], [1, 0.5]]), "got inf at (0, 1)"),
        (numpy.array([[0, 1], [numpy.nan, 0.5]]), "got nan at (1, 0)"),
        (numpy.array([[0, 1e30], [1, 0]]), "got 1e+30 at (0, 1)"),
        (numpy.array([[0j], [1]]), "got complex128"),
        (numpy.array([[0, -1], [1, 0]]), "-1 at (0, 1)"),
        (numpy.array([1, 2, 3]), "records along the first axis"),
        (numpy.array([[0, 10**6], [1, 0]]), "the limit is 9,999"),
        (numpy.array([[{}], [{}]], dtype=object), "cannot read"),
    ],
)
def test_bad_arrays_give_an_error_of_one_line(array, message, tmp_path, monkeypatch, capsys):
    numpy.save(tmp_path / "a.npy", array)
    words = ("train", tmp_path / "a.npy", "--out", tmp_path / "run", "--iterations", 4)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 2
    assert message in err


@given(
    st.binary(max_size=80), st.sampled_from(["a.txt", "a.csv", "a.fa", "a.npy", "a.npz", "a.gz"])
)
def test_any_bytes_are_read_or_rejected(tmp_path_factory, content, suffix):
    path = tmp_path_factory.mktemp("fuzz") / f"a.{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(InputError):  # and no other error
        detect(path).read(path).encoded()


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    """The name and the bytes of a file of every kind."""
    import pandas

    folder = tmp_path_factory.mktemp("whole")
    paths = [write(folder, kind) for kind in FILES]
    numpy.savez_compressed(folder / "data.npz", x=numpy.arange(60).reshape(20, 3) % 4)
    pandas.DataFrame(ROWS, columns=["a", "b", "c"]).to_parquet(folder / "data.parquet")
    paths += [folder / "data.npz", folder / "data.parquet"]
    return [(path.name, path.read_bytes()) for path in paths]


@given(st.data())
def test_damaged_files_are_read_or_rejected(tmp_path_factory, whole_files, data):
    """Bytes of files of every kind are replaced or removed."""
    name, content = data.draw(st.sampled_from(whole_files))
    damaged = bytearray(content)
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        damaged[position] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_bytes(damaged[: data.draw(st.integers(len(content) // 2, len(content)))])
    with contextlib.suppress(InputError):  # and no other error
        detect(path).read(path).encoded()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--infill", "zz"), "'z' at position 0 is not in the alphabet"),
        (("--infill", "zzzzzzzz"), "8 positions; records have at most 4"),
        (
            ("--infill", "0a"),
            "not in the alphabet abcdefghijk_; an unknown position is ?",
        ),
        (("--infill", "abcdefgh"), "8 positions; records have at most 4"),
        (("--steps", "0"), "steps must be at least 1"),
        (("-n", "0"), "n must be at least 1"),
        (("--temperature", "0"), "temperature must lie in [0.001"),
        (("--temperature", "inf"), "temperature must lie in [0.001"),
        (("--infill", "a", "--guidance", "nan"), "guidance must be from 0 to 100"),
        (("--infill", "a", "--guidance", "-1"), "guidance must be from 0 to 100"),
        (("--out", "a.npy"), "a.npy: these records are written as text"),
        (("--infill", "??", "--guidance", "2"), "guidance needs a condition"),
        (("--infill", "a_f"), "text after '_', which ends a string"),
        (("--out", "/nowhere/x"), "cannot write"),
    ],
)
def test_bad_sample_options_give_an_error_of_one_line(words, message, trained, monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, "sample", trained / "lines", *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seed", "-1"), "seed must be at least 0"),
        (("--kind", "windows", "--length", "0"), "--length: at least 1"),
        (("--kind", "windows", "--length", "8", "--held-out", "-5"), "held_out must be at least 1"),
        (("--held-out", "0"), "held_out must be at least 1"),
        (("--iterations", "1"), "iterations must be at least 2"),
        (("--minutes", "-1"), "minutes must be from 0"),
        (("--size", "5"), "size must be from 10000"),
        (("--columns", "a=number"), "--columns is for table"),
        (("--length", "8"), "--length is for windows"),
        (("--header", "yes"), "--header is for table"),
        (("--resume", "nowhere"), "takes no other options"),
        (("--batch", "0"), "batch must be from 1"),
        (("--size", "0"), "size must be from 10000"),
        (("--batch", "16", "--accumulate", "3"), "accumulate: 3 does not divide a batch of 16"),
        (("--label", "nowhere"), "cannot read nowhere"),
        (("--label", "{few}"), "--label '{few}': classes: 2 classes for"),
        (("--tokenizer", "{few}"), "dmf: {few}: not a Hugging Face tokenizer JSON"),
        (("--no-pad",), "data.txt: line 2 has 3 symbols, the first has 2; allow it with --pad"),
        (
            ("--kind", "smiles", "--tokenizer", "t.json"),
            "is read as smiles; pass --kind lines",
        ),
        (("--batch", "256", "--accumulate", "200"), "accumulate: 200 does not divide"),
    ],
)
def test_bad_train_options_give_an_error_of_one_line(words, message, tmp_path, monkeypatch, capsys):
    path, few = write(tmp_path, "lines"), tmp_path / "few"
    few.write_text("a\nb\n")
    message, *words = (text.format(few=few) for text in (message, *words))
    words = ("train", path, "--out", tmp_path / "run", "--iterations", "4", *words)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err
    assert not (tmp_path / "run" / "config.json").exists()


def test_bad_commands_keep_existing_files(trained, tmp_path, monkeypatch, capsys):
    old = tmp_path / "old.txt"
    old.write_text("mine")
    for words, message in (
        (("export", trained / "lines", "--onnx", "/nowhere/a.onnx"), "cannot write"),
        (("sample", trained / "array", "--out", "/nowhere/a.npy"), "cannot write"),
        (("sample", trained / "array", "--out", tmp_path / "a.txt"), "FILE.npy, FILE.npy.gz"),
        (
            ("sample", trained / "table", "--out", tmp_path / "a.parquet.gz"),
            "Parquet is compressed already",
        ),
        (("sample", trained / "table", "--out", tmp_path / "a.json"), "as CSV, TSV or Parquet"),
        (("sample", trained / "table", "--temperature", 101), "must lie in [0.001, 100]"),
        (
            ("sample", trained / "lines", "--class", "a"),
            "class 'a': this run was trained without classes",
        ),
        (
            ("sample", trained / "lines", "--guidance", "2"),
            "guidance needs a condition",
        ),
        (("train", "--resume", trained / "lines", "--minutes", "3"), "takes no other options"),
        (("train", trained / "files" / "data.txt", "--minutes", "inf"), "minutes must be from 0"),
        (("sample", trained / "lines", "--infill", "zz", "--out", old), "not in the alphabet"),
        (("evaluate", trained / "lines", "-n", 0), "n must be at least 4"),
        (("train", trained.parent / "nothing"), "does not exist"),
        (("train",), "pass a FILE"),
    ):
        code, _, err = in_process(monkeypatch, capsys, *words)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
    assert old.read_text() == "mine"


PLANS = {
    "huge batch": {"batch": 10**12}, "many couples": {"teacher_pairs": 10**14},
    "long seed": {"seed": 2**70}, "no end": {"teacher_steps": 10**30},
    "a crowd": {"minibatch_ot": 2**20}, "no rate": {"muon_ratio": float("nan")},
    "a long block": {"batch": 2**20, "block": 10**6},
    "wide couples": {"teacher_pairs": 10**6},
}  # fmt: skip


NOTES = {
    "checkpoint": {"iteration": 10**9}, "deep note": {}, "no generator": {},
    "endless note": {"iteration": float("inf")},
    "no time": {"iteration": 0, "seconds": float("nan")},
    "endless time": {"iteration": 0, "seconds": 10**400},
    "negative time": {"iteration": 0, "seconds": -1},
    "no history": {"iteration": 0, "history": {"first teacher loss": "x"}},
}  # fmt: skip


def spoil(folder, what):
    """Damage a run folder in the way that ``what`` names."""
    config = json.loads((folder / "config.json").read_text())
    weights = folder / "weights.safetensors"
    if what == "pickle":
        weights.write_bytes(b"\x80\x04cos\nsystem\n(S'false'\ntR.")
    elif what == "shapes":
        tensors = {n: torch.zeros(1) for n, _ in read_weights(
            folder, run.read_config(folder)).named_parameters()}  # fmt: skip
        save_file(tensors, weights)
    elif what in ("no numbers", "whole numbers"):
        parameters = read_weights(folder, run.read_config(folder)).named_parameters()
        nan = what == "no numbers"
        tensors = {name: p * torch.nan if nan else p.int() for name, p in parameters}
        save_file(tensors, weights)
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
        tokens = read_tokens(folder / run.TRAIN, run.read_config(folder).codec)
        save_file({"tokens": tokens.to(torch.uint16)}, folder / "train.safetensors")
    elif what == "log":
        weights.unlink()
        (folder / "metrics.jsonl").unlink()
        (folder / "metrics.jsonl").mkdir()
    elif what in ("endless log", "a pipe", "a huge log"):
        weights.unlink()
        log = folder / "metrics.jsonl"
        log.unlink()
        if what == "endless log":
            log.symlink_to("/dev/zero")
        elif what == "a pipe":
            os.mkfifo(log)
        else:
            log.touch()
            os.truncate(log, 2**40)
    elif what == "board":
        weights.unlink()
        shutil.rmtree(folder / run.TENSORBOARD)
        (folder / run.TENSORBOARD).write_text("")
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
    ["pickle", "shapes", "no numbers", "whole numbers", "names", "giant", "huge header", "kind",
     "plan", "codec", "json",
     "no count", "a tower", "endless", "deep", "checkpoint", "deep note", "no history",
     "no generator", "no time", "endless time", "negative time", "surrogate",
     "long", "endless note", "odd tokens", "log", "board",
     "endless log", "a pipe", "a huge log", *PLANS],
)  # fmt: skip
def test_a_hostile_run_folder_gives_an_error_of_one_line(
    what, trained, tmp_path, monkeypatch, capsys
):
    OneStepModel.load(trained / "lines", "cpu").save(tmp_path / "run")
    spoil(tmp_path / "run", what)
    commands = [("sample", tmp_path / "run"), ("train", "--resume", tmp_path / "run")]
    # A run with weights is trained already: resuming reads only its config.
    weights_only = what in (
        "pickle", "shapes", "no numbers", "whole numbers", "names", "huge header"
    )  # fmt: skip
    for words in commands[:1] if weights_only else commands:
        code, _, err = in_process(monkeypatch, capsys, *words)
        assert (code, err.count("\n")) == (2, 1), err


@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_a_large_network_in_a_config_takes_no_memory(from_checkpoint, trained, tmp_path):
    shutil.copytree(trained / "lines", tmp_path / "run")
    if from_checkpoint:
        (tmp_path / "run" / run.WEIGHTS).unlink()
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["plan"] |= {"width": 6000, "layers": 4, "heads": 6}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="too few for the network of config"):
        OneStepModel.load(tmp_path / "run", "cpu", from_checkpoint=from_checkpoint)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


@pytest.mark.parametrize("iteration", [10**300, -5, 10**9, float("nan")])
def test_an_absurd_number_of_steps_is_not_reported(iteration, trained, tmp_path):
    shutil.copytree(trained / "lines", tmp_path / "run")
    (tmp_path / "run" / run.WEIGHTS).unlink()
    path = tmp_path / "run" / run.CHECKPOINTS[0]
    save_file({}, path, {"note": json.dumps({"iteration": iteration})})
    config = run.read_config(tmp_path / "run")
    assert 0 <= steps_done(tmp_path / "run", config.plan) <= config.plan.steps


def test_tokens_outside_a_column_are_rejected(trained, tmp_path):
    shutil.copytree(trained / "table", tmp_path / "run")
    codec = run.read_config(tmp_path / "run").codec
    tokens = read_tokens(tmp_path / "run" / run.TRAIN, codec).clone()
    smallest = min(range(codec.length), key=lambda i: codec.columns[i].leaves)
    tokens[-1, smallest] = codec.vocabulary - 1  # a token of another column
    save_file({"tokens": tokens}, tmp_path / "run" / "train.safetensors")
    with pytest.raises(InputError, match="do not occur in their column"):
        read_tokens(tmp_path / "run" / run.TRAIN, codec)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (None, "needs records, got NoneType"),
        (5, "needs records, got int"),
        (numpy.array([[0, -1], [1, 2]]), r"data: -1 at \(0, 1\)"),
        ([b"ab", b"ba"], "record 1 is b'ab'; records must all be strings"),
    ],
)
def test_bad_records_in_python_are_located(records, message):
    with pytest.raises(InputError, match=message):
        OneStepModel.fit(records, iterations=2)


def test_links_and_pipes_in_a_run_folder_are_not_followed(trained, tmp_path):
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    shutil.copytree(trained / "lines", folder)
    elsewhere.mkdir()
    weights = folder / run.WEIGHTS
    weights.unlink()
    shutil.rmtree(folder / run.TENSORBOARD, ignore_errors=True)
    (folder / run.TENSORBOARD).symlink_to(elsewhere)
    with pytest.raises(InputError, match="is a link"):
        train_run(folder)
    assert not list(elsewhere.iterdir())
    for path in (weights, *(folder / name for name in run.CHECKPOINTS)):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        assert checkpoint.iteration_in(path) == 0
    for from_checkpoint in (False, True):
        with pytest.raises(InputError, match="is not a regular file"):
            OneStepModel.load(folder, "cpu", from_checkpoint=from_checkpoint)


def test_a_bad_output_folder_is_rejected_before_reading_the_file(
    trained, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "a.txt"
    path.write_text("")  # an error as well, but a later one
    for out, message in (
        (trained / "lines", "already contains a run"),
        (tmp_path, "contains other files, such as a.txt"),
        (path, "cannot make"),
        ("/proc/nowhere", "cannot make"),
        (tmp_path / "new", "a.txt"),
    ):
        code, _, err = in_process(monkeypatch, capsys, "train", path, "--out", out)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
    assert list(tmp_path.iterdir()) == [path]


def test_foreign_files_are_not_overwritten(tmp_path, monkeypatch, capsys):
    path = write(tmp_path, "lines")
    words = ("--iterations", 2, "--size", 1e4, "--device", "cpu")
    for name, content in (("train.safetensors", b"mine"), ("held_out.safetensors", b"mine")):
        folder = tmp_path / name.split(".")[0]
        folder.mkdir()
        (folder / name).write_bytes(content)
        code, _, err = in_process(monkeypatch, capsys, "train", path, "--out", folder, *words)
        assert (code, err.count("\n")) == (2, 1), err
        assert f"contains other files, such as {name}" in err
        assert (folder / name).read_bytes() == content
    complete = tmp_path / "run"
    assert in_process(monkeypatch, capsys, "train", path, "--out", complete, *words)[0] == 0
    incomplete = tmp_path / "incomplete"
    incomplete.mkdir()
    for name in ("train.safetensors", "held_out.safetensors"):
        shutil.copy(complete / name, incomplete / name)
    (incomplete / "notes.txt").write_text("mine")
    code, _, err = in_process(monkeypatch, capsys, "train", path, "--out", incomplete, *words)
    assert code == 2
    assert "notes.txt" in err
    (incomplete / "notes.txt").unlink()
    assert in_process(monkeypatch, capsys, "train", path, "--out", incomplete, *words)[0] == 0


def test_a_damaged_checkpoint_keeps_the_log(trained, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained / "lines", folder)
    (folder / "weights.safetensors").unlink()
    (folder / run.CHECKPOINTS[0]).write_bytes(b"damaged")
    log = (folder / "metrics.jsonl").read_text()
    assert log
    code, _, err = in_process(monkeypatch, capsys, "train", "--resume", folder)
    assert (code, err.count("\n")) == (2, 1), err
    assert (folder / "metrics.jsonl").read_text() == log


def test_damaged_weights_can_be_restored(trained, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained / "lines", folder)
    whole = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(whole[:1000])
    code, _, err = in_process(monkeypatch, capsys, "sample", folder)
    assert (code, err.count("\n")) == (2, 1)
    assert f"delete it and run dmf train --resume {folder}" in err
    (folder / "weights.safetensors").unlink()
    assert in_process(monkeypatch, capsys, "train", "--resume", folder)[0] == 0
    assert (folder / "weights.safetensors").read_bytes() == whole


@pytest.mark.parametrize(
    ("kind", "content", "line"),
    [
        ("lines", b"ab\n\n\nabc\nab\n", 4),
        ("smiles", b"smiles\n\nCC one\n  \nCCO two\n", 5),
        ("fasta", b">a\nAC\nGU\n>none\n>b\nACG\nU\n>c\nAC\n", 8),
    ],
)
def test_no_pad_reports_the_line_of_another_length(kind, content, line, tmp_path):
    (tmp_path / "a").write_bytes(content)
    dataset = kinds.find_kind(kind).read(tmp_path / "a")
    with pytest.raises(InputError, match=f"^line {line} has"):
        check_one_length(dataset)
