"""Files of every kind are detected, read and written."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import given, strategies as st

import measure
from discrete_meanflow import OneStepModel
from discrete_meanflow.data import TokenArray, tokens as token_files
from discrete_meanflow.data.split import default_held_out, train_test_split
from discrete_meanflow.errors import InputError
from discrete_meanflow.io import content, kinds, windows
from discrete_meanflow.io.array_codec import ArrayCodec, read_array
from discrete_meanflow.io.array_kind import Array
from discrete_meanflow.io.codec import Dataset
from discrete_meanflow.io.content import FastaFile, read_text
from discrete_meanflow.io.detect import detect
from discrete_meanflow.io.labelled_codec import add_classes, read_classes
from discrete_meanflow.io.subword_codec import SubwordCodec
from discrete_meanflow.io.table.cells import type_of
from discrete_meanflow.io.table.choose_column import choose_columns
from discrete_meanflow.io.table.level_column import LevelColumn
from discrete_meanflow.io.table.read_table import read_parquet, read_table
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.io.table.table_kind import Table
from discrete_meanflow.io.text_codec import TextCodec
from discrete_meanflow.io.text_kinds import (
    Fasta,
    Lines,
    Smiles,
    Tokenised,
    TokenisedWindows,
    Windows,
)
from discrete_meanflow.model.evaluate import Evaluator
from discrete_meanflow.model.read import check_one_length
from discrete_meanflow.model.tensor_files import read_tokens, write_tokens
from own_records import FILES, ROWS, WORDS, train_by_command, write
from test_cli import in_process


@pytest.mark.parametrize("kind", FILES)
def test_files_are_detected_and_round_trip(kind, tmp_path):
    path = write(tmp_path, kind)
    assert type(detect(path)) is kinds.KINDS[kind]
    dataset = detect(path).read(path)
    tokens = dataset.encoded()
    assert int(tokens.max()) < dataset.codec.vocabulary
    decoded = dataset.codec.decode(tokens)
    if kind == "windows":
        assert "".join(decoded) == path.read_text()[: len(decoded) * 64]
    else:
        assert numpy.array_equal(decoded, list(dataset.records))
    assert type(dataset.codec).from_json(dataset.codec.describe()) == dataset.codec


@pytest.mark.parametrize("kind", FILES)
def test_samples_have_the_format_of_the_input(kind, trained, tmp_path, monkeypatch, capsys):
    suffix = {"table": ".csv", "array": ".npy", "fasta": ".fasta.gz", "smiles": ".smi"}
    out = tmp_path / f"out{suffix.get(kind, '.txt')}"
    words = ("sample", trained / kind, "-n", 7, "--seed", 1, "--out", out)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    first = out.read_bytes()
    monkeypatch.setattr(time, "time", lambda: 10**9)
    in_process(monkeypatch, capsys, *words)
    assert out.read_bytes() == first  # the same seed at another time
    if kind == "array":
        assert numpy.load(out).shape == (7, 2, 3)
    elif kind == "table":
        names, rows, *_ = read_table(out)
        assert names == ["colour", "letter", "k"]
        assert len(rows) == 7
        assert {row[2] for row in rows} == {"same"}  # a constant column
    elif kind == "fasta":
        assert len(FastaFile(out)) == 7
    elif kind == "lines":
        assert out.read_text().count("\n") == 7


@pytest.mark.parametrize("name", ["a.npy", "a.npy.gz", "a.npz", None])
def test_arrays_are_written_in_every_format(name, trained, tmp_path, monkeypatch, capsys):
    words = ("sample", trained / "array", "-n", 7, "--seed", 1)
    out = () if name is None else ("--out", tmp_path / name)
    code, printed, err = in_process(monkeypatch, capsys, *words, *out)
    assert code == 0, err
    if name is not None:
        first = (tmp_path / name).read_bytes()
        monkeypatch.setattr(time, "time", lambda: 10**9)  # at another time
        in_process(monkeypatch, capsys, *words, *out)
        assert (tmp_path / name).read_bytes() == first
    records = OneStepModel.load(trained / "array", "cpu").sample(7, seed=1)
    if name is None:
        assert printed.split() == [",".join(map(str, record.ravel())) for record in records]
    else:
        assert numpy.array_equal(read_array(tmp_path / name)[0], records)


def test_semicolon_tables_are_read_and_written_as_parquet(tmp_path, monkeypatch, capsys):
    rows = [[row[0], row[1] + ",", row[2]] for row in ROWS]
    path = tmp_path / "data.csv"
    path.write_text("colour;letter;k\n" + "\n".join(";".join(row) for row in rows))
    model = train_by_command(monkeypatch, capsys, path, tmp_path / "run")
    assert model.config.codec.names == ("colour", "letter", "k")
    assert all(row[1] == "x," for row in model.sample(5, infill="letter=x\\,"))
    out = tmp_path / "out.parquet"
    code, _, err = in_process(
        monkeypatch, capsys, "sample", tmp_path / "run", "-n", 7, "--seed", 1, "--out", out
    )
    assert code == 0, err
    assert read_parquet(out)[:2] == (["colour", "letter", "k"], model.sample(7, seed=1))


@pytest.mark.parametrize(
    ("column", "type_as_text", "type_as_values"),
    [
        ([1, 2], "int", "int"), ([1, 2.5], "float", "float"), ([True, False], "str", "bool"),
        (["1", "2"], "int", "str"), (["01", "2"], "str", "str"), (["1_0", "2"], "str", "str"),
        (["0.5", "-3"], "float", "str"),
        (["²", "1"], "str", "str"), (["-0.25", "00.5"], "str", "str"),
    ],
)  # fmt: skip
def test_cells_are_numbers_if_nothing_is_lost(column, type_as_text, type_as_values):
    (chosen,) = choose_columns(["x"], [[str(cell)] for cell in column])
    assert chosen.type == type_as_text
    assert type_of(column) == type_as_values


def test_parquet_keeps_its_types(tmp_path):
    import pandas

    frame = pandas.DataFrame({"zip": ["10", "20"], "x": [0.5, 1.5], "b": [True, False]})
    frame.to_parquet(tmp_path / "a.parquet")
    dataset = detect(tmp_path / "a.parquet").read(tmp_path / "a.parquet")
    codec = TableCodec.from_json(json.loads(json.dumps(dataset.codec.describe())))
    with Table().writer(tmp_path / "b.parquet", codec, 2) as out:
        out(dataset.records)
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "b.parquet"), frame)
    with pytest.raises(InputError, match=r"^table: unknown frame"):
        TableCodec.from_json(codec.describe() | {"frame": "os"})


def test_infill_escapes_delimiters_in_names_and_levels():
    odd = TableCodec.of(["a=b", "c,d"], [["x=y", "p\\"], ["z", "q,"]])
    assert odd.parse_infill(r"a\=b=x=y,c\,d=p\\") == {0: 0, 1: 0}
    assert odd.parse_infill(r"c\,d=q\,") == {1: 1}


def test_windows_read_a_text_in_chunks(tmp_path, monkeypatch):
    """Two-byte characters lie on the edges of chunks; the last window is incomplete."""
    text = "größe und maß, " * 300
    (tmp_path / "a.txt").write_text(text)
    monkeypatch.setattr(content, "CHUNK_BYTES", 7)
    alphabet, tokens = windows.windows(tmp_path / "a.txt", 16)
    assert "".join(alphabet.decode(tokens)) == text[: len(text) // 16 * 16]
    (tmp_path / "b.txt").write_bytes(b"all is well here\n" * 9 + b"\xff")
    with pytest.raises(InputError, match="line 10: not UTF-8"):
        windows.windows(tmp_path / "b.txt", 16)
    (tmp_path / "c.txt").write_bytes(b"\xef\xbb\xbf" + b"one line\r\n" * 9)
    alphabet, tokens = windows.windows(tmp_path / "c.txt", 9)
    assert alphabet.decode(tokens) == ["one line\n"] * 9  # as in files of lines


@given(st.text("ab\r\n\u2028", max_size=40), st.integers(1, 9))
def test_lines_keep_their_ends_across_chunks(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("lines") / "a.csv"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "CHUNK_BYTES", size)
        lines = list(content.iter_line_ends(path))
    assert lines == io.StringIO(text, newline="").readlines()


@pytest.mark.parametrize("new_text", ["abcd", "abce" * 9])
def test_a_text_that_changes_between_passes_is_rejected(tmp_path, monkeypatch, new_text):
    path = tmp_path / "a.txt"
    path.write_text("abcd" * 9)
    surveyed = windows.survey(path)
    monkeypatch.setattr(windows, "survey", lambda path: surveyed)
    path.write_text(new_text)
    with pytest.raises(InputError, match="changed while it was read"):
        windows.windows(path, 4)


def test_a_full_disk_is_reported(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    (tmp_path / "a.txt").write_text("a text of some length " * 9)
    monkeypatch.setattr(token_files, "MAX_IN_MEMORY", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"cannot allocate .* bytes in .*: No space left .*TMPDIR"):
        windows.windows(tmp_path / "a.txt", 9)


MEMORY = """
import sys
from pathlib import Path
import torch
from discrete_meanflow.data import TokenArray, split, tokens
from discrete_meanflow.io.kinds import find_kind
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.training import Distributed
from measure import anonymous_mib, watched

tokens.MAX_IN_MEMORY = split.SORTED = 2**22
text, run, kind = Path(sys.argv[1]), Path(sys.argv[2]), find_kind(sys.argv[3])
before = anonymous_mib()
with watched() as peak:
    options = FitOptions(iterations=2, size=1e4)
    config, _ = prepare(run, kind, kind.read(text), options, Distributed())
    codec = config.codec
    data = TokenArray(read_tokens(run / "train.safetensors", codec), codec.vocabulary)
    data.sample((100, 256), torch.Generator().manual_seed(0))
print(peak[0] - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "size", "limit", "distinct"),
    [("windows", 200, 100, 10**8), ("lines", 80, 70, 10**8), ("lines", 80, 90, 3)],
    ids=["windows", "lines", "repeated lines"],
)
def test_a_file_need_not_fit_into_memory(kind, size, limit, distinct, tmp_path, monkeypatch):
    """A file of ``size`` MB takes less than ``limit`` MB of memory."""
    monkeypatch.setenv("PYTHONPATH", str(Path(measure.__file__).parent), prepend=os.pathsep)
    path, line = tmp_path / "a.txt", "CCNCCOCCFCCNCCO{:08d}CCNCCFCCOCCNCC\n"
    with open(path, "w") as file:
        count = size * 2**20 // len(line.format(0))
        file.writelines(line.format(i % distinct) for i in range(count))
    words = [sys.executable, "-c", MEMORY, str(path), str(tmp_path / "run"), kind]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < limit


def test_a_few_words_may_stand_among_numbers(tmp_path):
    cells = ["?" if i % 10 == 0 else f"{i / 7:.3f}" for i in range(200)]
    (tmp_path / "a.csv").write_text(
        "x,y\n" + "\n".join(f"{x},{i % 2}" for i, x in enumerate(cells))
    )
    codec = Table().read(tmp_path / "a.csv").codec
    assert (codec.columns[0].kind, codec.columns[0].words) == ("number", ("?",))
    assert len(codec.parse_infill("x=0.5")) == len(codec.parse_infill("x=?")) == 2
    words = [f"{i},{'abcdef'[i % 6] if i % 7 == 0 else i}" for i in range(200)]
    (tmp_path / "b.csv").write_text("\n".join(words))
    assert Table().read(tmp_path / "b.csv").codec.columns[1].kind == "levels"  # codes


@pytest.mark.parametrize("rows", ["0.1,5\n0.2,6\n0.3,7\n", "0.1,a\n,b\n0.3,c\n"])
def test_words_above_numbers_are_a_header(rows, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n" + rows)
    assert Table().read(tmp_path / "a.csv").codec.names == ("x", "y")


def write_frame(frame, path):
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_missing_cells_are_a_value(name, tmp_path):
    import pandas

    frame = pandas.DataFrame({"x": [1.5, None] * 20, "who": ["Nan", "Bo", None, "Al"] * 10})
    path = tmp_path / name
    write_frame(frame, path)
    dataset = Table().read(path)
    assert [column.levels for column in dataset.codec.columns] == [
        ("1.5", ""), ("", "Al", "Bo", "Nan"),
    ]  # fmt: skip
    card = dataset.codec.card(dataset)
    assert card["missing cells"] == {"x": 20, "who": 10}
    out = tmp_path / f"out-{name}"
    with Table().writer(out, dataset.codec, 40) as write_rows:
        write_rows(dataset.records)
    again = pandas.read_csv(out) if path.suffix == ".csv" else pandas.read_parquet(out)
    pandas.testing.assert_frame_equal(again, frame, check_dtype=False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"a": 1}\n'),
        ("a.txt", '{"a": 1, "b": 2}\n' * 9),
        ("a.json", '[{"a": 1}]'),
        ("a.txt", '[\n  {"a": 1}\n]'),
        ("a.txt", '["ab", "cd"]'),
        ("a.txt", '{\n  "a": 1\n}'),
    ],
)
def test_json_is_rejected(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=r"is JSON.*\.csv.*--kind lines"):
        detect(tmp_path / name)
    (tmp_path / name).with_suffix(".txt").write_text("[nH]1cccc1\n{a}\n")
    assert detect((tmp_path / name).with_suffix(".txt")).name == "lines"


def test_smiles_files_may_contain_names(tmp_path):
    for text in ("Canonical_SMILES,name\nCCO,ethanol\nC=O;x\n", "smiles\tid\nCCO\t1\nC=O 2\n"):
        (tmp_path / "a.smi").write_text(text)
        assert list(Smiles().read(tmp_path / "a.smi").records) == ["CCO", "C=O"]
    (tmp_path / "a.smi").write_text("CCO\n,CC\n")
    with pytest.raises(InputError, match="line 2: does not begin with a molecule"):
        Smiles().read(tmp_path / "a.smi")


def test_numbers_may_be_separated_by_spaces(tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{i % 3} {i % 5 - 1} {i % 2}.5\n" for i in range(60)))
    assert detect(path).name == "table"
    model = train_by_command(monkeypatch, capsys, path, tmp_path / "run")
    assert [column.leaves for column in model.config.codec.columns] == [3, 5, 2]
    words = ("sample", tmp_path / "run", "-n", 3)
    code, shown, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    assert all(len(line.split(" ")) == 3 for line in shown.splitlines())
    assert in_process(monkeypatch, capsys, *words, "--out", tmp_path / "b.csv")[0] == 0
    assert "," in (tmp_path / "b.csv").read_text()
    for other in ("the cat sat\nthe dog ran\n", "1 2\n1 2 3\n", "1  2\n3  4\n", "New York\n"):
        path.write_text(other * 5)
        assert detect(path).name == "lines"


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_columns_are_dropped_on_request(name, tmp_path, monkeypatch, capsys):
    import pandas

    rows = {"id": range(40), "a b": list("xyzw") * 10, "n": [1, 2] * 20, "z": [0.5, 1.5] * 20}
    path = tmp_path / name
    write_frame(pandas.DataFrame(rows), path)
    model = train_by_command(monkeypatch, capsys, path, tmp_path / "run", "--drop", "id", "a b")
    columns = [(column.name, column.type) for column in model.config.codec.columns]
    assert columns == [("n", "int"), ("z", "float")]
    card = json.loads((tmp_path / "run" / "data.json").read_text())
    assert "--drop id 'a b'" in card["command"]
    with pytest.raises(InputError, match="no column 'q'; the columns are id, a b, n, z"):
        Table(drop=["q"]).read(path)
    with pytest.raises(InputError, match="no column is left"):
        Table(drop=list(rows)).read(path)


def test_empty_columns_can_be_dropped(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c\n" + ",x,1\n,y,2\n,x,\n")
    with pytest.raises(InputError, match=r"column a is empty; --drop 'a' leaves it out"):
        Table().read(tmp_path / "a.csv")
    dataset = Table(drop=["a"]).read(tmp_path / "a.csv")
    assert dataset.records == [["x", "1"], ["y", "2"], ["x", ""]]


def test_a_header_must_name_every_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",a,b\n" + "0,x,y\n1,x,z\n" * 3)
    with pytest.raises(InputError, match="line 1: column 1 has no name"):
        Table().read(path)
    path.write_text("k,b\nx,2\n,2\n,\nx,4\n")  # an empty row is skipped
    dataset = Table().read(path)
    assert dataset.codec.names == ("k", "b")
    assert dataset.records == [["x", "2"], ["", "2"], ["x", "4"]]


def test_columns_of_unique_words_are_noted():
    rows = [[f"id{i}", str(i % 3)] for i in range(200)]
    codec = TableCodec.of(["a", "b"], rows)
    card = codec.card(Dataset(rows, codec))
    assert card["columns"] == {"a": 200, "b": 3}
    assert "--drop a" in card["note"]
    few = TableCodec.of(["a", "b"], [[f"id{i % 100}", str(i % 3)] for i in range(200)])
    assert "note" not in few.card(Dataset(rows, few))


def test_suspicious_data_gives_a_warning(tmp_path, monkeypatch, capsys):
    pytest.importorskip("rdkit")
    names = "".join(f"anna{i}\n" for i in range(80))
    for name, text, warning in (
        ("a.smi", names, "RDKit can parse 0"),
        ("b.smi", "CCO\nCCN\nCCC\n" * 3, None),
        ("a.fasta", ">a\nACGT\n>b\nacgt\n>c\nAAAA\n", "a and A"),
        ("b.fasta", ">a\nACGT\n>b\nGGGG\n>c\nAAAA\n", None),
        ("a.csv", "a,a,b\n" + "".join(f"{i % 9},{i % 7},3\n" for i in range(90)), "--header yes"),
    ):
        (tmp_path / name).write_text(text)
        words = ("train", tmp_path / name, "--out", tmp_path / f"{name}-run", "--iterations", 2)
        code, out, err = in_process(monkeypatch, capsys, *words, "--size", 1e4, "--device", "cpu")
        assert code == 0, err
        assert ("warning" in out or "--header" in out) == (warning is not None)
        assert warning is None or warning in out
        assert ("needs at least 8 held-out records" in out) == (
            name.startswith("b") or "fasta" in name
        )


@pytest.fixture
def tokenizer(tmp_path):
    """The JSON of a word-level tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"the": 0, "cat": 1, "dog": 2, "sat": 3, "ran": 4, "?": 5}
    made = Tokenizer(models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_a_tokenizer_defines_the_symbols(tokenizer, tmp_path, monkeypatch, capsys):
    text = tmp_path / "a.txt"
    text.write_text("the cat sat\nthe dog ran\nthe cat ran\nthe dog sat\ncat sat\ndog ran\n")
    words = ("train", text, "--out", tmp_path / "run", "--iterations", 8, "--size", 1e4,
             "--batch", 16, "--device", "cpu", "--tokenizer", tokenizer)  # fmt: skip
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    model = OneStepModel.load(tmp_path / "run", "cpu")
    assert (model.config.codec.vocabulary, model.config.codec.length) == (7, 3)
    assert all(line.startswith("the cat") for line in model.sample(5, infill="the cat"))
    tokens = model.config.codec.encode(["the dog ran", "cat"])
    assert tokens.tolist() == [[0, 2, 4], [1, 6, 6]]
    assert model.config.codec.decode(tokens) == ["the dog ran", "cat"]
    with pytest.raises(InputError, match="not a Hugging Face tokenizer"):
        Tokenised(text).read(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.fasta", ">one\nACGU\n>two\nACGG\n"),
        ("a.smi", "smiles name\nCCO a\nCCC b\n"),
        ("a.txt", "a,b\n1,2\n3,4\n5,6\n"),
    ],
)
def test_a_tokenizer_needs_lines_or_windows(name, text, tokenizer, tmp_path, monkeypatch, capsys):
    """Otherwise headers and the names of molecules would become records."""
    (tmp_path / name).write_text(text)
    words = ("train", tmp_path / name, "--out", tmp_path / "run", "--tokenizer", tokenizer)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert "--kind lines" in err


def test_empty_fasta_sequences_are_skipped(tmp_path):
    (tmp_path / "a.fasta").write_text(">a\n>b\nACG\nU\n>c\n\n>d\nGG\n>e\n")
    assert list(Fasta().read(tmp_path / "a.fasta").records) == ["ACGU", "GG"]


def test_windows_may_consist_of_subwords(tokenizer, tmp_path, monkeypatch, capsys):
    """Windows have equal numbers of tokens, and no chunk of the text cuts a word."""
    text, vocabulary = tmp_path / "a.txt", ["the", "cat", "sat", "dog", "ran"]
    order = torch.randint(5, (400,), generator=torch.Generator().manual_seed(0)).tolist()
    text.write_text(
        "\n\n".join(" ".join(vocabulary[i] for i in order[k : k + 9]) for k in range(0, 400, 9))
    )
    monkeypatch.setattr(windows, "TOKENIZER_CHUNK", 50)  # characters
    dataset = TokenisedWindows(7, tokenizer).read(text)
    ids = [{"the": 0, "cat": 1, "dog": 2, "sat": 3, "ran": 4}[vocabulary[i]] for i in order]
    assert dataset.encoded().tolist() == [ids[k : k + 7] for k in range(0, 399, 7)]
    words = ("train", text, "--out", tmp_path / "run", "--iterations", 4, "--size", 1e4, "--batch",
             8, "--device", "cpu", "--tokenizer", tokenizer, "--length", 7, "--no-pad")  # fmt: skip
    code, out, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    assert "distinct: 57" in out
    model = OneStepModel.load(tmp_path / "run", "cpu")
    assert model.config.codec.length == 7
    assert isinstance(model.config.kind, Windows)
    assert all(line.startswith("cat sat") for line in model.sample(3, infill="cat sat"))
    assert "known words" in model.evaluate(4, steps=(1,))["scores"]["1 step"]
    # Words at the edges of windows count, and no two words are joined.
    assert Evaluator(model.config, dataset.encoded(), dataset.encoded())._words == set(vocabulary)
    short = tmp_path / "b.txt"
    short.write_text("the cat " * 10)
    with pytest.raises(InputError, match="20 symbols are too few for windows of 64"):
        TokenisedWindows(64, tokenizer).read(short)
    short.write_text("")
    with pytest.raises(InputError, match="is empty, or the tokenizer finds no subword in it"):
        TokenisedWindows(64, tokenizer).read(short)


def test_fit_accepts_a_tokenizer(tokenizer):
    strings = ["the cat sat", "the dog ran", "cat ran", "dog sat", "the cat ran"]
    model = OneStepModel.fit(strings, iterations=4, size=1e4, batch=8, tokenizer=tokenizer)
    assert (model.config.codec.vocabulary, model.config.codec.length) == (7, 3)
    for wrong, message in (
        ({"kind": "smiles"}, "for lines, not for smiles"),
        ({"tokenizer": 3}, "3 cannot be the path"),
        ({"tokenizer": "missing.json"}, "No such file"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            OneStepModel.fit(strings, iterations=4, **{"tokenizer": tokenizer, **wrong})


def test_a_tokenizer_that_cannot_read_the_data_is_reported(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"the": 0, "cat": 1}, unk_token="?"))  # not in its vocabulary
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "words.json"))
    with pytest.raises(InputError, match="cannot read the data"):
        SubwordCodec.of(["the cat", "the dog"], tmp_path / "words.json")


def test_truncation_and_padding_of_a_tokenizer_are_disabled(tokenizer, tmp_path):
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(tokenizer))
    made.enable_truncation(2)
    made.enable_padding(pad_id=5, length=4)
    made.save(str(tmp_path / "cuts.json"))
    codec = SubwordCodec.of(["the cat sat", "cat"], tmp_path / "cuts.json")
    assert codec.encode(["the cat sat", "cat"]).tolist() == [[0, 1, 3], [1, 6, 6]]


def test_text_outside_the_tokenizer_vocabulary_is_noted(tokenizer, tmp_path):
    from tokenizers import Tokenizer, models

    letters = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))  # drops all others
    letters.save(str(tmp_path / "letters.json"))
    strings = ["ab", "abc", "ba", "b a"]
    dropping = SubwordCodec.of(strings, tmp_path / "letters.json")
    unknown = SubwordCodec.of(["the cat", "the cow"], tokenizer)
    assert [dropping.out_of_vocabulary(string) for string in strings] == ["", "c", "", ""]
    assert unknown.out_of_vocabulary("the cow ran") == "cow"
    for codec, pattern, message in ((dropping, "zabz", "'z'"), (unknown, "the cow", "'cow'")):
        with pytest.raises(InputError, match=f"no subword for {message}"):
            codec.parse_infill(pattern)
    card = dropping.card(Dataset(strings, dropping))
    assert card["note"].startswith("1 of 4 records contain text outside the tokenizer's vocab")
    card = dropping.card(Dataset(strings, dropping, torch.zeros(2, 3)))
    assert card["note"].startswith("1 of 4 lines at the beginning contain text outside")
    assert "note" not in unknown.card(Dataset(["the cat", "cat"], unknown))


def test_no_pad_counts_the_tokens_of_a_tokenizer(tokenizer):
    codec = SubwordCodec.of(["the cat sat", "cat sat"], tokenizer)
    check_one_length(Dataset(["the cat", "the dog"], codec))
    with pytest.raises(InputError, match="record 2 has 2 symbols, the first has 3"):
        check_one_length(Dataset(["the cat sat", "cat sat"], codec))


@pytest.mark.parametrize("name", ["a.npz", "a.npz.gz"])
def test_classes_are_read_from_an_array_or_a_file(name, tmp_path):
    classes = numpy.array([3, 1, 3])
    numpy.savez(tmp_path / "a.npz", y=classes, x=numpy.array([[0, 1], [1, 2], [2, 0]]))
    numpy.save(tmp_path / "y.npy", classes)
    (tmp_path / "y.txt").write_text("3\n1\n3\n")
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress((tmp_path / "a.npz").read_bytes()))
    dataset = detect(path).read(path)
    assert dataset.records.tolist() == [[0, 1], [1, 2], [2, 0]]
    for label in ("y", str(tmp_path / "y.npy"), str(tmp_path / "y.txt")):
        assert read_classes(dataset, path, label).records[1] == ["3", "1", "3"]


def test_tokens_of_256_symbols_round_trip(tmp_path):
    tokens = torch.arange(256).reshape(64, 4)
    codec = ArrayCodec((4,), 256)
    write_tokens(tmp_path / "train.safetensors", {"tokens": tokens}, 256)
    restored = read_tokens(tmp_path / "train.safetensors", codec)
    assert torch.equal(TokenArray(restored, 256).tokens.long(), tokens)
    with pytest.raises(InputError, match="token 255 in record 63"):
        TokenArray(restored, 255)


def test_split_keeps_repeated_rows_and_separates_strings():
    rows = torch.tensor([[0, 0]] * 90 + [[i, 1] for i in range(10)])
    train, apart, note = train_test_split(rows, 20, 0, True)
    assert (len(train), len(apart)) == (80, 20)
    assert note == {"distinct": 11, "duplicates kept": 89}
    assert 0.7 < (apart == 0).all(1).double().mean() < 1  # 0.9 in the file
    sorted_rows = torch.arange(200)[:, None].expand(200, 2)
    halves = train_test_split(sorted_rows, 100, 0, True)[1].double().chunk(2)
    assert abs(halves[0].mean() - halves[1].mean()) < 40  # 100 if they were sorted
    train, apart, note = train_test_split(rows, 4, 0, False)
    assert (len(train), len(apart), note["duplicates removed"]) == (7, 4, 89)
    # Strings that occur ten times or more are draws from a small law.
    train, apart, note = train_test_split(rows[:93], 20, 0, False)
    assert (len(train), len(apart), note["duplicates kept"]) == (73, 20, 89)
    assert [default_held_out(n) for n in (16, 53, 54, 10**6)] == [1, 1, 8, 10_000]
    classes = torch.tensor([[i // 2, i // 2, i % 2] for i in range(40)])
    # Each string has two classes and must not be on both sides.
    sides = train_test_split(classes, 5, 0, False, 2)[:2]
    assert [len(side) for side in sides] == [30, 10]
    assert not torch.isin(sides[0][:, 0], sides[1][:, 0]).any()


@pytest.mark.parametrize(("most", "stored"), [(1, torch.uint8), (256, torch.int32)])
def test_arrays_are_stored_in_the_smallest_dtype(most, stored, tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.array([[0, most], [1, 1]], dtype=numpy.uint16))
    dataset = Array().read(tmp_path / "a.npy")
    assert dataset.records.dtype == numpy.uint16
    assert dataset.encoded().dtype == stored
    assert dataset.encoded().tolist() == [[0, most], [1, 1]]


TABLES = [
    ("a.csv", "0,5;1,25\n0,7;1,5\n0,5;2,5", ["c1", "c2"], 3),
    ("a.tsv", "x\ty\n1,2,3\ta\n2,2,2\ta", ["x", "y"], 2),
    ("a.csv", "2020-01-01,user0\n2020-01-02,user1\n2020-01-03,user2", ["c1", "c2"], 3),
    ("a.csv", "x,y\na,1\na,2", ["x", "y"], 2),
    ("a.csv", "a,b\na,1\na,2", ["c1", "c2"], 3),
]


@pytest.mark.parametrize(("name", "content", "names", "rows"), TABLES)
def test_header_and_delimiter_are_guessed(name, content, names, rows, tmp_path):
    (tmp_path / name).write_text(content)
    table = read_table(tmp_path / name)
    assert (table.names, len(table.rows)) == (names, rows)
    table = read_table(tmp_path / name, header=True)
    assert len(table.rows) == content.count("\n")
    assert len(read_table(tmp_path / name, header=False).rows) == content.count("\n") + 1


@pytest.mark.parametrize(
    ("name", "content", "out", "written"),
    [
        ("a.csv", "x;y\na;1\na;2\n", "b.csv", "x;y\na;1\na;2\n"),  # as in the input
        ("a.data", "a\t1\na\t2\n", "b.data", "a\t1\na\t2\n"),  # without a header
        ("a.tsv", "x\ty\na\t1\na\t2\n", "b.csv", "x,y\na,1\na,2\n"),  # by the suffix
        ("a.csv", "x;y\na;1\na;2\n", "b.tsv", "x\ty\na\t1\na\t2\n"),
        ("a.csv", "x;y\na;1\na;2\n", "b.csv.gz", "x;y\na;1\na;2\n"),
    ],
)
def test_rows_are_written_in_the_format_of_the_input(name, content, out, written, tmp_path):
    (tmp_path / name).write_text(content)
    dataset = Table().read(tmp_path / name)
    codec = type(dataset.codec).from_json(dataset.codec.describe())
    with Table().writer(tmp_path / out, codec, 2) as write:
        write(dataset.records)
    assert read_text(tmp_path / out) == written


def test_a_table_codec_rejects_an_unknown_delimiter():
    codec = TableCodec((LevelColumn("x", (), ("a", "b")),), None, ";", header=False)
    assert TableCodec.from_json(codec.describe()) == codec
    with pytest.raises(InputError, match="is not a delimiter"):
        TableCodec.from_json(codec.describe() | {"delimiter": ""})


def test_a_blank_line_does_not_make_a_text_of_windows(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join([*WORDS, "", *WORDS]))
    assert isinstance(detect(tmp_path / "a.txt"), Lines)


def test_tables_and_arrays_may_be_gzipped(tmp_path):
    import pandas

    frame = pandas.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "y"]})
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(frame.to_parquet()))
    dataset = detect(tmp_path / "a.parquet.gz").read(tmp_path / "a.parquet.gz")
    assert dataset.records == [["1", "x"], ["2", "y"], ["2", "y"]]
    with Table().writer(tmp_path / "b.parquet", dataset.codec, 3) as out:
        out(dataset.records)
    assert pandas.read_parquet(tmp_path / "b.parquet")["a"].tolist() == [1, 2, 2]  # not text
    numpy.save(tmp_path / "a.npy", numpy.arange(6).reshape(3, 2))
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress((tmp_path / "a.npy").read_bytes()))
    assert detect(tmp_path / "a.npy.gz").read(tmp_path / "a.npy.gz").records.shape == (3, 2)


def test_a_tokenizer_may_add_special_tokens_and_skip_ids(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {"[CLS]": 0, "[SEP]": 1, "the": 2, "cat": 3, "sat": 7, "?": 9}
    made = Tokenizer(models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    codec = SubwordCodec.of(["the cat sat", "cat ?"], tmp_path / "tokenizer.json")
    assert (codec.pad, codec.length) == (10, 5)
    assert codec.parse_infill("the cat") == {0: 0, 1: 2, 2: 3}  # without the final token
    assert codec.encode(["cat"]).tolist() == [[0, 3, 1, 10, 10]]


PARQUET = """
import sys
from pathlib import Path
import torch
from discrete_meanflow.io.table.read_table import read_parquet
read_parquet(Path(sys.argv[1]))
sys.exit(2)
"""


def test_a_process_exits_cleanly_after_reading_parquet(tmp_path):
    """Threads that read ahead used to abort the process every second time."""
    import pandas

    frame = pandas.DataFrame({"a": list(range(1000)), "b": ["x", "y"] * 500})
    frame.to_parquet(tmp_path / "a.parquet")
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", PARQUET, str(tmp_path / "a.parquet")])
        assert done.returncode == 2


@pytest.mark.parametrize("kind", ["lines", "smiles", "table", "array", "fasta"])
def test_tokens_of_few_symbols_are_bytes(kind, tmp_path):
    dataset = detect(write(tmp_path, kind)).read(tmp_path / write(tmp_path, kind).name)
    tokens = dataset.encoded()
    assert tokens.dtype == torch.uint8
    decoded = dataset.codec.decode(tokens)
    assert numpy.array_equal(decoded, list(dataset.records))


def test_one_long_record_is_noted():
    words = [f"{i:04d}" for i in range(3000)]
    codec = TextCodec.of(words)
    assert "note" not in codec.card(Dataset(words, codec))
    words[7] = "x" * 100
    codec = TextCodec.of(words)
    card = codec.card(Dataset(words, codec))
    assert card["lengths"] == {"least": 4, "median": 4, "most": 100}
    assert "only 1 records are longer than half the longest" in card["note"]


def test_cards_describe_classes_windows_and_arrays(tmp_path):
    labelled = add_classes(Lines().of(["ab", "c", "a"]), ["x", "y", "x"])
    card = labelled.codec.card(labelled)
    assert card["alphabet"] == "abc_"
    assert card["lengths"] == {"least": 1, "median": 1, "most": 2}
    assert card["classes"] == {"x": 2, "y": 1}
    (tmp_path / "a.txt").write_text("it was dark. " * 9)
    text = Windows(8).read(tmp_path / "a.txt")
    assert text.codec.card(text)["lengths"] == {"least": 8, "median": 8, "most": 8}
    array = Dataset(numpy.zeros((5, 2, 3)), ArrayCodec((2, 3), 4))
    assert array.codec.card(array) == {"shape": [2, 3], "symbols": 4}
    rows = Dataset(ROWS, TableCodec.of(["a", "b", "c"], ROWS))
    card = add_classes(rows, "b").codec.card(rows)
    assert card == {"columns": {"a": 3, "b": 2, "c": 1}, "class": "b"}


def test_a_cell_may_contain_a_carriage_return(tmp_path):
    rows = [["a\rb", "c"], ["d", "e"]]
    with Table().writer(tmp_path / "a.csv", TableCodec.of(["x", "y"], rows), 2) as out:
        out(rows)
    with open(tmp_path / "a.csv", newline="") as file:
        assert list(csv.reader(file)) == [["x", "y"], *rows]
