"""Conditions by rows, ranges and constraints of trained runs, in Python and by command."""

import json
import operator
import warnings
from datetime import date, timedelta

import numpy
import pytest
from hypothesis import given, settings, strategies as st

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.io.infill import split_assignments
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.model import rejection
from own_records import train_by_command, write
from test_cli import in_process

SIGNS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}
G = numpy.random.default_rng(0)
CONSTRAINTS = ["start<=end", "together(city,state)"]


def frame(n=400):
    import pandas

    city, start = G.choice(["Paris", "Lyon", "Bonn"], n), G.integers(0, 9, n)
    return pandas.DataFrame({
        "age": G.integers(17, 91, n), "city": city, "state": numpy.where(city == "Bonn", "D", "F"),
        "start": start, "end": start + G.integers(0, 4, n),
    })  # fmt: skip


@pytest.fixture(scope="module")
def model():
    options = {"iterations": 30, "method": "mdlm", "size": 1e4, "batch": 32, "device": "cpu"}
    return OneStepModel.fit(frame(), constraints=CONSTRAINTS, **options)


def check(rows):
    assert (rows.start <= rows.end).all()
    assert set(zip(rows.city, rows.state, strict=True)) <= {
        ("Paris", "F"), ("Lyon", "F"), ("Bonn", "D")
    }  # fmt: skip


def test_constraints_of_a_run_hold_in_samples_and_completions(model, tmp_path):
    check(model.sample(200, seed=0))
    assert 0 < model.acceptance < 1
    model.save(tmp_path / "copy")
    again = OneStepModel.load(tmp_path / "copy", "cpu")
    ages = again.sample(30, seed=0, constraints=["unique(age)"]).age
    assert ages.is_unique
    check(again.fill(frame(30)[["age", "start"]], draws=2, seed=0))
    holes = frame(2)
    holes["start"], holes["end"] = 5, [None, 3]
    with pytest.raises(InputError, match="fill, row 2: start<=end does not hold for the known"):
        again.fill(holes[["start", "end"]])
    config = json.loads((tmp_path / "copy" / "config.json").read_text())
    assert config["codec"]["constraints"] == CONSTRAINTS


def test_rows_of_a_frame_are_conditions(model):
    import pandas

    asked = pandas.DataFrame({"city": ["Paris", None, "Bonn"], "age": [20, 30, None]})
    rows = model.sample(conditions=asked, seed=0)
    assert rows.city.tolist()[::2] == ["Paris", "Bonn"]
    assert rows.age.tolist()[:2] == [20, 30]
    check(rows)
    twice = model.sample(2, conditions=asked.to_dict("records"), infill="age<60", seed=0)
    assert twice.city.tolist()[:2] == ["Paris"] * 2
    assert (twice.age < 60).all()
    pandas.testing.assert_frame_equal(rows, model.sample(conditions=asked, seed=0))
    with pytest.raises(InputError, match="conditions, row 2: infill: column city has no 'Rome'"):
        model.sample(conditions=[{"city": "Bonn"}, {"city": "Rome"}])
    with pytest.raises(InputError, match="conditions must be a frame or a list of patterns"):
        model.sample(conditions={"city": "Bonn"})
    with pytest.raises(InputError, match="conditions: there are no rows"):
        model.sample(conditions=[])


def test_rare_ranges_are_noted(model, monkeypatch):
    monkeypatch.setattr(rejection, "POOL", 5)
    monkeypatch.setattr(rejection, "RARE", 0.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = model.sample(100, infill={"age": ">=80"}, seed=0)
    assert len(rows) == 100
    assert (rows.age >= 80).all()
    check(rows)
    assert any("given the restricted cells of" in str(w.message) for w in caught)


def test_conditions_and_constraints_by_command(tmp_path, monkeypatch, capsys):
    lines = ["a,b,k", *(f"{i % 7},{i % 5},{'xyz'[i % 3]}" for i in range(210))]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    run = tmp_path / "run"
    train_by_command(monkeypatch, capsys, tmp_path / "data.csv", run, "--constraints", "a<=b")
    card = json.loads((run / "data.json").read_text())
    assert card["constraints"] == {"a<=b": "true of 42.86 % of rows"}
    assert "--constraints 'a<=b'" in card["command"]
    words = ("sample", run, "-n", 50, "--seed", 0, "--infill", "k=x|z,a>=1")
    code, out, err = in_process(monkeypatch, capsys, *words, "--constraints", "together(a,k)")
    assert code == 0, err
    assert "generated rows were acceptable" in err
    rows = [line.split(",") for line in out.splitlines()[1:]]
    assert len(rows) == 50
    assert all(1 <= int(a) <= int(b) and k in "xz" for a, b, k in rows)
    for words, message in (
        (("--infill", "a>=9"), "infill: a>=9: no value satisfies this; column a has '0', '1'"),
        (("--infill", "a=3,b=1"), "a<=b does not hold for the known '3', '1'"),
        (("--constraints", "a<=c"), "constraint 'a<=c': no column 'c'; the columns are a, b, k"),
        (("--constraints", "a<=k"), "constraint 'a<=k': column k has words, which have no order"),
        (("--constraints", "even(a)"), "write 'a<=b', 'together(a,b)' or 'unique(a)'"),
    ):
        code, out, err = in_process(monkeypatch, capsys, "sample", run, *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
    words = ("train", write(tmp_path, "lines"), "--constraints", "a<=b", "--out", tmp_path / "w")
    assert "--constraints is for table" in in_process(monkeypatch, capsys, *words)[2]


@settings(max_examples=60, deadline=None)
@given(
    sign=st.sampled_from(sorted(SIGNS)),
    numbers=st.lists(st.integers(-50, 50), min_size=2, max_size=90, unique=True),
    bound=st.integers(-60, 60),
    kind=st.sampled_from(["int", "float", "date"]),
)
def test_ranges_compare_numbers_and_dates(sign, numbers, bound, kind):
    spell = {
        "int": str,
        "float": lambda n: str(n / 4),
        "date": lambda n: str(date(2024, 1, 1) + timedelta(days=n)),
    }[kind]
    rows = [[spell(n), "xy"[i % 2]] for i, n in enumerate(numbers)] + [["", "x"]]
    codec = TableCodec.of("nk", rows)
    [restriction] = codec.restrictions([{"n": f"{sign}{spell(bound)}"}])
    assert codec.restrictions([f"n {sign} {spell(bound)}"]) == (restriction,)
    assert restriction.holds(rows).tolist() == [SIGNS[sign](n, bound) for n in numbers] + [False]


cells = st.lists(st.text(r"ab\,=|<> ", min_size=1), min_size=1, max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.text(r"ab\,=|<>", min_size=1), cells), min_size=1, max_size=3))
def test_every_name_and_cell_can_be_written(pairs):
    def escaped(text):
        return "".join(f"\\{c}" if c in r"\,=|<>" else c for c in text)

    pattern = ",".join(f"{escaped(name)}={'|'.join(map(escaped, c))}" for name, c in pairs)
    assert list(split_assignments(pattern)) == pairs


def test_levels_that_look_like_ranges_and_sets_are_levels():
    rows = [[income, genre] for income in (">50K", "<=50K") for genre in ("A", "B", "A|B")]
    codec = dataset_from_python(rows)[1].codec
    for pattern in ("c1=>50K", "c1>50K", {"c1": ">50K"}, {"c1": [">50K"]}):
        assert codec.parse_infill(pattern) == {0: 1}
        assert codec.restrictions([pattern]) == ()
    assert codec.parse_infill("c2=A|B") == {1: 1}
    [either] = codec.restrictions([{"c2": ["A", "B"]}])
    assert either.holds(rows).tolist() == [True, True, False] * 2
    assert codec.restrictions(["c2=B|A"])[0].cells == {"A", "B"}


def test_dates_compare_with_datetimes_and_not_with_numbers():
    rows = [["2024-01-02", f"2024-01-{i:02d} 12:00", str(i)] for i in range(1, 28)]
    codec = TableCodec.of(["day", "at", "n"], [*rows, ["2024-01-05", rows[0][1], "1"]])
    ordered = codec.with_constraints(["day<=at"]).requirements(codec.encode).restrictions[0]
    assert ordered.holds(rows).tolist() == [False] + [True] * 26
    with pytest.raises(InputError, match="column day has dates and column n has numbers"):
        codec.with_constraints(["day<n"])
    wide = TableCodec.of("nk", [[str(i * i), "xy"[i % 2]] for i in range(9000)])
    with pytest.raises(InputError, match="column n has bins of several numbers"):
        wide.with_constraints(["together(n,k)"])
