"""OneStepModel: from records in Python to a generator."""

import errno
import gc
import importlib.util
import io
import json
import os
import shutil
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy
import pytest
import torch
from rich import console as console_module

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.io import kinds
from discrete_meanflow.io.array_codec import ArrayCodec
from discrete_meanflow.io.array_kind import Array
from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.io.labelled_codec import add_classes
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.io.text_codec import TextCodec
from own_records import ROWS, WORDS


def test_readme_example_works(tmp_path):
    gen = OneStepModel.fit(WORDS, iterations=30, size=1e4, device="cpu")
    assert len(gen.sample(5)) == 5
    assert all(word.startswith("a") for word in gen.sample(5, infill="a???"))
    gen.save(tmp_path / "kept")
    again = OneStepModel.load(tmp_path / "kept", "cpu")
    assert again.sample(5, seed=3) == gen.sample(5, seed=3)
    with pytest.raises(InputError, match="already exists"):
        gen.save(tmp_path / "kept")


def test_fit_accepts_many_types_of_records():
    import pandas
    import polars
    import pyarrow

    frame = pandas.DataFrame(ROWS, columns=["a", "b", "c"])
    array = numpy.arange(24).reshape(4, 2, 3) % 5

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return torch.from_numpy(array[i]), i

    for records, codec in (
        (WORDS, TextCodec), (frame, TableCodec), (ROWS, TableCodec), (array, ArrayCodec),
        (torch.from_numpy(array), ArrayCodec), (Pictures(), ArrayCodec), (iter(WORDS), TextCodec),
        (polars.DataFrame(frame), TableCodec), (pyarrow.table(frame), TableCodec),
        (frame.rename(columns={"a": "rows"}), TableCodec),
        (numpy.array(ROWS), TableCodec), ([(0, "a"), (1, "b")], TableCodec),
        ([(0, 1, 2), (1, 2, 0)], ArrayCodec), ([[0, 1], [1, 1]], ArrayCodec),
    ):  # fmt: skip
        _, dataset = dataset_from_python(records)
        assert isinstance(dataset.codec, codec)
        assert len(dataset.encoded()) == len(records) if hasattr(records, "__len__") else True
    assert dataset_from_python(frame)[1].codec.names == ("a", "b", "c")


def test_strings_can_be_smiles():
    import pandas

    kind, dataset = dataset_from_python(["C[nH]C", "CCl"], kinds.find_kind("smiles"))
    assert (kind.name, dataset.codec.length) == ("smiles", 3)
    assert dataset_from_python(["C[nH]C", "CCl"])[1].codec.length == 6
    for records, name, message in (
        (pandas.DataFrame({"smiles": ["C", "N"]}), "smiles", "one column of the frame"),
        (["ab", "cd"], "table", "kind 'table' does not take strings"),
        (ROWS, "smiles", "list of strings only"),
        (["ab", "cd"], "tokenised", "needs a tokenizer"), (["ab", "cd"], "poems", "unknown kind"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            OneStepModel.fit(records, iterations=2, kind=name)


def test_samples_of_a_frame_are_a_frame(tmp_path):
    """With the names and types of its columns, also from a run folder that was moved."""
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
    with pytest.raises(InputError, match="two columns are named 'x'; rename one"):
        dataset_from_python(pandas.DataFrame([["a", "b"], ["c", "d"]], columns=["x", "x"]))


def test_samples_are_rows_without_the_frame_library(monkeypatch):
    import pandas

    codec = dataset_from_python(pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}))[1].codec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert codec.as_given([["1", "y"]]) == [["1", "y"]]


@pytest.mark.parametrize("drop", [["c2"], ["c1", "c3"], []])
def test_dropped_columns_are_left_out_of_rows_and_frames(drop):
    import pandas
    import polars
    import pyarrow

    names = [name for name in ("c1", "c2", "c3") if name not in drop]
    columns = {f"c{i + 1}": [row[i] for row in ROWS] for i in range(3)}
    forms = (ROWS, pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns))
    for records in forms:
        codec = dataset_from_python(records, drop=drop)[1].codec
        assert list(codec.names) == names
    ragged = [["a", {}, "b"], ["b", (), "a"]] * 4  # a dropped cell may be anything
    assert dataset_from_python(ragged, drop=["c2"])[1].codec.names == ("c1", "c3")


@pytest.mark.parametrize(
    ("records", "drop", "message"),
    [
        (ROWS, ["c9"], "drop: no column 'c9'; the columns are c1, c2, c3"),
        (ROWS, ["c1", "c2", "c3"], "drop: no column is left"),
        (WORDS, ["c1"], "drop is for rows of a table or a frame"),
        (ROWS, "c1", r"drop must be a list, such as \['c1'\]"),
    ],
)
def test_wrong_drop_is_an_error(records, drop, message):
    with pytest.raises(InputError, match=message):
        OneStepModel.fit(records, iterations=4, size=1e4, drop=drop)


@pytest.mark.parametrize("shown", [True, False])
def test_fit_shows_progress_on_a_terminal_only(shown, monkeypatch):
    errors = io.StringIO()
    errors.isatty = lambda: shown
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setenv("TERM", "xterm")
    OneStepModel.fit(WORDS, iterations=4, size=1e4, device="cpu")
    assert ("100 %" in errors.getvalue()) == shown


def test_fit_in_a_notebook_prints_lines(monkeypatch, capsys):
    monkeypatch.setattr(console_module, "_is_jupyter", lambda: True)
    OneStepModel.fit(WORDS, iterations=4, size=1e4, device="cpu")
    assert "100 %  4 of 4 steps" in capsys.readouterr().err


def test_interrupted_fit_resumes(tmp_path):
    """Also in a thread, which gets no signals. A temporary folder is deleted with its model."""

    def stop(event):
        raise Interrupted

    with pytest.raises(Interrupted, match=r"OneStepModel\.resume"):
        OneStepModel.fit(WORDS, iterations=4, size=1e4, out=tmp_path / "run", on_progress=stop)
    with ThreadPoolExecutor(1) as pool:
        model = pool.submit(OneStepModel.resume, tmp_path / "run", "cpu").result()
        temporary = pool.submit(OneStepModel.fit, WORDS, iterations=4, size=1e4).result()
    assert len(model.sample(3)) == len(temporary.sample(3)) == 3
    folder = temporary.folder
    assert folder.exists()
    del temporary
    gc.collect()
    assert not folder.parent.exists()


def test_failed_fit_leaves_no_files_or_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(event):
        raise ZeroDivisionError

    OneStepModel.fit(WORDS, size=1e4, device="cpu", iterations=2)  # starts the threads of torch
    threads = threading.active_count()
    for options in ({"iterations": 1}, {"iterations": 4, "on_progress": fail}):
        with pytest.raises((InputError, ZeroDivisionError)):
            OneStepModel.fit(WORDS, size=1e4, device="cpu", **options)
        gc.collect()
        assert not list(tmp_path.glob("dmf-*"))
        assert threading.active_count() <= threads  # none is left that could write there


def test_save_rejects_links(trained, tmp_path):
    (tmp_path / "secret.json").write_text("mine")
    shutil.copytree(trained / "lines", tmp_path / "run")
    model = OneStepModel.load(tmp_path / "run", "cpu")
    model.save(tmp_path / "kept")
    assert OneStepModel.load(tmp_path / "kept", "cpu").sample(3, seed=0) == model.sample(3, seed=0)
    (tmp_path / "run" / "data.json").unlink()
    (tmp_path / "run" / "data.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(InputError, match="is a link"):
        model.save(tmp_path / "stolen")
    assert not (tmp_path / "stolen").exists()


def test_save_that_fails_leaves_nothing(trained, tmp_path, monkeypatch):
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


def test_label_can_be_a_column():
    import pandas

    frame = pandas.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "v"] * 20})
    gen = OneStepModel.fit(frame, iterations=2, size=1e4, labels="a", device="cpu")
    assert set(gen.sample(20, label="y")["a"]) == {"y"}
    with pytest.raises(InputError, match="no column 'z'"):
        OneStepModel.fit(frame, iterations=2, labels="z")


def test_labels_can_be_any_sequence():
    for labels in ([0, 1, 1], numpy.array([0, 1, 1]), torch.tensor([0, 1, 1]), iter([0, 1, 1])):
        codec = add_classes(dataset_from_python(["ab", "cd", "ef"])[1], labels).codec
        assert codec.classes == ("0", "1")
    with pytest.raises(InputError, match="2 classes for 3 records"):
        add_classes(dataset_from_python(["ab", "cd", "ef"])[1], torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("a long text", "not one string"),
        (["ab", None, "cd"], "record 2 is None"),
        (["ab", 1, "cd"], "record 2 is 1"),
        ([{"a": 1}, {"a": 2}], "record 1 is {'a': 1}"),
        ([["a", 1], [1, 2], ["b", 3]], r"record 2 is \[1, 2\]"),
    ],
)
def test_invalid_records_are_rejected(records, message):
    with pytest.raises(InputError, match=message):
        dataset_from_python(records)


def test_whole_floats_are_accepted_as_tokens(tmp_path):
    digits = numpy.arange(24.0).reshape(4, 6) % 5
    assert dataset_from_python(digits)[1].codec.symbols == 5
    numpy.savez(
        tmp_path / "a.npz", extra=digits / 2, images=digits.astype(int), labels=digits[:, 0]
    )
    found = Array().read(tmp_path / "a.npz")
    assert (found.codec.symbols, found.source) == (5, "images, of extra, images, labels")
    numpy.savez(tmp_path / "b.npz", images=digits, onehot=(digits[:, :4] > 2).astype(int))
    assert Array().read(tmp_path / "b.npz").codec.shape == (6,)
    for wrong in (digits / 2, numpy.where(digits == 1, numpy.nan, digits)):
        with pytest.raises(InputError, match="needs integers"):
            dataset_from_python(wrong)


def test_none_is_unknown_in_the_infill_of_a_table():
    codec = TableCodec.of(["a", "b"], [["x", "1"], ["y, z", "2"]])
    assert codec.parse_infill({"a": None, "b": 2}) == {1: 1}
    assert TableCodec.of(["0", "1"], [["x", "1"], ["y", "2"]]).parse_infill({0: None, 1: 2}) == {
        1: 1
    }
    with pytest.raises(InputError, match=r"it has 'x', 'y, z'; write a comma as"):
        codec.parse_infill("a=y")


def test_equal_numbers_of_a_frame_are_one_level():
    import pandas

    mixed = pandas.Series([1, 1.0, 2.5, 0.0, -0.0], dtype=object)
    codec = dataset_from_python(pandas.DataFrame({"a": mixed, "b": list("xyxyx")}))[1].codec
    assert codec.columns[0].levels == ("0.0", "1.0", "2.5")


def test_options_accept_numpy_numbers(trained):
    model = OneStepModel.load(trained / "lines", "cpu")
    options = {"seed": numpy.int64(3), "temperature": numpy.float32(0.5)}
    assert model.sample(numpy.int32(4), **options) == model.sample(4, seed=3, temperature=0.5)
    with pytest.raises(InputError, match="n must be a whole number"):
        model.sample(True)


@pytest.mark.parametrize("missing", ["NA", "NaT", "nan"])
def test_missing_values_of_a_frame_return(missing):
    import pandas

    value = {"NA": pandas.NA, "NaT": pandas.NaT, "nan": float("nan")}[missing]
    frame = pandas.DataFrame({"a": ["x", "y", "x"], "b": pandas.array([1, 2, None], dtype="Int64")})
    if missing != "NA":
        frame = pandas.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, value]})
    dataset = dataset_from_python(frame)[1]
    back = dataset.codec.as_given(dataset.codec.decode(dataset.encoded()))
    assert back["b"].isna().tolist() == [False, False, True]
    assert back["b"].tolist()[:2] == [1, 2]


def test_numbers_of_a_frame_are_numbers():
    import pandas

    g = numpy.random.default_rng(0)
    frame = pandas.DataFrame({"x": g.normal(size=12_000), "y": g.integers(0, 3, 12_000)})
    dataset = dataset_from_python(frame)[1]
    codec = TableCodec.from_json(json.loads(json.dumps(dataset.codec.describe())))
    assert codec == dataset.codec
    assert [column.kind for column in codec.columns] == ["number", "levels"]
    tokens = dataset.encoded()
    for i in range(0, 12_000, 100):  # any number is known by its bin
        fixed = codec.parse_infill({"x": frame["x"][i]})
        assert [fixed[0], fixed[1]] == tokens[i, :2].tolist()
    least, most = frame["x"].min(), frame["x"].max()
    for value in (least, most):
        assert len(codec.parse_infill({"x": value})) == 2
    for value in (least - 0.01, most + 0.01):
        with pytest.raises(InputError, match=f"infill: column x: {value} lies outside the data, -"):
            codec.parse_infill({"x": value})
    with pytest.raises(InputError, match="column x: nan lies outside"):
        codec.parse_infill({"x": float("nan")})
    with pytest.raises(InputError, match="column y has no '7'; it has '0', '1', '2'"):
        codec.parse_infill({"y": 7})


def test_column_kinds_override_what_cells_look_like():
    import pandas

    frame = pandas.DataFrame({"zip": [10_000 + i % 90 for i in range(500)], "k": list("ab") * 250})
    kinds = {"zip": "levels"}
    assert dataset_from_python(frame)[1].codec.columns[0].kind == "number"
    (zips, _) = dataset_from_python(frame, column_kinds=kinds)[1].codec.columns
    assert (zips.kind, zips.depth, zips.value("10003")) == ("levels", 2, 10_003)
    for wrong, message in (
        ({"zap": "levels"}, "--columns: no column 'zap'"),
        ({"zip": "date"}, "choose levels or number"),
        ({"k": "number"}, "column k, row 1: 'a' is no number"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            dataset_from_python(frame, column_kinds=wrong)
    with pytest.raises(InputError, match="columns are for rows"):
        dataset_from_python(["ab", "cd"], column_kinds=kinds)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minutes": "3"}, "minutes must be a number, got '3'"),
        ({"held_out": 0.5}, "held_out must be a whole number, got 0.5"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"size": True}, "size must be a number, got True"),
        ({"columns": {}}, "columns are for rows"),
    ],
)
def test_fit_rejects_invalid_options(options, message):
    with pytest.raises(InputError, match=message):
        OneStepModel.fit(WORDS, **options)


def test_repr_describes_the_model(trained):
    gen = OneStepModel.load(trained / "lines", "cpu")
    assert repr(gen).startswith("OneStepModel(lines, 4 positions of 12 symbols, ")
    for options in ({"seed": 1.5}, {"temperature": "a"}, {"top_p": [1]}, {"refine": "yes"}):
        with pytest.raises(InputError, match="must be"):
            gen.sample(2, **options)


def test_save_needs_an_empty_folder(trained, tmp_path):
    gen = OneStepModel.load(trained / "lines", "cpu")
    (tmp_path / "empty").mkdir()
    gen.save(tmp_path / "empty")
    assert OneStepModel.load(tmp_path / "empty", "cpu").sample(2, seed=0) == gen.sample(2, seed=0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    with pytest.raises(InputError, match="already exists"):
        gen.save(tmp_path / "full")
    assert (tmp_path / "full" / "mine").read_text() == "kept"


def test_fit_warns_about_empty_strings():
    words = ["ab", "ba", "abb", "bab", ""] * 8
    with pytest.warns(UserWarning, match="8 of the records are empty"):
        OneStepModel.fit(words, iterations=2, size=1e4, held_out=1)


def test_unknown_class_of_a_table_names_the_classes():
    rows = [["oak", "tall"], ["pine", "small"], ["oak", "small"]]
    codec = replace(TableCodec.of(["kind", "size"], rows), label="kind")
    assert codec.class_tokens("pine") == {0: codec.class_names.index("pine")}
    with pytest.raises(InputError, match="class: no 'elm'; the classes are oak, pine"):
        codec.class_tokens("elm")
