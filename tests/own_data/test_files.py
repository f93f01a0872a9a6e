"""Files of every kind: told, read, written again."""

import csv
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import torch

import side_by_side
from discrete_meanflow import OneStepModel
from discrete_meanflow.cli.generate import _notes
from discrete_meanflow.data import TokenArray, content, room, windows
from discrete_meanflow.data import kind as kinds
from discrete_meanflow.data.array_codec import ArrayCodec
from discrete_meanflow.data.cells import type_of, type_told_by
from discrete_meanflow.data.kind import Dataset
from discrete_meanflow.data.labelled_codec import with_label
from discrete_meanflow.data.subword_codec import SubwordCodec
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.data.text_codec import TextCodec
from discrete_meanflow.errors import InputError
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.evaluate import Evaluator
from discrete_meanflow.model.prepare import check_one_length, cut, understood
from own_records import FILES, ROWS, WORDS, train_by_command, write
from test_cli import in_process


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
        assert numpy.array_equal(again, list(dataset.records))
    assert type(dataset.codec).from_json(dataset.codec.describe()) == dataset.codec


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
        assert numpy.array_equal(kinds.read.array(tmp_path / name)[0], records)


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
    codec = TableCodec.from_json(json.loads(json.dumps(dataset.codec.describe())))
    with kinds.Table().writer(tmp_path / "b.parquet", codec, 2) as out:
        out(dataset.records)
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "b.parquet"), frame)
    for lie in ({"types": ["int", "int", "bool"]}, {"types": ["str"]}, {"frame": "os"},
                {"types": ["str", "float", "pickle"]}):  # fmt: skip
        with pytest.raises(InputError, match=r"^table: "):
            TableCodec.from_json(codec.describe() | lie)
    large = {"columns": ["n"], "levels": [["1", str(2**63)]], "label": None, "types": ["int"]}
    with pytest.raises(InputError, match="do not have the types"):
        TableCodec.from_json(large)


def test_columns_and_levels_may_have_any_letters():
    odd = TableCodec(("a=b", "c,d"), (("x=y", "z"), ("p\\", "q,")))
    assert odd.known(r"a\=b=x=y,c\,d=p\\") == {0: 0, 1: 0}
    assert odd.known(r"c\,d=q\,") == {1: 1}


def test_a_long_text_is_read_piece_by_piece(tmp_path, monkeypatch):
    """Letters of two bytes on the edge of a piece, and the end that fills no window."""
    text = "größe und maß, " * 300
    (tmp_path / "a.txt").write_text(text)
    monkeypatch.setattr(content, "PIECE", 7)
    alphabet, tokens = windows.windows(tmp_path / "a.txt", 16)
    assert "".join(alphabet.decode(tokens)) == text[: len(text) // 16 * 16]
    (tmp_path / "b.txt").write_bytes(b"all is well here\n" * 9 + b"\xff")
    with pytest.raises(InputError, match="line 10: not UTF-8"):
        windows.windows(tmp_path / "b.txt", 16)
    (tmp_path / "c.txt").write_bytes(b"\xef\xbb\xbf" + b"one line\r\n" * 9)
    alphabet, tokens = windows.windows(tmp_path / "c.txt", 9)
    assert alphabet.decode(tokens) == ["one line\n"] * 9  # as lines are read, too


@pytest.mark.parametrize("then", ["abcd", "abce" * 9])
def test_a_text_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, then):
    path = tmp_path / "a.txt"
    path.write_text("abcd" * 9)
    found = windows.survey(path)
    monkeypatch.setattr(windows, "survey", lambda path: found)
    path.write_text(then)
    with pytest.raises(InputError, match="changed while it was read"):
        windows.windows(path, 4)


def test_a_disk_without_room_for_tokens_is_told(tmp_path, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    (tmp_path / "a.txt").write_text("a text of some length " * 9)
    monkeypatch.setattr(room, "FEW", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"no room for .* bytes in .*: No space left .*TMPDIR"):
        windows.windows(tmp_path / "a.txt", 9)


MEMORY = """
import sys
from pathlib import Path
import torch
from discrete_meanflow.data import TokenArray, room
from discrete_meanflow.data.kind import find_kind
from discrete_meanflow.model import folder
from discrete_meanflow.model.prepare import prepare
from side_by_side import anonymous_mib, watched

room.FEW = sys.modules["discrete_meanflow.data.split"].SORTED = 2**22  # few are many here
text, run, kind = Path(sys.argv[1]), Path(sys.argv[2]), find_kind(sys.argv[3])
before = anonymous_mib()
with watched() as peak:
    prepare(run, kind, kind.read(text), "cpu", iterations=2, size=1e4)
    codec = folder.read_config(run).codec
    data = TokenArray(folder.read_tokens(run, "train", codec), codec.vocabulary)
    data.sample((100, 256), torch.Generator().manual_seed(0))
print(peak[0] - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "size", "most", "kinds"),
    [("windows", 200, 100, 10**8), ("lines", 80, 70, 10**8), ("lines", 80, 90, 3)],
    ids=["windows", "lines", "lines that are alike"],
)
def test_a_file_need_not_fit_into_memory(kind, size, most, kinds, tmp_path, monkeypatch):
    """Of so many MB only some are ever held, though no line is like another, or all are."""
    monkeypatch.setenv("PYTHONPATH", str(Path(side_by_side.__file__).parent))
    path, line = tmp_path / "a.txt", "CCNCCOCCFCCNCCO{:08d}CCNCCFCCOCCNCC\n"
    with open(path, "w") as file:
        count = size * 2**20 // len(line.format(0))
        file.writelines(line.format(i % kinds) for i in range(count))
    words = [sys.executable, "-c", MEMORY, str(path), str(tmp_path / "run"), kind]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < most


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


def test_a_word_among_numbers_stays_when_they_are_binned(tmp_path):
    cells = ["?" if i % 10 == 0 else f"{i / 7:.3f}" for i in range(200)]
    (tmp_path / "a.csv").write_text(
        "x,y\n" + "\n".join(f"{x},{i % 2}" for i, x in enumerate(cells))
    )
    codec = kinds.Table(5).read(tmp_path / "a.csv").codec
    assert len(codec.levels[0]) == 6
    assert "?" in codec.levels[0]
    assert len(codec.known("x=0.5")) == len(codec.known("x=?")) == 1
    words = [f"{i},{'abcdef'[i % 6] if i % 7 == 0 else i}" for i in range(200)]
    (tmp_path / "b.csv").write_text("\n".join(words))
    assert len(kinds.Table(5).read(tmp_path / "b.csv").codec.levels[1]) > 100  # codes, rather


def write_frame(frame, path):
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_empty_cells_may_be_a_level(name, tmp_path, monkeypatch, capsys):
    import pandas

    frame = pandas.DataFrame({"x": [1.5, None] * 20, "who": ["Nan", "Bo", "", "Al"] * 10})
    path = tmp_path / name
    write_frame(frame, path)
    with pytest.raises(InputError, match=r"a missing value.*--missing"):
        kinds.Table().read(path)
    with pytest.raises(InputError, match="of 30"):
        kinds.Table().read(path)
    codec = kinds.Table(missing="?").read(path).codec
    assert codec.names == ("x", "who")
    assert codec.levels == (("1.5", "?"), ("?", "Al", "Bo", "Nan"))
    words = ("train", path, "--out", tmp_path / "run", "--missing", "?", "--iterations", 2)
    assert in_process(monkeypatch, capsys, *words, "--size", 1e4, "--device", "cpu")[0] == 0
    assert "--missing '?'" in json.loads((tmp_path / "run" / "data.json").read_text())["command"]
    words = ("train", write(tmp_path, "lines"), "--out", tmp_path / "no", "--missing", "?")
    assert in_process(monkeypatch, capsys, *words)[0] == 2


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
def test_json_is_refused(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=r"is JSON.*\.csv.*--kind lines"):
        kinds.detect(tmp_path / name)
    (tmp_path / name).with_suffix(".txt").write_text("[nH]1cccc1\n{a}\n")
    assert kinds.detect((tmp_path / name).with_suffix(".txt")).name == "lines"


def test_names_behind_molecules_are_none(tmp_path):
    for text in ("Canonical_SMILES,name\nCCO,ethanol\nC=O;x\n", "smiles\tid\nCCO\t1\nC=O 2\n"):
        (tmp_path / "a.smi").write_text(text)
        assert list(kinds.Smiles().read(tmp_path / "a.smi").records) == ["CCO", "C=O"]
    (tmp_path / "a.smi").write_text("CCO\n,CC\n")
    with pytest.raises(InputError, match="line 2: begins with no molecule"):
        kinds.Smiles().read(tmp_path / "a.smi")


def test_numbers_may_have_spaces_between(tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{i % 3} {i % 5 - 1} {i % 2}.5\n" for i in range(60)))
    assert kinds.detect(path).name == "table"
    model = train_by_command(monkeypatch, capsys, path, tmp_path / "run")
    assert [len(each) for each in model.config.codec.levels] == [3, 5, 2]
    words = ("sample", tmp_path / "run", "-n", 3)
    code, shown, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    assert all(len(line.split(" ")) == 3 for line in shown.splitlines())
    assert in_process(monkeypatch, capsys, *words, "--out", tmp_path / "b.csv")[0] == 0
    assert "," in (tmp_path / "b.csv").read_text()
    for other in ("the cat sat\nthe dog ran\n", "1 2\n1 2 3\n", "1  2\n3  4\n", "New York\n"):
        path.write_text(other * 5)
        assert kinds.detect(path).name == "lines"


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_columns_may_be_left_out(name, tmp_path, monkeypatch, capsys):
    import pandas

    rows = {"id": range(40), "a b": list("xyzw") * 10, "n": [1, 2] * 20, "z": [0.5, 1.5] * 20}
    path = tmp_path / name
    write_frame(pandas.DataFrame(rows), path)
    model = train_by_command(monkeypatch, capsys, path, tmp_path / "run", "--without", "id", "a b")
    assert (model.config.codec.names, model.config.codec.types) == (("n", "z"), ("int", "float"))
    card = json.loads((tmp_path / "run" / "data.json").read_text())
    assert "--without id 'a b'" in card["command"]
    with pytest.raises(InputError, match="no column 'q'; there are id, a b, n, z"):
        kinds.Table(drop=["q"]).read(path)
    with pytest.raises(InputError, match="no column is left"):
        kinds.Table(drop=list(rows)).read(path)


def test_what_is_left_out_may_have_gaps(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c\n" + ",x,1\n,y,2\n,x,\n")
    with pytest.raises(InputError, match="line 4, column 3: a missing value, of 1;"):
        kinds.Table(drop=["a"]).read(tmp_path / "a.csv")
    found = kinds.Table(missing="-", drop=["a"]).read(tmp_path / "a.csv")
    assert found.records == [["x", "1"], ["y", "2"], ["x", "-"]]


def test_a_heading_has_no_missing_values(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",a,b\n" + "0,x,y\n1,x,z\n" * 3)
    with pytest.raises(InputError, match="line 1: column 1 has no name"):
        kinds.Table(missing="?").read(path)
    path.write_text("k,b\nx,2\n,2\n,\nx,4\n")  # a row of nothing is none
    found = kinds.Table(missing="?").read(path)
    assert found.codec.names == ("k", "b")
    assert found.records == [["x", "2"], ["?", "2"], ["x", "4"]]


@pytest.mark.parametrize(
    ("levels", "advice"),
    [
        ([f"{i / 7:.3f}" for i in range(200)], "--bins"),
        (["?", *(f"{i / 7:.3f}" for i in range(200))], "--bins"),
        ([f"id{i}" for i in range(200)], "--without a"),
    ],
)
def test_columns_of_many_values_are_noted(levels, advice):
    codec = TableCodec.of(["a", "b"], [[level, str(i % 3)] for i, level in enumerate(levels)])
    (note,) = _notes(codec, len(levels))
    assert advice in note


def test_what_seems_odd_is_told(tmp_path, monkeypatch, capsys):
    pytest.importorskip("rdkit")
    names = "".join(f"anna{i}\n" for i in range(80))
    for name, text, doubt in (
        ("a.smi", names, "RDKit can read 0"),
        ("b.smi", "CCO\nCCN\nCCC\n" * 3, None),
        ("a.fasta", ">a\nACGT\n>b\nacgt\n>c\nAAAA\n", "a and A"),
        ("b.fasta", ">a\nACGT\n>b\nGGGG\n>c\nAAAA\n", None),
        ("a.csv", "a,a,b\n" + "".join(f"{i % 9},{i % 7},3\n" for i in range(90)), "--header yes"),
    ):
        (tmp_path / name).write_text(text)
        words = ("train", tmp_path / name, "--out", tmp_path / f"{name}-run", "--iterations", 2)
        code, out, err = in_process(monkeypatch, capsys, *words, "--size", 1e4, "--device", "cpu")
        assert code == 0, err
        assert ("doubt" in out or "--header" in out) == (doubt is not None)
        assert doubt is None or doubt in out
        assert ("too few to judge by" in out) == (name.startswith("b") or "fasta" in name)


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.fasta", ">one\nACGU\n>two\nACGG\n"),
        ("a.smi", "smiles name\nCCO a\nCCC b\n"),
        ("a.txt", "a,b\n1,2\n3,4\n5,6\n"),
    ],
)
def test_a_tokenizer_is_for_lines_and_windows(name, text, tokenizer, tmp_path, monkeypatch, capsys):
    """Else headings, and what stands behind a molecule, would be records."""
    (tmp_path / name).write_text(text)
    words = ("train", tmp_path / name, "--out", tmp_path / "run", "--tokenizer", tokenizer)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert "--kind lines" in err


def test_empty_sequences_are_no_records(tmp_path):
    (tmp_path / "a.fasta").write_text(">a\n>b\nACG\nU\n>c\n\n>d\nGG\n>e\n")
    assert list(kinds.Fasta().read(tmp_path / "a.fasta").records) == ["ACGU", "GG"]


def test_windows_of_a_text_may_be_of_pieces(tokenizer, tmp_path, monkeypatch, capsys):
    """As many tokens each, and no word cut where the text is read in parts."""
    text, words = tmp_path / "a.txt", ["the", "cat", "sat", "dog", "ran"]
    order = torch.randint(5, (400,), generator=torch.Generator().manual_seed(0)).tolist()
    text.write_text(
        "\n\n".join(" ".join(words[i] for i in order[k : k + 9]) for k in range(0, 400, 9))
    )
    monkeypatch.setattr(windows, "MOUTHFUL", 50)  # characters
    dataset = kinds.TokenisedWindows(7, tokenizer).read(text)
    ids = [{"the": 0, "cat": 1, "dog": 2, "sat": 3, "ran": 4}[words[i]] for i in order]
    assert dataset.encoded().tolist() == [ids[k : k + 7] for k in range(0, 399, 7)]
    told = ("train", text, "--out", tmp_path / "run", "--iterations", 4, "--size", 1e4, "--batch",
            8, "--device", "cpu", "--tokenizer", tokenizer, "--length", 7, "--no-pad")  # fmt: skip
    code, out, err = in_process(monkeypatch, capsys, *told)
    assert code == 0, err
    assert "distinct: 57" in out
    model = OneStepModel.load(tmp_path / "run", "cpu")
    assert model.config.codec.length == 7
    assert isinstance(model.config.kind, kinds.Windows)
    assert all(line.startswith("cat sat") for line in model.sample(3, clamp="cat sat"))
    assert "known words" in model.evaluate(4, steps=(1,))["scores"]["1 step"]
    # Those at the edges of windows are words of the text, too, and none is made of two.
    assert Evaluator(model.config, dataset.encoded(), dataset.encoded())._vocabulary == set(words)
    short = tmp_path / "b.txt"
    short.write_text("the cat " * 10)
    with pytest.raises(InputError, match="20 symbols are too few for windows of 64"):
        kinds.TokenisedWindows(64, tokenizer).read(short)
    short.write_text("")
    with pytest.raises(InputError, match="is empty, or the tokenizer makes nothing of it"):
        kinds.TokenisedWindows(64, tokenizer).read(short)


def test_a_tokenizer_in_python(tokenizer):
    strings = ["the cat sat", "the dog ran", "cat ran", "dog sat", "the cat ran"]
    model = OneStepModel.fit(strings, iterations=4, size=1e4, batch=8, tokenizer=tokenizer)
    assert (model.config.codec.vocabulary, model.config.codec.length) == (7, 3)
    for wrong, message in (
        ({"kind": "smiles"}, "for lines, not for smiles"), ({"tokenizer": 3}, "got int"),
        ({"tokenizer": "missing.json"}, "No such file"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            OneStepModel.fit(strings, iterations=4, **{"tokenizer": tokenizer, **wrong})


def test_a_tokenizer_that_cannot_read_a_word_says_so(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"the": 0, "cat": 1}, unk_token="?"))  # which is no word
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "words.json"))
    with pytest.raises(InputError, match="cannot read the data"):
        SubwordCodec.of(["the cat", "the dog"], tmp_path / "words.json")


def test_a_tokenizer_that_cuts_and_fills_does_neither(tokenizer, tmp_path):
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(tokenizer))
    made.enable_truncation(2)
    made.enable_padding(pad_id=5, length=4)
    made.save(str(tmp_path / "cuts.json"))
    codec = SubwordCodec.of(["the cat sat", "cat"], tmp_path / "cuts.json")
    assert codec.encode(["the cat sat", "cat"]).tolist() == [[0, 1, 3], [1, 6, 6]]


def test_what_a_tokenizer_has_no_piece_for_is_told(tokenizer, tmp_path):
    from tokenizers import Tokenizer, models

    letters = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))  # drops all others
    letters.save(str(tmp_path / "letters.json"))
    strings = ["ab", "abc", "ba", "b a"]
    dropping = SubwordCodec.of(strings, tmp_path / "letters.json")
    unknown = SubwordCodec.of(["the cat", "the cow"], tokenizer)
    assert [dropping.missing(each) for each in strings] == ["", "c", "", ""]
    assert unknown.missing("the cow ran") == "cow"
    for codec, pattern, message in ((dropping, "zabz", "'z'"), (unknown, "the cow", "'cow'")):
        with pytest.raises(InputError, match=f"no piece for {message}"):
            codec.known(pattern)
    card = understood(dropping, Dataset(strings, dropping))
    assert card["note"].startswith("of 1 of 4 records the tokenizer has no piece for some")
    told = understood(dropping, Dataset(strings, dropping, torch.zeros(2, 3)))["note"]
    assert told.startswith("of 1 of 4 lines at the beginning the tokenizer")
    assert "note" not in understood(unknown, Dataset(["the cat", "cat"], unknown))


def test_tokens_are_counted_where_none_is_filled_up(tokenizer):
    codec = SubwordCodec.of(["the cat sat", "cat sat"], tokenizer)
    check_one_length(Dataset(["the cat", "the dog"], codec))
    with pytest.raises(InputError, match="record 2 has 2 symbols, the first 3"):
        check_one_length(Dataset(["the cat sat", "cat sat"], codec))


@pytest.mark.parametrize("name", ["a.npz", "a.npz.gz"])
def test_classes_may_stand_before_the_records_or_in_a_file(name, tmp_path):
    classes = numpy.array([3, 1, 3])
    numpy.savez(tmp_path / "a.npz", y=classes, x=numpy.array([[0, 1], [1, 2], [2, 0]]))
    numpy.save(tmp_path / "y.npy", classes)
    (tmp_path / "y.txt").write_text("3\n1\n3\n")
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress((tmp_path / "a.npz").read_bytes()))
    dataset = kinds.detect(path).read(path)
    assert dataset.records.tolist() == [[0, 1], [1, 2], [2, 0]]
    for label in ("y", str(tmp_path / "y.npy"), str(tmp_path / "y.txt")):
        assert with_label(dataset, path, label).records[1] == ["3", "1", "3"]


def test_tokens_of_256_symbols_are_read_back(tmp_path):
    tokens = torch.arange(256).reshape(64, 4)
    codec = ArrayCodec((4,), 256)
    run.write_tokens(tmp_path / "train.safetensors", {"tokens": tokens}, 256)
    again = run.read_tokens(tmp_path, "train", codec)
    assert torch.equal(TokenArray(again, 256).tokens.long(), tokens)
    with pytest.raises(InputError, match="token 255 in record 63"):
        TokenArray(again, 255)


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


@pytest.mark.parametrize(("most", "stored"), [(1, torch.uint8), (256, torch.int32)])
def test_arrays_are_kept_as_small_as_their_numbers(most, stored, tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.array([[0, most], [1, 1]], dtype=numpy.uint16))
    dataset = kinds.Array().read(tmp_path / "a.npy")
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
    again = type(dataset.codec).from_json(dataset.codec.describe())
    with kinds.Table().writer(tmp_path / out, again, 2) as write:
        write(dataset.records)
    assert kinds.read.text(tmp_path / out) == written


def test_a_table_of_an_earlier_version_has_commas_and_a_heading():
    codec = TableCodec(("x",), (("a", "b"),), None, ";", heading=False)
    words = codec.describe()
    del words["delimiter"], words["heading"]
    assert TableCodec.from_json(words) == TableCodec(("x",), (("a", "b"),))
    with pytest.raises(InputError, match="no delimiter"):
        TableCodec.from_json(words | {"delimiter": ""})


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


def test_a_tokenizer_that_adds_ends_and_leaves_gaps(tmp_path):
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
    assert codec.known("the cat") == {0: 0, 1: 2, 2: 3}  # an end is not known
    assert codec.encode(["cat"]).tolist() == [[0, 3, 1, 10, 10]]


PARQUET = """
import sys
from pathlib import Path
import torch
from discrete_meanflow.data import read
read.parquet(Path(sys.argv[1]))
sys.exit(2)
"""


def test_a_command_may_end_early_after_parquet(tmp_path):
    """Threads that read ahead ended it with an abort, one time in two."""
    import pandas

    frame = pandas.DataFrame({"a": list(range(1000)), "b": ["x", "y"] * 500})
    frame.to_parquet(tmp_path / "a.parquet")
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", PARQUET, str(tmp_path / "a.parquet")])
        assert done.returncode == 2


@pytest.mark.parametrize("kind", ["lines", "smiles", "table", "array", "fasta"])
def test_tokens_of_few_symbols_are_bytes(kind, tmp_path):
    dataset = kinds.detect(write(tmp_path, kind)).read(tmp_path / write(tmp_path, kind).name)
    tokens = dataset.encoded()
    assert tokens.dtype == torch.uint8
    again = dataset.codec.decode(tokens)
    assert (again == dataset.records).all() if kind == "array" else again == list(dataset.records)


def test_one_long_record_is_noted(tmp_path):
    words = [f"{i:04d}" for i in range(3000)]
    assert "note" not in understood(TextCodec.of(words), Dataset(words, TextCodec.of(words)))
    words[7] = "x" * 100
    codec = TextCodec.of(words)
    assert (
        "1 records are more than half as long" in understood(codec, Dataset(words, codec))["note"]
    )


def test_a_cell_may_hold_half_of_a_line_end(tmp_path):
    rows = [["a\rb", "c"], ["d", "e"]]
    with kinds.Table().writer(tmp_path / "a.csv", TableCodec.of(["x", "y"], rows), 2) as out:
        out(rows)
    with open(tmp_path / "a.csv", newline="") as file:
        assert list(csv.reader(file)) == [["x", "y"], *rows]
