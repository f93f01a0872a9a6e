"""A run that starts from the weights of another."""

import pytest
import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import Interrupted
from discrete_meanflow.model import run_folder as run
from own_records import WORDS, train_by_command, train_run
from test_cli import in_process

TINY = ("--iterations", 4, "--size", 1e4, "--batch", 16, "--device", "cpu")


@pytest.mark.parametrize("matching", ["yes", "no"])
def test_run_starts_from_the_flow_map_of_another(matching, tmp_path, monkeypatch, capsys):
    """Also with another size, which is that of the first run; and it resumes."""
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS))
    first = train_by_command(monkeypatch, capsys, path, tmp_path / "first", "--matching", matching)
    seen = []

    def stop(trainer):
        seen.append({name: p[0].clone() for name, p in trainer.parameters.items()})
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr("discrete_meanflow.training.trainer.Trainer.blocks", stop)
        words = ("train", path, "--out", tmp_path / "more", "--init", tmp_path / "first", *TINY)
        in_process(monkeypatch, capsys, *words, "--seed", 9)
    parameters = dict(first.kernel.named_parameters())
    assert seen[0]
    for name, p in seen[0].items():
        assert torch.equal(p, parameters[name])
    train_run(tmp_path / "more")
    assert len(OneStepModel.load(tmp_path / "more", "cpu").sample(3)) == 3


def test_start_from_another_codec_is_one_line(tmp_path, monkeypatch, capsys):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS))
    train_by_command(monkeypatch, capsys, path, tmp_path / "first")
    path.write_text("\n".join(word + "z" for word in WORDS))
    words = ("train", path, "--out", tmp_path / "more", "--init", tmp_path / "first", *TINY)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "the file has other columns, levels, symbols or lengths" in err
    assert not (tmp_path / "more").exists()
    path.write_text("\n".join(WORDS))
    code, _, err = in_process(monkeypatch, capsys, *words, "--method", "mdlm")
    assert (code, "that run has method one-step" in err) == (2, True)


def test_refused_training_leaves_no_folder(tmp_path, monkeypatch, capsys):
    path = tmp_path / "words.txt"
    path.write_text("one\n")
    monkeypatch.chdir(tmp_path)
    code, _, _ = in_process(monkeypatch, capsys, "train", "words.txt", *TINY)
    assert code == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["words.txt"]
    run.check_new_folder(tmp_path / "a" / "b" / "c")
    assert not (tmp_path / "a").exists()
