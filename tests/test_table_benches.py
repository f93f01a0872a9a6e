"""The table benchmarks: rows for peers and from peers, failed peers, scores of filled holes."""

import json
import sys
from functools import partial
from pathlib import Path

import numpy
import pandas
import pytest
from hypothesis import given, settings, strategies as st

import fill
import tables
from discrete_meanflow import OneStepModel
from imputers import Iterative, MissForest
from tables_peer import complete, like

SETTINGS = {"rows": 5, "seed": 0}


@given(st.integers(0, 3), st.floats(0, 0.5), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_peers_give_back_missing_cells_and_decimals(decimals, missing, seed):
    rng = numpy.random.default_rng(seed)
    price = (rng.lognormal(3, 1, 100)).round(decimals)
    rows = pandas.DataFrame({
        "price": numpy.where(rng.random(100) < missing, numpy.nan, price),
        "count": rng.integers(0, 500, 100),
        "kind": rng.choice(["a", "b"], 100),
    })  # fmt: skip
    full, levels = complete(rows)
    assert not full.isna().any(axis=None)
    assert "kind" in levels
    assert rows["price"].hasnans == ("price is missing" in levels)
    full["price"] += 0.4 * 10.0**-decimals * rng.uniform(-1, 1, 100)
    made = like(rows, full)
    pandas.testing.assert_frame_equal(made, rows, check_dtype=False, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise MemoryError('Unable to allocate 8.7 GiB')", "Unable to allocate 8.7 GiB"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    ],
)
def test_failed_peer_tells_its_reason(code, reason, tmp_path, monkeypatch):
    script = tmp_path / "peer.py"
    script.write_text(code)
    monkeypatch.setattr(tables, "PEER_SCRIPT", script)
    task = tables.Task(pandas.DataFrame({"x": [1, 2]}), 1, 0.1, 0)
    with pytest.raises(tables.PeerError, match=reason):
        tables.peer("CTGAN", task, Path(sys.executable), None)


@pytest.mark.parametrize(("minutes", "kept"), [(5, {"CTGAN"}), (6, set())])
def test_results_keep_other_systems_of_the_same_settings(minutes, kept, tmp_path):
    file = tmp_path / "tables-x.json"
    first = tables.Results(file, SETTINGS | {"minutes": 5}, keep=False)
    for name in ("CTGAN", "ours", "ours, 4 steps"):
        first.add("scores", name, {})
    first.write("command")
    second = tables.Results(file, SETTINGS | {"minutes": minutes}, keep=True)
    second.forget("ours")
    second.write("command")
    assert set(json.loads(file.read_text())["scores"]) == kept


def table_of_numbers(rows, seed):
    rng = numpy.random.default_rng(seed)
    x = rng.normal(size=rows)
    kind = numpy.where(x > 0, "high", "low")
    return pandas.DataFrame({"x": x, "double": 2 * x, "kind": kind, "noise": rng.normal(size=rows)})


def test_true_draws_fill_without_error_and_cover_nine_tenths():
    task = fill.Task.of(table_of_numbers(20_000, 0), 4000, 0)
    truth = task.codes(task.truth)
    exact = numpy.repeat(truth[:, None], fill.DRAWS, 1)
    for scores in fill.errors(task, fill.likely(task, exact)).values():
        assert scores.get("accuracy", 1) == 1
        assert scores.get("RMSE", 0) < 1e-9
    # Given x, nothing is known about the noise: its draws are as far from each other as from it.
    draws = exact.copy()
    draws[..., 3] = numpy.random.default_rng(1).normal(size=draws.shape[:2])
    found, holes = fill.coverage(task, draws)["noise"], task.holes[:, 3].sum()
    assert abs(found - 0.9) < 5 * (0.09 / holes) ** 0.5


def test_levels_are_filled_with_the_most_frequent_draw():
    task = fill.Task.of(table_of_numbers(500, 0), 50, 0)
    draws = numpy.repeat(task.codes(task.truth)[:, None], 5, 1)
    draws[:, :3, 2], draws[:, 3:, 2] = 1, 0
    assert (fill.likely(task, draws)[:, 2] == 1).all()


@pytest.fixture
def table_file(tmp_path, monkeypatch):
    """A table, whose models train for a few steps."""
    tiny = partial(OneStepModel.fit, iterations=4, size=1e4, batch=32)

    def fit(train, minutes, **options):
        return tiny(train, **options)

    monkeypatch.setattr(OneStepModel, "fit", fit)
    table_of_numbers(600, 0).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def test_tables_records_ours_and_a_peer_that_fails(table_file, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PEER_SCRIPT", tmp_path / "missing.py")
    options = ["--target", "kind", "--peer-python", sys.executable, "--out", str(tmp_path)]
    tables.main([str(table_file), *options])
    result = json.loads((tmp_path / "tables-table.json").read_text())
    assert set(result["failed"]) == {"CTGAN", "TVAE"}
    assert {"real", *result["seconds per 1,000 rows"]} == set(result["scores"])
    assert set(result["seconds"]) == {"ours"}


def test_fill_records_scores_of_every_column(table_file, tmp_path):
    fill.main([str(table_file), "--rows", "40", "--minutes", "0.01", "--out", str(tmp_path)])
    result = json.loads((tmp_path / "fill-table.json").read_text())
    assert set(result["columns"]) == {"constant", "ours", "ours, 4 steps", *fill.IMPUTERS}
    for name, columns in result["columns"].items():
        assert list(columns) == ["x", "double", "kind", "noise"]
        assert ("coverage" in columns["x"]) == name.startswith("ours")


@pytest.mark.parametrize("make", [Iterative, MissForest])
def test_imputers_keep_known_cells_and_learn_from_others(make):
    task = fill.Task.of(table_of_numbers(1500, 0), 200, 0)
    truth = task.codes(task.truth)
    imputer = make(task.numbers, 0)
    imputer.fit(numpy.where(task.train_holes, numpy.nan, task.codes(task.train))[:500])
    filled = imputer.fill(numpy.where(task.holes, numpy.nan, truth))
    assert (filled[~task.holes] == truth[~task.holes]).all()
    assert set(filled[:, 2]) == {0, 1}
    scores = fill.errors(task, filled)
    assert scores["double"]["RMSE"] < 0.6
    assert scores["kind"]["accuracy"] > 0.85
