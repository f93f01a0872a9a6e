"""The samples of a run are those of the Python API."""

import pytest
import torch

from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.run.json_files import read_json


@pytest.fixture
def columns(models, ask):
    """The columns of a run of a kind."""

    def answer(kind, **question):
        number = list(models).index(kind)
        return ask(f"/api/runs/{number}/samples", **question)["columns"]

    return answer


def tokens_of(column):
    return torch.tensor([record["tokens"] for record in column["records"]])


@pytest.mark.parametrize("kind", ["names", "table", "array", "smiles"])
def test_samples_are_those_of_the_library(kind, models, columns):
    """The same seed gives the same records at every number of steps."""
    model, steps = models[kind], [1, 4, 64]
    for column, k in zip(columns(kind, count=5, steps=steps, seed=7), steps, strict=True):
        assert column["steps"] == k
        options = SampleOptions(5, k, seed=7)
        exact = torch.cat(list(sample_tokens(model.kernel, model.config, options)))
        assert torch.equal(tokens_of(column), exact)


def test_texts_are_those_of_the_model(models, columns):
    column = columns("names", count=20, steps=[2], seed=1)[0]
    assert [record["text"] for record in column["records"]] == models["names"].sample(20, 2, seed=1)


def test_fixed_positions_are_an_infill(models, columns):
    model = models["names"]
    fixed = sorted(model.config.codec.parse_infill("ma??a").items())
    column = columns("names", count=9, steps=[1], seed=2, fixed=fixed)[0]
    records = [record["text"] for record in column["records"]]
    assert records == model.sample(9, seed=2, infill="ma??a")
    assert {record[:2] for record in records} == {"ma"}


def test_class_is_fixed_by_its_positions(models, columns):
    model = models["array"]
    codec = model.config.codec
    for name in codec.class_names:
        fixed = sorted(codec.class_tokens(name).items())
        column = columns("array", count=4, steps=[1], seed=0, fixed=fixed)[0]
        assert {record["class"] for record in column["records"]} == {name}


def test_tokens_are_the_likeliest_of_their_laws(models, columns):
    column = columns("names", count=20, steps=[1], seed=0)[0]
    for record, laws in zip(column["records"], column["laws"], strict=True):
        assert record["tokens"] == [pairs[0][0] for pairs in laws]
        for pairs in laws:
            shares = [share for _, share in pairs]
            assert shares == sorted(shares, reverse=True)
            assert 0.9 < sum(shares) < 1 + 1e-5 or len(pairs) == 8


def test_molecules_are_drawn(columns):
    pytest.importorskip("rdkit")
    records = columns("smiles", count=20, steps=[1], seed=0)[0]["records"]
    assert all(bool(record["svg"]) == record["valid"] for record in records)


def test_evaluation_is_that_of_the_run(client, models):
    runs = client.get("/api/start").json()["runs"]
    recorded = read_json(models["names"].folder / "evaluation.json")["scores"]
    shown = runs[0]["evaluation"]
    assert shown["held out"] == recorded.pop("held out")
    assert {f"{k} steps": row for k, row in shown["samples"].items() if k != "1"} == {
        name: row for name, row in recorded.items() if name != "1 step"
    }
    assert [run["evaluation"] for run in runs[1:]] == [None] * 3
    assert [run["name"] for run in runs] == list(models)
