"""Evaluation: samples compared with held-out records."""

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
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.text_kinds import Fasta, Windows
from discrete_meanflow.metric.pair_covariance import pair_covariance_correlation
from discrete_meanflow.model import eval_samples, run_folder as run
from discrete_meanflow.model.eval_samples import EvalSplit, draw, load_samples, save_samples
from discrete_meanflow.model.evaluate import LEGEND, Evaluator, _well_formed, evaluate
from discrete_meanflow.model.options import EvaluateOptions, FitOptions
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.run.environment import environment
from discrete_meanflow.training import Distributed
from own_records import train_run
from test_cli import in_process


def test_evaluate_needs_enough_held_out_records(trained, monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, "evaluate", trained / "table")
    assert code == 2
    assert "too few" in err


@pytest.fixture(scope="module")
def judgeable(tmp_path_factory):
    """A run with enough held-out records."""
    words = [f"{a}{b}{c}{d}" for a in "abc" for b in "def" for c in "ghi" for d in "jklm"]
    folder = tmp_path_factory.mktemp("judged") / "run"
    return OneStepModel.fit(words, iterations=40, size=1e4, out=folder, held_out=40, device="cpu")


def test_evaluation_counts_copies(judgeable):
    model = judgeable
    found = model.evaluate(20)
    assert (found["records"], set(found["scores"])) == (
        20, {"held out", "1 step", "2 steps", "4 steps", "8 steps", "16 steps"},
    )  # fmt: skip
    real = found["scores"]["held out"]
    assert real["copies"] == 0
    train = read_tokens(model.folder / run.TRAIN, model.config.codec)
    evaluator = Evaluator(model.config, train, train[:20])
    mixed = evaluator(torch.cat([train[:10], train[:10]]))
    assert (mixed["copies"], mixed["unique"], mixed["nearest"]) == (1, 0.5, 0)
    assert real["unique"] == real["well-formed"] == 1
    assert 0 <= real["C2ST AUC"] <= 1
    assert 0 < real["nearest"] < 1


def test_pair_covariance_is_for_alignments(judgeable):
    """FASTA of one length; in other strings a position has no common meaning."""
    model = judgeable
    train = read_tokens(model.folder / run.TRAIN, model.config.codec)
    twins = train.clone()
    twins[:, 3] = train[:, 0]  # which independent positions are not
    assert "pair covariance" not in Evaluator(model.config, train, twins)(twins)
    fasta, other = replace(model.config, kind=Fasta()), twins.clone()
    other[::3, 3] = train[::3, 3]
    exact = pair_covariance_correlation(other, twins, model.config.codec.vocabulary)
    assert 0 < exact < 0.99
    assert Evaluator(fasta, train, twins)(other)["pair covariance"] == exact
    codec = Fasta().of(["ACGU", "ACG"]).codec
    padded = Evaluator(replace(fasta, codec=codec), train[:4] * 0, train[:4] * 0)
    assert "pair covariance" not in padded(train[:4] * 0)


def test_text_after_the_end_is_not_well_formed():
    x = torch.tensor([[0, 1, 2], [0, 2, 2], [2, 2, 2], [0, 2, 1], [2, 0, 1]])  # 2: the end
    assert _well_formed(x, 2) == 2 / 5
    assert _well_formed(x, None) == 1


OPTIONS, ROWS = EvaluateOptions(20, (1, 4), 3), ("held out", "1 step", "4 steps")


def save(model, folder, options=OPTIONS, **changes):
    """Copy a run and save samples of it."""
    model.save(folder)
    samples = draw(folder, model.config, model.kernel, options)
    save_samples(folder, model.config, replace(samples, **changes))
    return model.config


def test_samples_are_scored_without_the_weights(judgeable, tmp_path):
    folder, weights = tmp_path / "run", tmp_path / "run" / "weights.safetensors"
    assert load_samples(judgeable.folder, judgeable.config, OPTIONS) is None
    config = save(judgeable, folder)
    weights.rename(tmp_path / "apart")
    samples = load_samples(folder, config, OPTIONS)
    assert samples is not None
    assert evaluate(folder, config, samples) == judgeable.evaluate(20, (1, 4), seed=3)
    others = (replace(OPTIONS, seed=4), replace(OPTIONS, steps=(1,)), replace(OPTIONS, n=10))
    for other in others:
        with pytest.raises(InputError, match=r"other options; .* -n 20 --seed 3 --steps 1 4"):
            load_samples(folder, config, other)
    weights.write_bytes(b"others")  # which did not draw these samples
    assert [load_samples(folder, config, o) for o in (OPTIONS, *others)] == [None] * 4


def test_samples_of_another_machine_are_not_replaced(judgeable, tmp_path, monkeypatch, capsys):
    """Even with their weights, new ones would be different."""
    folder = tmp_path / "run"
    save(judgeable, folder, environment=environment() | {"gpu": "[/a large one]"})
    before = (folder / "samples.safetensors").read_bytes()
    code, _, err = in_process(monkeypatch, capsys, "evaluate", folder, "-n", 10)
    assert (code, err.count("\n")) == (2, 1), err
    assert "drawn on [/a large one]; " in err
    assert f"dmf evaluate {folder} {OPTIONS.command_line}, or delete it" in err
    assert (folder / "samples.safetensors").read_bytes() == before
    code, out, err = in_process(
        monkeypatch, capsys, "evaluate", folder, "-n", 20, "--seed", 3, "--steps", 1, 4
    )
    assert code == 0, err
    assert "using the saved samples" in out
    assert "[/a large one]; to draw new ones" in out


DAMAGE = {
    "no words": None,
    "bits": {"bits": "{}"},
    "no number": {"bits": json.dumps(dict.fromkeys(ROWS, math.nan))},
    "much": {"bits": json.dumps(dict.fromkeys(ROWS, 10**400))},
    "options": {"options": "{"},
    "environment": {"environment": "3"},
    "odd": {"environment": json.dumps(environment() | {"gpu": "\ud800"})},
}


@pytest.mark.parametrize("what", [*DAMAGE, "few", "tokens", "no file"])
def test_damaged_samples_are_rejected(what, judgeable, tmp_path):
    folder, path = tmp_path / "run", tmp_path / "run" / "samples.safetensors"
    lm = replace(OPTIONS, lm_steps=50)
    config = save(judgeable, folder, options=OPTIONS, **{"bits": dict.fromkeys(ROWS, 1.0)})
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tokens = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
    metadata["options"] = json.dumps(json.loads(metadata["options"]) | {"lm_steps": 50})
    save_file(tokens, path, metadata)
    assert load_samples(folder, config, lm) is not None
    change = DAMAGE.get(what, {})
    tokens["4"] = {"few": tokens["4"][:3], "tokens": tokens["4"] + 100}.get(what, tokens["4"])
    save_file(tokens, path, None if change is None else metadata | change)
    if what == "no file":
        path.write_bytes(b"x")
    with pytest.raises(InputError, match=r"samples\.safetensors"):
        load_samples(folder, config, lm)


def test_reference_lm_learns_from_records_that_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(eval_samples, "FEWEST_LM_RECORDS", 20)
    text = tmp_path / "long.txt"
    text.write_text("it was a dark and stormy night, " * 200)
    kind, folder = Windows(16), tmp_path / "run"
    options = FitOptions(iterations=4, size=1e4, held_out=40)
    prepare(folder, kind, kind.read(text), options, Distributed())
    train_run(folder)
    model = OneStepModel.load(folder, "cpu")
    calls, trained = [], eval_samples.ReferenceLM.fit

    def record(x, *arguments):
        calls.extend([x, trained(x, *arguments, batch=8, width=32, layers=1)])
        return calls[1]

    monkeypatch.setattr(eval_samples.ReferenceLM, "fit", record)
    samples = draw(folder, model.config, model.kernel, EvaluateOptions(10, (1, 4), lm_steps=50))
    held_out = read_tokens(model.folder / run.HELD_OUT, model.config.codec)
    assert torch.equal(calls[0][::16], held_out[20:])
    assert torch.equal(calls[0][1, :-1], calls[0][0, 1:])  # windows start anywhere
    real = EvalSplit.read(folder, model.config.codec, 10).real
    records = (real, samples.tokens[1], samples.tokens[4])
    assert samples.bits == dict(zip(ROWS, map(calls[1].bits, records), strict=True))
    scores = evaluate(folder, model.config, samples)["scores"]
    assert {name: row["bits"] for name, row in scores.items()} == samples.bits
    assert set(scores["held out"]) <= set(LEGEND)
    with pytest.raises(InputError, match="the reference LM needs 20 held-out records"):
        draw(folder, model.config, model.kernel, EvaluateOptions(15, (1,), lm_steps=50))


def test_held_out_halves_of_a_text_are_mixed(tmp_path):
    """Their distance is sampling noise, not the drift from page to page."""
    text = tmp_path / "long.txt"
    text.write_text("".join(f"{i:06d}\n\n" for i in range(4000)))
    kind = Windows(8)
    options = FitOptions(iterations=4, size=1e4, held_out=1000)
    config, _ = prepare(tmp_path / "run", kind, kind.read(text), options, Distributed())
    held_out = read_tokens(tmp_path / "run" / run.HELD_OUT, config.codec)
    split = EvalSplit.read(tmp_path / "run", config.codec, 300)
    assert torch.equal(split.rest, held_out[600:])  # in order, for the reference LM
    numbers = [[int(s) for s in config.codec.decode(x)] for x in (split.reference, split.real)]
    assert sorted(numbers[0] + numbers[1]) == list(range(3000, 3600))
    assert all(len(set(each)) == 300 for each in numbers)
    assert abs(sum(numbers[0]) - sum(numbers[1])) / 300 < 60  # both from all pages


def test_evaluate_without_scikit_learn_saves_the_samples(judgeable, tmp_path, monkeypatch, capsys):
    """A GPU machine may lack the packages that score; the samples are scored elsewhere."""
    folder = tmp_path / "run"
    judgeable.save(folder)
    words = ("evaluate", folder, "-n", 8, "--steps", 1)
    with monkeypatch.context() as patch:
        for name in ("sklearn", "matplotlib", "scipy", "rdkit"):
            patch.setitem(sys.modules, name, None)
        code, out, err = in_process(monkeypatch, capsys, *words)
        assert (code, out.count("\n")) == (0, 1), err
        assert "pip install 'discrete-meanflow[evaluate]', then dmf evaluate" in out
        assert not (folder / "evaluation.json").exists()
    (folder / "weights.safetensors").unlink()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        code, out, err = in_process(monkeypatch, capsys, *words)
        assert code == 0, err
        assert "1 step" in out
        assert "using the saved samples" in out
        assert "pip install 'discrete-meanflow[figures]'" in out
        assert (folder / "evaluation.json").exists()
        assert not (folder / "evaluation.png").exists()
    code, out, err = in_process(monkeypatch, capsys, *words)
    assert code == 0, err
    assert (folder / "evaluation.png").read_bytes()[1:4] == b"PNG"


BARE = """
import runpy, sys
for name in (
    "matplotlib", "scipy", "sklearn", "rdkit", "accelerate", "tensorboard", "pyarrow",
):
    sys.modules[name] = None
runpy.run_module("discrete_meanflow", run_name="__main__", alter_sys=True)
"""


def never(*args, **options):
    raise AssertionError("too late")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--lm-steps", 50), "the reference LM needs 1000 held-out records besides those"),
        (("--lm-steps", 49), "lm_steps must be 0 or at least 50"),
        (("--steps", 1, 1), "steps must be distinct"),
    ],
)
def test_options_that_cannot_work_are_refused_first(words, message, judgeable, monkeypatch, capsys):
    """Before weights are read, conditions prepared or samples drawn."""
    monkeypatch.setattr(run, "read_weights", never)
    monkeypatch.setattr(eval_samples, "method_conditions", never)
    monkeypatch.setattr(eval_samples, "sample_tokens", never)
    code, _, err = in_process(monkeypatch, capsys, "evaluate", judgeable.folder, "-n", 8, *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err
    options = {"lm_steps": 50} if words[1] == 50 else {}
    if options:
        with pytest.raises(InputError, match=message):
            judgeable.evaluate(8, (1,), **options)


def test_evaluation_that_cannot_be_kept_draws_nothing(judgeable, monkeypatch, capsys):
    monkeypatch.setattr(eval_samples, "sample_tokens", never)
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda path, mode: False)
        code, _, err = in_process(monkeypatch, capsys, "evaluate", judgeable.folder, "-n", 8)
    assert (code, err.count("\n")) == (2, 1), err
    assert f"cannot write to {judgeable.folder}" in err
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match="needs: pip install scikit-learn"):
        judgeable.evaluate(8)


def test_train_and_evaluate_need_no_optional_package(tmp_path):
    path, out = tmp_path / "words.txt", tmp_path / "run"
    path.write_text("\n".join(f"{a}{b}{c}" for a in "abcdefgh" for b in "ijklm" for c in "nopqr"))
    for words, code, message in (
        (
            ("train", path, "--out", out, "--minutes", "0.01", "--size", "1e4"),
            0,
            "next: dmf sample",
        ),
        (("train", path, "--out", out), 2, "already contains a run"),
        (("evaluate", out, "--steps", "0"), 2, "steps must be at least 1"),
        (("evaluate", out, "--lm-steps", "50"), 2, "the reference LM needs 1000 held-out"),
        (("evaluate", out, "-n", "8", "--steps", "1"), 0, "samples are saved"),
    ):
        line = [sys.executable, "-c", BARE, *map(str, words)]
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert message in done.stdout + done.stderr


def test_invalid_fasta_sequences_are_found():
    assert Fasta().valid(["ACG-U", "", "AC_G", "AC G"]) == [True, False, False, False]
