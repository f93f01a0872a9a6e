"""OneStepModel: from records at hand to a generator."""

import errno
import gc
import importlib.util
import json
import os
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.data import kind as kinds
from discrete_meanflow.data.array_codec import ArrayCodec
from discrete_meanflow.data.bins import bin_columns
from discrete_meanflow.data.labelled_codec import add_classes
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.data.text_codec import TextCodec
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.model.prepare import dataset_of
from own_records import ROWS, WORDS


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
        (WORDS, TextCodec), (frame, TableCodec), (ROWS, TableCodec), (array, ArrayCodec),
        (torch.from_numpy(array), ArrayCodec), (Pictures(), ArrayCodec), (iter(WORDS), TextCodec),
        (Polars(), TableCodec), (frame.rename(columns={"a": "rows"}), TableCodec),
        (numpy.array(ROWS), TableCodec), ([(0, "a"), (1, "b")], TableCodec),
        ([(0, 1, 2), (1, 2, 0)], ArrayCodec), ([[0, 1], [1, 1]], ArrayCodec),
    ):  # fmt: skip
        _, dataset = dataset_of(records)
        assert isinstance(dataset.codec, codec)
        assert len(dataset.encoded()) == len(records) if hasattr(records, "__len__") else True
    assert dataset_of(frame)[1].codec.names == ("a", "b", "c")


def test_strings_may_be_molecules():
    import pandas

    kind, dataset = dataset_of(["C[nH]C", "CCl"], kinds.find_kind("smiles"))
    assert (kind.name, dataset.codec.length) == ("smiles", 3)
    assert dataset_of(["C[nH]C", "CCl"])[1].codec.length == 6
    for records, name, message in (
        (pandas.DataFrame({"smiles": ["C", "N"]}), "smiles", "one column of the frame"),
        (["ab", "cd"], "table", "'table' does not take strings"),
        (ROWS, "smiles", "list of strings alone"),
        (["ab", "cd"], "tokenised", "needs a tokenizer"), (["ab", "cd"], "poems", "unknown kind"),
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

    OneStepModel.fit(WORDS, size=1e4, device="cpu", iterations=2)  # torch's own threads begin
    threads = threading.active_count()
    for wish in ({"iterations": 1}, {"iterations": 4, "watch": fail}):
        with pytest.raises((InputError, ZeroDivisionError)):
            OneStepModel.fit(WORDS, size=1e4, device="cpu", **wish)
        gc.collect()
        assert not list(tmp_path.glob("dmf-*"))
        assert threading.active_count() <= threads  # none is left that would write there


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


def test_a_column_may_be_the_class():
    import pandas

    frame = pandas.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "v"] * 20})
    gen = OneStepModel.fit(frame, iterations=2, size=1e4, labels="a", device="cpu")
    assert set(gen.sample(20, label="y")["a"]) == {"y"}
    with pytest.raises(InputError, match="no column 'z'"):
        OneStepModel.fit(frame, iterations=2, labels="z")


def test_classes_come_in_any_list():
    for labels in ([0, 1, 1], numpy.array([0, 1, 1]), torch.tensor([0, 1, 1]), iter([0, 1, 1])):
        codec = add_classes(dataset_of(["ab", "cd", "ef"])[1], labels).codec
        assert codec.classes == ("0", "1")
    with pytest.raises(InputError, match="2 classes for 3 records"):
        add_classes(dataset_of(["ab", "cd", "ef"])[1], torch.tensor([0, 1]))


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
def test_records_of_no_sort_are_told(records, message):
    with pytest.raises(InputError, match=message):
        dataset_of(records)


def test_floats_that_are_whole_are_whole_numbers(tmp_path):
    digits = numpy.arange(24.0).reshape(4, 6) % 5
    assert dataset_of(digits)[1].codec.symbols == 5
    numpy.savez(
        tmp_path / "a.npz", extra=digits / 2, images=digits.astype(int), labels=digits[:, 0]
    )
    found = kinds.Array().read(tmp_path / "a.npz")
    assert (found.codec.symbols, found.source) == (5, "images, of extra, images, labels")
    numpy.savez(tmp_path / "b.npz", images=digits, onehot=(digits[:, :4] > 2).astype(int))
    assert kinds.Array().read(tmp_path / "b.npz").codec.shape == (6,)
    for wrong in (digits / 2, numpy.where(digits == 1, numpy.nan, digits)):
        with pytest.raises(InputError, match="needs integers from 0"):
            dataset_of(wrong)


def test_none_is_unknown_in_a_clamp_of_a_table():
    codec = TableCodec.of(["a", "b"], [["x", "1"], ["y, z", "2"]])
    assert codec.parse_infill({"a": None, "b": 2}) == {1: 1}
    numbered = TableCodec.of(["0", "1"], [["x", "1"], ["y", "2"]])
    assert numbered.parse_infill({0: None, 1: 2}) == {1: 1}
    with pytest.raises(InputError, match=r"it has 'x', 'y, z'; write a comma as"):
        codec.parse_infill("a=y")


def test_equal_numbers_of_a_frame_are_one_level():
    import pandas

    mixed = pandas.Series([1, 1.0, 2.5, 0.0, -0.0], dtype=object)
    codec = dataset_of(pandas.DataFrame({"a": mixed, "b": list("xyxyx")}))[1].codec
    assert codec.levels[0] == ("0.0", "1.0", "2.5")


def test_numbers_of_numpy_are_numbers(trained):
    model = OneStepModel.load(trained / "lines", "cpu")
    wish = {"seed": numpy.int64(3), "temperature": numpy.float32(0.5)}
    assert model.sample(numpy.int32(4), **wish) == model.sample(4, seed=3, temperature=0.5)
    with pytest.raises(InputError, match="at least one record"):
        model.sample(True)


@pytest.mark.parametrize("missing", ["NA", "NaT", "nan"])
def test_what_is_missing_in_a_frame_is_told(missing):
    import pandas

    value = {"NA": pandas.NA, "NaT": pandas.NaT, "nan": float("nan")}[missing]
    frame = pandas.DataFrame({"a": ["x", "y", "x"], "b": pandas.array([1, 2, None], dtype="Int64")})
    if missing != "NA":
        frame = pandas.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, value]})
    with pytest.raises(InputError, match="row 3, column 2: a missing value"):
        dataset_of(frame)


def test_numbers_of_a_frame_are_binned_on_request():
    import pandas

    g = numpy.random.default_rng(0)
    frame = pandas.DataFrame({"x": g.normal(size=12_000), "y": g.integers(0, 3, 12_000)})
    with pytest.raises(InputError, match="bins=20"):
        dataset_of(frame)
    codec = dataset_of(frame, bins=20)[1].codec
    assert [len(each) for each in codec.levels] == [20, 3]
    assert codec.types == ("float", "int")
    value = float(codec.levels[0][3])
    assert codec.parse_infill({"x": value, "y": 1.0}) == {0: 3, 1: codec.levels[1].index("1")}
    codec = TableCodec.from_json(json.loads(json.dumps(codec.describe())))
    cells = dataset_of(frame, bins=20)[1].records
    for i in range(0, 12_000, 100):  # any number is known by the bin that it fell into
        (token,) = codec.parse_infill({"x": frame["x"][i]}).values()
        assert codec.levels[0][token] == cells[i][0]
    least, most = frame["x"].min(), frame["x"].max()
    for value in (least, most):
        assert len(codec.parse_infill({"x": value})) == 1
    for value in (least - 0.01, most + 0.01):
        with pytest.raises(InputError, match=f"infill: x={value} lies outside -"):
            codec.parse_infill({"x": value})
    rows, bins = bin_columns([[f"{i:03d}"] for i in range(50)], 5)
    codes = TableCodec.of(["a"], rows, (), bins)
    assert codes.types == ("str",)
    assert len(codes.parse_infill({"a": "007"})) == 1
    with pytest.raises(InputError, match="column x has no 'nan'"):
        codec.parse_infill({"x": float("nan")})
    with pytest.raises(InputError, match="column y has no '7'; it has '0', '1', '2'"):
        codec.parse_infill({"y": 7})
    with pytest.raises(InputError, match="bins are for rows"):
        dataset_of(["ab", "cd"], bins=3)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"minutes": "3"}, "minutes must be a number, got '3'"),
        ({"held_out": 0.5}, "held_out must be a whole number, got 0.5"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"size": True}, "size must be a number, got True"),
        ({"bins": 3}, "bins are for rows"),
    ],
)
def test_wishes_that_are_no_numbers_are_refused(wish, message):
    with pytest.raises(InputError, match=message):
        OneStepModel.fit(WORDS, **wish)


def test_a_model_tells_what_it_is(trained):
    gen = OneStepModel.load(trained / "lines", "cpu")
    assert repr(gen).startswith("OneStepModel(lines, 4 positions of 12 symbols, ")
    for wish in ({"seed": 1.5}, {"temperature": "a"}, {"top_p": [1]}):
        with pytest.raises(InputError, match="must be a"):
            gen.sample(2, **wish)


def test_a_run_is_copied_into_an_empty_folder_and_no_other(trained, tmp_path):
    gen = OneStepModel.load(trained / "lines", "cpu")
    (tmp_path / "empty").mkdir()
    gen.save(tmp_path / "empty")
    assert OneStepModel.load(tmp_path / "empty", "cpu").sample(2, seed=0) == gen.sample(2, seed=0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    with pytest.raises(InputError, match="is there already"):
        gen.save(tmp_path / "full")
    assert (tmp_path / "full" / "mine").read_text() == "kept"


def test_empty_strings_are_told():
    words = ["ab", "ba", "abb", "bab", ""] * 8
    with pytest.warns(UserWarning, match="8 of the records are empty"):
        OneStepModel.fit(words, iterations=2, size=1e4, held_out=1)
