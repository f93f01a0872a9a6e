"""Odd arguments in Python give an error of one line."""

import numpy
import pandas
import pytest
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import check_path
from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.io.labelled_codec import add_classes
from discrete_meanflow.model.options import EvaluateOptions, FitOptions, SampleOptions
from own_records import ROWS, WORDS

ARROW_DAYS = numpy.array([2**62 // 86_400_000 * 86_400_000, 0])
LABELS = [
    (5, "needs a list with the class of each record"),
    ("ab" * 24, "needs a list with the class of each record"),
    (dict.fromkeys(range(len(WORDS))), "needs a list with the class of each record"),
    (set(range(len(WORDS))), "needs a list with the class of each record"),
    (b"x" * len(WORDS), "needs a list with the class of each record"),
    (numpy.array(5), "needs a list with the class of each record"),
    (["a", None] * 24, "record 2 has none"),
    (["a", "\ud800"] * 24, "record 2 contains a lone surrogate"),
    (["a", "b" * 10**6] * 24, "record 2 has 1,000,000 characters"),
    ([["a"], ["b"]] * 24, "row 1 is of type list"),
]
FIT = [
    ({"seed": None}, "seed must be a whole number"),
    ({"kind": []}, "unknown kind"),
    ({"constraints": 5}, "constraints must be a list of strings"),
    ({"on_progress": 5}, "on_progress must be a function"),
    ({"out": 5}, "5 cannot be the path"),
    ({"out": "\0"}, "cannot be the path"),
    ({"out": "\ud800"}, r"'\\ud800' cannot be the path"),
    ({"out": "x" * 300}, "File name too long"),
    ({"tokenizer": b"x"}, "cannot be the path"),
    ({"minutes": 10**5000}, "minutes must be from 0"),
    ({"batch": 10**5000}, "batch must be from 1"),
    ({"held_out": -(10**5000)}, "held_out must be at least 1"),
]


@pytest.mark.parametrize(("labels", "message"), LABELS)
def test_labels_that_are_no_list_are_rejected(labels, message):
    with pytest.raises(InputError, match=message):
        add_classes(dataset_from_python(WORDS[:48])[1], labels)


@pytest.mark.parametrize(("options", "message"), FIT)
def test_odd_options_of_a_training_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        OneStepModel.fit(WORDS, **{"iterations": 2, **options})


@pytest.mark.parametrize("options", [{"guidance": None}, {"guidance": 10**5000}, {"refine": None}])
def test_odd_options_of_samples_are_one_line(options):
    with pytest.raises(InputError, match="must be"):
        SampleOptions(**options)


def test_steps_are_any_whole_numbers():
    assert EvaluateOptions(steps=[numpy.int64(1), numpy.uint8(4)]).steps == (1, 4)
    assert FitOptions(batch=numpy.int64(8)).batch == 8
    for steps in (None, 5, numpy.array(5), "ab", [None], [1.5]):
        with pytest.raises(InputError, match="steps must be"):
            EvaluateOptions(steps=steps)


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("array", "9" * 5000), ("array", [10**5000]), ("table", {"k": 10**5000}), ("lines", [5])],
)
def test_odd_patterns_are_one_line(kind, pattern, trained):
    model = OneStepModel.load(trained / kind, "cpu")
    for arguments in ({"infill": pattern}, {"conditions": [pattern]}):
        with pytest.raises(InputError) as caught:
            model.sample(**arguments)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("rows", [[5], [None], ["abc"], None, 5])
def test_odd_rows_are_one_line(rows, trained):
    with pytest.raises(InputError, match="data"):
        OneStepModel.load(trained / "table", "cpu").fill(rows)


@pytest.mark.parametrize(
    "flag", [None, 1, "yes", numpy.array([1, 2]), pandas.DataFrame({"a": [1]})]
)
def test_flags_are_true_or_false(flag, trained):
    model = OneStepModel.load(trained / "lines", "cpu")
    for call in (
        lambda: model.sample(labels=flag),
        lambda: OneStepModel.load(trained / "lines", from_checkpoint=flag),
    ):
        with pytest.raises(InputError, match="must be True or False"):
            call()


def test_choices_are_strings():
    for name in ("method", "matching", "device"):
        for value in (None, [], numpy.array(["a", "b"]), "best"):
            with pytest.raises(InputError, match=f"unknown {name}"):
                FitOptions(**{name: value})
    with pytest.raises(InputError, match="columns must be a dict"):
        dataset_from_python(ROWS, column_kinds=["a"])
    with pytest.raises(InputError, match="a single number"):
        dataset_from_python(torch.tensor(1))


def test_dates_out_of_range_and_surrogates_are_one_line():
    arrow = pytest.importorskip("pyarrow")
    days = arrow.Array.from_buffers(arrow.date64(), 2, [None, arrow.py_buffer(ARROW_DAYS)])
    with pytest.raises(InputError, match="column d"):
        dataset_from_python(arrow.table({"d": days}))
    categories = pandas.Index(["red", "\ud800"], dtype=object)
    column = pandas.Categorical.from_codes([0] * len(ROWS), categories)
    with pytest.raises(InputError, match="column a: has a category with a lone surrogate"):
        dataset_from_python(pandas.DataFrame({"a": column}))


def test_path_may_not_exist(tmp_path):
    for name in ("a", "a/b", ""):
        assert check_path(str(tmp_path / name)) == tmp_path / name
