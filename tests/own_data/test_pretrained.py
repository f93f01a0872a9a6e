"""The models that ship with the package."""

import json
import re

import pytest

import discrete_meanflow as dmf
from discrete_meanflow.errors import InputError
from discrete_meanflow.pretrained import pretrained_folder
from test_cli import in_process

MOST_BYTES = 1_000_000


@pytest.mark.parametrize("name", dmf.pretrained_names())
def test_model_is_small_and_has_a_card(name):
    folder = pretrained_folder(name)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MOST_BYTES
    card = (folder / "README.md").read_text()
    assert json.loads((folder / "data.json").read_text())["command"] in card
    assert "Licence" in card


@pytest.mark.parametrize("name", dmf.pretrained_names())
def test_card_has_the_scores_of_the_evaluation(name):
    folder = pretrained_folder(name)
    scores = json.loads((folder / "evaluation.json").read_text())["scores"]
    table = re.findall(r"^\| (\w[^|]*) \|(.*)\|$", (folder / "README.md").read_text(), re.M)
    (_, header), *rows = table
    names = [cell.strip() for cell in header.split("|")]
    assert rows
    for row, cells in rows:
        for score, cell in zip(names, cells.split("|"), strict=True):
            assert float(cell) == pytest.approx(scores[row][score], abs=6e-4), (row, score)


def test_pretrained_names_are_names():
    model = dmf.load_pretrained("names", "cpu")
    names = model.sample(200, seed=0)
    assert len(set(names)) > 190
    assert sum(name.isalpha() for name in names) > 190
    assert all(name.startswith("ma") for name in model.sample(20, infill="ma", seed=0))


def test_pretrained_models_are_sampled_by_command(monkeypatch, capsys, tmp_path):
    words = ("sample", "--pretrained", "names", "-n", 3, "--seed", 0)
    code, out, err = in_process(monkeypatch, capsys, *words, "--infill", "ma??")
    assert (code, err) == (0, "")
    assert all(line.startswith("ma") for line in out.splitlines())
    assert len(out.splitlines()) == 3
    for wrong, message in (
        (("sample",), "needs a run folder, or --pretrained with one of: names"),
        ((*words, tmp_path), "not both"),
        (("sample", "--pretrained", "text"), "no pretrained model 'text'; choose one of names"),
    ):
        code, _, err = in_process(monkeypatch, capsys, *wrong)
        assert code == 2
        assert message in " ".join(err.split())


def test_unknown_pretrained_model_is_one_line():
    with pytest.raises(InputError, match="no pretrained model"):
        dmf.load_pretrained("nothing")
