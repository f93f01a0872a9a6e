"""Quality and privacy of tables in ``dmf evaluate``."""

import json
from datetime import date, timedelta

import numpy
import pandas
import pytest
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.choose_column import choose_columns
from discrete_meanflow.io.text_kinds import Lines
from discrete_meanflow.metric import forest
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.eval_samples import EvalSplit
from discrete_meanflow.model.evaluation_grids import REAL
from discrete_meanflow.model.quality_grids import PRIVACY, QUALITY
from discrete_meanflow.model.table_pictures import MISSING, OTHERS
from discrete_meanflow.model.table_quality import TableQuality, check_target
from discrete_meanflow.model.table_rows import row_values, table_codec
from discrete_meanflow.model.table_verdict import verdict
from discrete_meanflow.model.tensor_files import read_tokens
from test_cli import in_process


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    grow = forest.random_forest
    monkeypatch.setattr(forest, "random_forest", lambda seed, *_: grow(seed, 10))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A run on a price with holes, a day, a level that follows from the price, and many words."""
    g, n = numpy.random.default_rng(0), 600
    price = g.lognormal(3, 1, n).round(2)
    frame = pandas.DataFrame(
        {
            "price": numpy.where(g.random(n) < 0.1, numpy.nan, price),
            "day": [date(2024, 1, 1) + timedelta(int(i)) for i in g.integers(0, 300, n)],
            "level": numpy.where(price > 20, "dear", "cheap"),
            "word": [f"w{i}" for i in g.integers(0, 20, n)],
        }
    )
    folder = tmp_path_factory.mktemp("tables") / "run"
    return OneStepModel.fit(frame, iterations=12, size=1e4, held_out=240, device="cpu", out=folder)


@pytest.fixture(scope="module")
def tables(model):
    """The codec, and values of training rows, held-out rows and others."""
    codec = table_codec(model.config.codec)
    split = EvalSplit.read(model.folder, codec, 120)
    train = read_tokens(model.folder / run.TRAIN, codec)
    return codec, *(row_values(codec, x) for x in (train, split.reference, split.real))


def judge(tables, x, target=None):
    """The quality of rows ``x`` with its verdict."""
    codec, train, reference, real = tables
    quality = TableQuality(codec, reference)({REAL: real, "1 step": x}, train, target)
    for scores in quality["privacy"].values():
        scores["copies"] = 0.0
    return quality | {"verdict": verdict(quality)}


def test_cells_are_numbers_in_the_order_of_their_values(model):
    codec = table_codec(model.config.codec)
    price, day, level, _ = codec.columns
    assert [price.ordinal(cell) for cell in ("20.50", "3")] == [20.5, 3]
    assert numpy.isnan(price.ordinal(""))
    assert day.ordinal("2024-03-01") - day.ordinal("2024-02-28") == 2
    assert [level.ordinal(cell) for cell in ("cheap", "dear")] == [0, 1]
    tokens = read_tokens(model.folder / run.TRAIN, codec)
    values, rows = row_values(codec, tokens), codec.decode(tokens)
    for i, column in enumerate(codec.columns):
        expected = numpy.array([column.ordinal(row[i]) for row in rows])
        assert numpy.array_equal(values[:, i], expected, equal_nan=True)


def test_numbers_that_are_few_are_levels_in_their_order():
    (column,) = choose_columns(["k"], [["9"], ["10"], [""], ["9"]])
    assert column.ordinal("9") < column.ordinal("10")
    assert numpy.isnan(column.ordinal(""))


def test_evaluation_has_the_quality_of_every_row(model):
    evaluation = model.evaluate(100, (1, 4), target="level")
    quality = evaluation["quality"]
    rows = {REAL, "1 step", "4 steps"}
    assert quality["target"] == "level"
    assert evaluation["options"].endswith(" --target level")
    for part, names in (("scores", QUALITY), ("privacy", PRIVACY)):
        assert set(quality[part]) == rows
        assert all(set(scores) == set(names) for scores in quality[part].values())
    assert quality["privacy"]["1 step"]["copies"] == evaluation["scores"]["1 step"]["copies"]
    assert [column["name"] for column in quality["columns"]] == ["price", "day", "level", "word"]
    for column in quality["columns"]:
        assert set(column["distance"]) == set(column["missing"]) == rows
        for frequencies in column["picture"]["frequencies"].values():
            assert len(frequencies) == len(column["picture"]["labels"])
            assert sum(frequencies) == pytest.approx(1)
    price, day, _, word = (column["picture"]["labels"] for column in quality["columns"])
    assert price[-1] == MISSING
    assert day[0].startswith("2024-")
    assert word[-1] == OTHERS
    json.dumps(quality, allow_nan=False)


def test_held_out_rows_and_their_verdict(tables):
    real = judge(tables, tables[3])
    assert real["scores"]["1 step"] == real["scores"][REAL]
    assert "all columns have the shapes" in real["verdict"][0]
    assert "pairs of columns have their trends" in real["verdict"][0]
    assert "no closer to training rows" in real["verdict"][1]


def test_verdict_names_what_is_off(tables):
    _, train, _, real = tables
    shifted = real.copy()
    shifted[:, 0] += 30
    assert "1 of 4 columns differ from held-out rows (price" in judge(tables, shifted)["verdict"][0]
    g = numpy.random.default_rng(0)
    apart = numpy.stack([g.permutation(column) for column in real.T], 1)
    quality = judge(tables, apart)
    assert "price and level" in quality["verdict"][0]
    assert quality["scores"]["1 step"]["utility"] < quality["scores"][REAL]["utility"] - 0.2
    privacy = judge(tables, train)["verdict"][1]
    assert "samples reveal training rows" in privacy
    assert "membership inference succeeds" in privacy


def test_target_is_the_class_or_the_best_predicted_column(model, tables):
    codec, train, reference, real = tables
    assert judge(tables, real)["target"] in ("price", "level")
    quality = TableQuality(codec.with_class_column("word"), reference)
    assert quality({REAL: real, "1 step": real}, train, None)["target"] == "word"
    assert quality({REAL: real, "1 step": real}, train, "day")["target"] == "day"
    with pytest.raises(InputError, match="--target: no column 'colour'; the columns are price, "):
        model.evaluate(100, (1,), target="colour")


def test_other_records_have_no_target():
    codec = Lines().of(["ab", "ba"]).codec
    check_target(codec, None)
    with pytest.raises(InputError, match="--target colour: only tables have columns"):
        check_target(codec, "colour")


def test_command_prints_quality_and_privacy(model, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    model.save(folder)
    words = ("evaluate", folder, "-n", 60, "--steps", 1)
    code, out, err = in_process(monkeypatch, capsys, *words, "--target", "word")
    assert code == 0, err
    assert "target: word" in out
    for name, meaning in (QUALITY | PRIVACY).items():
        assert f"{name}: {meaning}" in out
    assert "Quality at 1 step: " in out
    assert "Privacy at 1 step: " in out
    tables = [line for line in out.splitlines() if line.startswith(("held out", "price"))]
    assert len(tables) >= 4
    assert all(len(line) <= 80 for line in tables)
    before = (folder / "samples.safetensors").read_bytes()
    code, out, err = in_process(monkeypatch, capsys, *words)  # another target, the same samples
    assert code == 0, err
    assert "using the saved samples" in out
    assert (folder / "samples.safetensors").read_bytes() == before
    code, _, err = in_process(monkeypatch, capsys, *words, "--target", "colour")
    assert (code, err.count("\n")) == (2, 1), err


def test_a_table_of_one_column_is_evaluated():
    rows = [[cell] for cell in "abcdef" * 30]
    model = OneStepModel.fit(rows, iterations=4, size=1e4, held_out=60, device="cpu")
    quality = model.evaluate(30, (1,))["quality"]
    assert "utility" not in quality["scores"]["1 step"]
    assert len(quality["verdict"]) == 2
    assert torch.isfinite(torch.tensor(list(quality["privacy"]["1 step"].values()))).all()
