"""Holes of tables are filled, and known cells stay."""

import numpy
import pytest
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.model.fill import Holes
from own_records import train_by_command, write
from test_cli import in_process

G = numpy.random.default_rng(0)


def frame(n=400):
    import pandas

    price = G.lognormal(3, 1, n).round(2)
    kind = numpy.where(price > 20, "dear", "cheap")
    return pandas.DataFrame({
        "price": price, "kind": kind, "size": G.integers(0, 9, n),
        "note": numpy.where(G.random(n) < 0.3, None, "seen"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def model():
    options = {"iterations": 8, "size": 1e4, "batch": 32, "device": "cpu"}
    return OneStepModel.fit(frame(), **options)


def test_known_cells_stay_and_holes_are_filled(model):
    import pandas

    real = frame(60)
    holes = real.copy()
    mask = G.random(real.shape) < 0.3
    holes = holes.mask(mask)
    filled = model.fill(holes, draws=3, seed=0)
    assert list(filled.columns) == list(real.columns)
    assert len(filled) == 180
    assert not filled.isna().any().any()
    known = ~holes.isna().to_numpy().repeat(3, 0)
    repeated = holes.loc[holes.index.repeat(3)].reset_index(drop=True)
    for i, name in enumerate(real.columns):
        kept = known[:, i]
        assert filled[name][kept].tolist() == repeated[name][kept].tolist()
    pandas.testing.assert_frame_equal(filled, model.fill(holes, draws=3, seed=0))


def test_columns_that_a_frame_lacks_are_holes(model):
    import pandas

    filled = model.fill(pandas.DataFrame({"kind": ["dear", "cheap"]}), draws=5, seed=1)
    assert filled["kind"].tolist() == ["dear"] * 5 + ["cheap"] * 5
    assert filled["price"].between(0, 1e6).all()


def test_unknown_values_are_kept_and_counted(model):
    codec = model.config.codec
    rows = [["1e9", "dear", "3", ""], ["20.0", "odd", "", "seen"]]
    holes = Holes.of(codec, codec.names, rows)
    assert holes.unknown == 2
    assert holes.observed.sum(1).tolist() == [2, 3]  # a price has two positions
    filled = holes.conditions(1).decode(codec, holes.tokens)
    assert filled[0][:3] == ["1e9", "dear", "3"]


def test_a_fixed_number_comes_back_exactly(model):
    price = float(frame().price.median().round(2))
    assert set(model.sample(20, infill={"price": price})["price"]) == {price}
    prices = model.sample(20, infill={"price": price, "kind": "dear"}, seed=0)["price"]
    assert set(prices) == {price}


def test_fill_rejects_what_it_cannot_fill(model):
    with pytest.raises(InputError, match="fill: no column 'colour' in the run; its columns are"):
        Holes.of(model.config.codec, ["colour"], [["red"]])
    with pytest.raises(InputError, match="data: row 2 has 1 cells, not 4"):
        model.fill([["1.5", "dear", None, None], ["1.5"]])
    with pytest.raises(InputError, match="fill: the table has no rows"):
        model.fill([])


def test_fill_by_command(tmp_path, monkeypatch, capsys):
    path = write(tmp_path, "table")
    train_by_command(monkeypatch, capsys, path, tmp_path / "run")
    rows = path.read_text().splitlines()
    (tmp_path / "holes.csv").write_text(
        "\n".join([rows[0], *(f",{r.split(',', 1)[1]}" for r in rows[1:])])
    )
    out = tmp_path / "full.csv"
    words = ("fill", tmp_path / "run", tmp_path / "holes.csv", "--seed", 0, "--draws", 2)
    code, _, err = in_process(monkeypatch, capsys, *words, "--out", out)
    assert code == 0, err
    filled = out.read_text().splitlines()
    assert len(filled) == 1 + 2 * (len(rows) - 1)
    assert [row.split(",", 1)[1] for row in filled[1::2]] == [r.split(",", 1)[1] for r in rows[1:]]
    assert all(row.split(",")[0] for row in filled)
    lines = write(tmp_path, "lines")
    train_by_command(monkeypatch, capsys, lines, tmp_path / "words")
    code, _, err = in_process(monkeypatch, capsys, "fill", tmp_path / "words", out)
    assert code == 2
    assert "fill is for tables" in err


def test_fill_reads_a_header_only_where_the_training_file_had_one(tmp_path, monkeypatch, capsys):
    rows = [f"{'ab'[i % 2]},{i % 3}" for i in range(60)]
    (tmp_path / "data.csv").write_text("\n".join(rows))
    train_by_command(monkeypatch, capsys, tmp_path / "data.csv", tmp_path / "run", "--header", "no")
    (tmp_path / "holes.csv").write_text("b,\na,0\na,1\n")  # a word above numbers is no name here
    code, out, err = in_process(
        monkeypatch, capsys, "fill", tmp_path / "run", tmp_path / "holes.csv"
    )
    assert code == 0, err
    assert [line.split(",")[0] for line in out.splitlines()] == ["b", "a", "a"]


def test_encoding_a_wrong_row_names_it():
    codec = dataset_from_python([["a", "b"], ["b", "a"]])[1].codec
    with pytest.raises(InputError, match="row 2 has 1 cells, not 2"):
        codec.encode([["a", "b"], ["a"]])
    assert torch.equal(codec.encode([["a", "b"]]), torch.tensor([[0, 1]], dtype=torch.uint8))
