"""What samples are worth beside held-out records."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from discrete_meanflow import OneStepModel
from discrete_meanflow.data import kind as kinds
from discrete_meanflow.errors import InputError
from discrete_meanflow.metric.pair_covariance import pair_covariance_correlation
from discrete_meanflow.model import drawn as drawing
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.eval_samples import EvaluateOptions, draw, find, keep
from discrete_meanflow.model.evaluate import Evaluator, _well_formed, evaluate, judged
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.train import train
from discrete_meanflow.training import Distributed
from test_cli import in_process


def test_too_few_held_out_records_are_not_judged(trained, monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, "evaluate", trained / "table")
    assert code == 2
    assert "too few" in err


@pytest.fixture(scope="module")
def judgeable(tmp_path_factory):
    """A run of which enough is held out to judge it by."""
    words = [f"{a}{b}{c}{d}" for a in "abc" for b in "def" for c in "ghi" for d in "jklm"]
    folder = tmp_path_factory.mktemp("judged") / "run"
    return OneStepModel.fit(words, iterations=40, size=1e4, out=folder, held_out=40, device="cpu")


def test_evaluation_tells_copies_from_the_new(judgeable):
    model = judgeable
    found = model.evaluate(20)
    assert (found["records"], set(found["scores"])) == (
        20, {"held out", "1 step", "2 steps", "4 steps", "8 steps", "16 steps"},
    )  # fmt: skip
    real = found["scores"]["held out"]
    assert real["copies"] == 0
    train = run.read_tokens(model.folder, run.TRAIN, model.config.codec)
    judge = Evaluator(model.config, train, train[:20])
    mixed = judge(torch.cat([train[:10], train[:10]]))
    assert (mixed["copies"], mixed["unique"], mixed["nearest"]) == (1, 0.5, 0)
    assert real["unique"] == real["well-formed"] == 1
    assert 0 <= real["AUC"] <= 1
    assert 0 < real["nearest"] < 1


def test_two_sites_of_an_alignment_are_compared(judgeable):
    """Of FASTA of one length: in other strings no two records have the same place in common."""
    model = judgeable
    train = run.read_tokens(model.folder, run.TRAIN, model.config.codec)
    twins = train.clone()
    twins[:, 3] = train[:, 0]  # as no independent sites are
    assert "two sites" not in Evaluator(model.config, train, twins)(twins)
    fasta, other = replace(model.config, kind=kinds.Fasta()), twins.clone()
    other[::3, 3] = train[::3, 3]
    exact = pair_covariance_correlation(other, twins, model.config.codec.vocabulary)
    assert 0 < exact < 0.99
    assert Evaluator(fasta, train, twins)(other)["two sites"] == exact
    codec = kinds.Fasta().of(["ACGU", "ACG"]).codec
    padded = Evaluator(replace(fasta, codec=codec), train[:4] * 0, train[:4] * 0)
    assert "two sites" not in padded(train[:4] * 0)


def test_what_goes_on_behind_its_end_is_not_well_formed():
    x = torch.tensor([[0, 1, 2], [0, 2, 2], [2, 2, 2], [0, 2, 1], [2, 0, 1]])  # 2: the end
    assert _well_formed(x, 2) == 2 / 5
    assert _well_formed(x, None) == 1


ASKED, READ = EvaluateOptions(20, 3, (1, 4)), ("held out", "1 step", "4 steps")


def test_samples_drawn_elsewhere_are_judged_without_the_weights(judgeable, tmp_path):
    folder, weights = tmp_path / "run", tmp_path / "run" / "weights.safetensors"
    judgeable.save(folder)
    assert find(folder, ASKED) is None
    keep(folder, draw(judgeable, ASKED))
    weights.rename(tmp_path / "apart")
    found = find(folder, ASKED)
    assert found is not None
    assert judged(folder, found) == evaluate(judgeable, ASKED)
    others = (replace(ASKED, seed=4), replace(ASKED, steps=(1,)), replace(ASKED, n=10))
    for other in others:
        with pytest.raises(InputError, match=r"other samples: .* -n 20 --seed 3 --steps 1 4"):
            find(folder, other)
    weights.write_bytes(b"others")  # by which these samples were not drawn
    assert [find(folder, each) for each in (ASKED, *others)] == [None] * 4


def test_samples_of_another_machine_are_not_replaced(judgeable, tmp_path, monkeypatch, capsys):
    """With their weights beside them they could be drawn anew, elsewhere and otherwise."""
    folder = tmp_path / "run"
    judgeable.save(folder)
    there = run.environment() | {"gpu": "[/a large one]"}
    keep(folder, replace(draw(judgeable, ASKED), environment=there))
    before = (folder / "samples.safetensors").read_bytes()
    code, _, err = in_process(monkeypatch, capsys, "evaluate", folder, "-n", 10)
    assert (code, err.count("\n")) == (2, 1), err
    assert "drawn on [/a large one]: " in err
    assert f"dmf evaluate {folder} {ASKED.options}; or delete it" in err
    assert (folder / "samples.safetensors").read_bytes() == before
    code, out, err = in_process(
        monkeypatch, capsys, "evaluate", folder, "-n", 20, "--seed", 3, "--steps", 1, 4
    )
    assert code == 0, err
    assert "[/a large one], as they were kept" in out


DAMAGE = {
    "no words": None,
    "bits": {"bits": "{}"},
    "no number": {"bits": json.dumps(dict.fromkeys(READ, math.nan))},
    "much": {"bits": json.dumps(dict.fromkeys(READ, 10**400))},
    "asked": {"asked": "{"},
    "environment": {"environment": "3"},
    "odd": {"environment": json.dumps(run.environment() | {"gpu": "\ud800"})},
}


@pytest.mark.parametrize("what", [*DAMAGE, "few", "tokens", "no file"])
def test_damaged_samples_are_refused(what, judgeable, tmp_path):
    folder, path = tmp_path / "run", tmp_path / "run" / "samples.safetensors"
    judgeable.save(folder)
    asked = replace(ASKED, reading=50)
    keep(folder, replace(draw(judgeable, ASKED), asked=asked, bits=dict.fromkeys(READ, 1.0)))
    assert find(folder, asked) is not None
    with safe_open(path, "pt") as file:
        words, tokens = file.metadata(), {k: file.get_tensor(k) for k in ("1", "4")}
    change = DAMAGE.get(what, {})
    tokens["4"] = {"few": tokens["4"][:3], "tokens": tokens["4"] + 100}.get(what, tokens["4"])
    save_file(tokens, path, None if change is None else words | change)
    if what == "no file":
        path.write_bytes(b"x")
    with pytest.raises(InputError, match=r"samples\.safetensors"):
        find(folder, asked)


def test_a_reader_learns_from_what_is_compared_with_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "FEWEST_READ", 20)
    text = tmp_path / "long.txt"
    text.write_text("it was a dark and stormy night, " * 200)
    kind = kinds.Windows(16)
    prepare(tmp_path / "run", kind, kind.read(text), "cpu", iterations=4, size=1e4, held_out=40)
    train(tmp_path / "run", Distributed(), lambda news: None)
    model = OneStepModel.load(tmp_path / "run", "cpu")
    heard, trained = [], drawing.ReferenceLM.fit

    def listen(x, *given):
        heard.extend([x, trained(x, *given, batch=8, width=32, layers=1)])
        return heard[1]

    monkeypatch.setattr(drawing.ReferenceLM, "fit", listen)
    found = draw(model, EvaluateOptions(10, 0, (1, 4), reading=50))
    held_out = run.read_tokens(model.folder, run.HELD_OUT, model.config.codec)
    assert torch.equal(heard[0][::16], held_out[20:])
    assert torch.equal(heard[0][1, :-1], heard[0][0, 1:])  # windows begin anywhere
    fresh = drawing.EvalSplit.of(model.folder, model.config.codec, 10).fresh
    read = (fresh, found.samples[1], found.samples[4])
    assert found.bits == dict(zip(READ, map(heard[1].bits, read), strict=True))
    scores = judged(model.folder, found)["scores"]
    assert {who: each["bits"] for who, each in scores.items()} == found.bits
    with pytest.raises(InputError, match="a reader needs 20 held-out records"):
        draw(model, EvaluateOptions(15, 0, (1,), reading=50))


def test_the_floor_of_a_text_is_the_noise_of_its_windows(tmp_path):
    """Not the drift from one page to the next, and not nothing."""
    text = tmp_path / "long.txt"
    text.write_text("".join(f"{i:06d}\n\n" for i in range(4000)))
    kind = kinds.Windows(8)
    prepare(tmp_path / "run", kind, kind.read(text), "cpu", iterations=4, size=1e4, held_out=1000)
    config = run.read_config(tmp_path / "run")
    held_out = run.read_tokens(tmp_path / "run", run.HELD_OUT, config.codec)
    found = drawing.EvalSplit.of(tmp_path / "run", config.codec, 300)
    assert torch.equal(found.rest, held_out[600:])  # in its order, for whom reads on
    numbers = [[int(s) for s in config.codec.decode(x)] for x in (found.reference, found.fresh)]
    assert sorted(numbers[0] + numbers[1]) == list(range(3000, 3600))
    assert all(len(set(each)) == 300 for each in numbers)
    assert abs(sum(numbers[0]) - sum(numbers[1])) / 300 < 60  # of one another's pages


BARE = """
import runpy, sys
for name in (
    "tyro", "rich", "matplotlib", "scipy", "sklearn", "rdkit",
    "accelerate", "tensorboard", "pyarrow",
):
    sys.modules[name] = None
runpy.run_module("discrete_meanflow.model", run_name="__main__", alter_sys=True)
"""


def test_a_bare_machine_trains_and_draws_what_is_judged_elsewhere(tmp_path, monkeypatch, capsys):
    """On a GPU machine there may be little but PyTorch."""
    path, out = tmp_path / "words.txt", tmp_path / "run"
    path.write_text("\n".join(f"{a}{b}{c}" for a in "abcdefgh" for b in "ijklm" for c in "nopqr"))
    words = [path, "--out", out, "--minutes", "0.01", "--size", "1e4", "-n", "8", "--steps", "1"]
    command = [sys.executable, "-c", BARE, *map(str, words)]
    other = tmp_path / "b" / "words.txt"  # of the same name
    other.parent.mkdir()
    other.write_text(path.read_text() + "\nzz")
    for line, code, message in (
        ([*command, "--steps", "0"], 2, "steps from 1"),
        ([*command, "--reading", "50"], 2, "a reader needs 1000 held-out"),
        (command, 0, "now dmf evaluate"),
        (command, 0, "going on with it"),
        ([*command, "--seed", "1"], 2, "another run"),
        ([*command[:3], str(other), *command[4:]], 2, "another run"),
    ):
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert message in done.stdout + done.stderr
    (out / "weights.safetensors").unlink()
    code, said, err = in_process(
        monkeypatch, capsys, "evaluate", out, "-n", 8, "--seed", 0, "--steps", 1
    )
    assert code == 0, err
    assert "1 step" in said
    assert "as they were kept" in said


def test_what_is_no_sequence_is_invalid():
    assert kinds.Fasta().valid(["ACG-U", "", "AC_G", "AC G"]) == [True, False, False, False]
