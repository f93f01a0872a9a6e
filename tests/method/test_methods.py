"""Laws of all methods: each trains on a file's records, samples, conditions and resumes."""

import json
from typing import get_args

import pytest
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.method import METHODS, find_method
from discrete_meanflow.model.options import FitOptions, MethodName
from discrete_meanflow.model.run_folder import CONFIG
from own_records import ROWS, WORDS, train_by_command
from test_cli import in_process

PAD = "_"  # a poor run may generate it inside of a record
MANY = [name for name, method in METHODS.items() if not method.distilled]


@pytest.fixture(scope="module", params=METHODS)
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / request.param
    return OneStepModel.fit(
        WORDS, iterations=12, size=1e4, batch=16, method=request.param, out=folder, device="cpu"
    )


def test_options_list_all_methods():
    assert set(get_args(MethodName)) == set(METHODS)
    assert FitOptions().method in METHODS


def test_records_are_those_of_the_seed(model):
    records = model.sample(7, seed=1)
    assert len(records) == 7
    assert records == model.sample(7, seed=1)
    assert records != model.sample(7, seed=2) or len(set(records)) == 1
    assert set("".join(records)) <= set("".join(WORDS) + PAD)


def test_a_loaded_run_gives_the_same_records(model):
    assert OneStepModel.load(model.folder, "cpu").sample(5, seed=3) == model.sample(5, seed=3)
    assert json.loads((model.folder / CONFIG).read_text())["plan"]["method"] in METHODS


def test_known_beginnings_stay(model):
    records = model.sample(6, infill="bf??", seed=0)
    assert all(record.startswith("bf") for record in records)


def test_tables_have_levels_of_their_columns(model):
    """Noise may add symbols and the network knows those of all columns; neither is generated."""
    name = model.config.plan.method
    table = OneStepModel.fit(ROWS, iterations=12, size=1e4, batch=16, method=name, device="cpu")
    for row in table.sample(20, seed=0):
        assert all(value in {r[i] for r in ROWS} for i, value in enumerate(row))


@pytest.mark.parametrize("name", MANY)
def test_matching_belongs_to_the_default(name):
    with pytest.raises(InputError, match="matching is a stage of method one-step"):
        FitOptions(method=name, matching="yes")


def test_unknown_methods_are_refused(tmp_path, monkeypatch, capsys):
    with pytest.raises(InputError, match="unknown method 'best'; known: one-step, flow-matching"):
        FitOptions(method="best")
    with pytest.raises(InputError, match="unknown method 'best'; known: one-step"):
        find_method("best")
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS))
    code, _, err = in_process(monkeypatch, capsys, "train", path, "--method", "best")
    assert code == 2
    assert "one-step" in err
    assert len(err.splitlines()) == 1


def test_a_run_names_its_method(tmp_path, monkeypatch, capsys):
    path, folder = tmp_path / "words.txt", tmp_path / "run"
    path.write_text("\n".join(WORDS))
    train_by_command(monkeypatch, capsys, path, folder, "--method", "flow-matching")
    assert "--method flow-matching" in json.loads((folder / "data.json").read_text())["command"]


@pytest.mark.parametrize("field", ["student_steps", "teacher_pairs", "matching_steps"])
def test_damaged_plans_are_refused(field, model, tmp_path):
    if model.config.plan.system.distilled:
        pytest.skip("it has all stages")
    model.save(tmp_path / "run")
    content = json.loads((tmp_path / "run" / CONFIG).read_text())
    content["plan"][field] = 5
    (tmp_path / "run" / CONFIG).write_text(json.dumps(content))
    with pytest.raises(InputError, match="plan: method"):
        OneStepModel.load(tmp_path / "run", "cpu")


def test_discrete_states_have_no_graph(model, tmp_path):
    if not torch.is_floating_point(model.config.plan.process(model.config.codec).source(
        (1, 2), torch.Generator()
    )):  # fmt: skip
        with pytest.raises(InputError, match="has discrete states"):
            model.export(tmp_path / "graph.onnx")
