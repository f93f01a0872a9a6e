"""``dmf compare``: equal data and scores for all methods; it resumes and refuses other options."""

import contextlib
import json
import os

import pytest

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.model import sizing
from discrete_meanflow.model.eval_samples import load_saved
from discrete_meanflow.model.evaluate import evaluate
from own_records import WORDS
from test_cli import in_process

OPTIONS = ("--iterations", 8, "--size", 1e4, "-n", 12, "--held-out", 24, "--device", "cpu")


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys):
    """Run ``dmf compare`` on a few words; return its exit code and errors."""
    path = tmp_path / "words.txt"
    path.write_text("\n".join(f"{a}{b}" for a in WORDS[:9] for b in WORDS[9:20]))

    def run(*words, out=tmp_path / "out"):
        return in_process(monkeypatch, capsys, "compare", path, "--out", out, *OPTIONS, *words)

    return run


def read(tmp_path):
    return json.loads((tmp_path / "out" / "comparison.json").read_text())


def test_methods_share_records_and_size(compare, tmp_path):
    code, out, err = compare("--methods", "one-step", "kernel-ce", "--steps", 1, 3)
    assert code == 0, err
    result = read(tmp_path)
    assert set(result["methods"]) == {"one-step", "kernel-ce"}
    folders = [tmp_path / "out" / name for name in result["methods"]]
    for file in ("train.safetensors", "held_out.safetensors"):
        assert len({(folder / file).read_bytes() for folder in folders}) == 1
    counts = [method["parameters"] for method in result["methods"].values()]
    assert max(counts) < 1.1 * min(counts)
    for name, method in result["methods"].items():
        assert list(method["steps"]) == ["1", "3"]
        assert name in out
        for k, row in method["steps"].items():
            assert 0 <= row["pair TV"] <= 1
            assert row["seconds per record"] > 0
            assert row["function evaluations"] == int(k)
    assert f"{result['held out']['pair TV']:.3f}" in out
    assert (tmp_path / "out" / "comparison.png").stat().st_size > 0


def test_cached_evaluations_are_counted(compare, tmp_path):
    """At most one for each of the positions, and one more, however many steps there are."""
    code, _, err = compare("--methods", "mdlm", "--steps", 1, 64)
    assert code == 0, err
    rows = read(tmp_path)["methods"]["mdlm"]["steps"]
    assert rows["1"]["function evaluations"] == 1
    assert 2 < rows["64"]["function evaluations"] < 12


def test_scores_are_those_of_an_evaluation(compare, tmp_path, monkeypatch, capsys):
    compare("--methods", "flow-matching", "--steps", 2, 1)
    folder = tmp_path / "out" / "flow-matching"
    in_process(monkeypatch, capsys, "evaluate", folder, "-n", 12, "--steps", 1, 2)
    model = OneStepModel.load(folder, "cpu")
    scores = evaluate(folder, model.config, load_saved(folder, model.config))["scores"]
    result = read(tmp_path)
    for k, row in result["methods"]["flow-matching"]["steps"].items():
        expected = scores[f"{k} step{'s' * (k != '1')}"]
        assert {name: row[name] for name in expected} == expected
    assert result["held out"] == scores["held out"]


def test_finished_parts_are_kept(compare, tmp_path):
    compare("--methods", "one-step", "--steps", 1)
    before = read(tmp_path)["methods"]["one-step"]
    weights = (tmp_path / "out" / "one-step" / "weights.safetensors").stat().st_mtime_ns
    code, _, err = compare("--methods", "one-step", "kernel-ce", "--steps", 1, 2)
    assert code == 0, err
    after = read(tmp_path)["methods"]
    assert (tmp_path / "out" / "one-step" / "weights.safetensors").stat().st_mtime_ns == weights
    assert after["one-step"]["steps"]["1"] == before["steps"]["1"]
    assert list(after["kernel-ce"]["steps"]) == ["1", "2"]


def test_killed_again_and_again_it_ends_with_the_same_scores(compare, tmp_path, monkeypatch):
    """Each session dies before it finishes its seventh file, or is interrupted there."""
    words = ("--methods", "kernel-ce", "--steps", 1, 2)
    assert compare(*words, out=tmp_path / "whole")[0] == 0
    whole = json.loads((tmp_path / "whole" / "comparison.json").read_text())
    calls, replace = [], os.replace

    def fragile(*paths):
        calls.append(paths)
        if len(calls) % 7 == 0:
            raise [Killed, KeyboardInterrupt][len(calls) // 7 % 2]
        replace(*paths)

    monkeypatch.setattr(os, "replace", fragile)
    sessions = 0
    while not (tmp_path / "out" / "comparison.png").exists():
        sessions += 1
        assert sessions < 20
        with contextlib.suppress(Killed):
            code, _, err = compare(*words)
            assert code in (0, 130), err
    assert sessions > 1
    assert without_times(read(tmp_path)) == without_times(whole)


class Killed(BaseException):
    """Ends the process; nothing catches it."""


def without_times(comparison):
    """The weights and scores of each method, without its times."""
    methods = json.loads(json.dumps(comparison["methods"]))
    for method in methods.values():
        for row in method["steps"].values():
            row.pop("seconds per record")
    return methods, comparison["held out"]


def test_other_options_and_folders_are_refused(compare, tmp_path):
    compare("--methods", "kernel-ce", "--steps", 1)
    code, _, err = compare("--methods", "kernel-ce", "--steps", 1, "--seed", 3)
    assert code == 2
    assert "holds a comparison with other seed; choose another --out" in err
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    code, _, err = compare("--methods", "kernel-ce", "--steps", 1, out=foreign)
    assert code == 2
    assert "contains other files, such as notes.txt; choose another --out" in err
    assert [path.name for path in foreign.iterdir()] == ["notes.txt"]


def test_other_data_are_refused(compare, tmp_path):
    compare("--methods", "kernel-ce", "--steps", 1)
    (tmp_path / "words.txt").write_text("\n".join(WORDS * 4 + ["new"]))
    code, _, err = compare("--methods", "kernel-ce", "--steps", 1)
    assert code == 2
    assert "holds a comparison with other data; choose another --out" in err


def test_a_method_that_fails_is_a_row(compare, tmp_path, monkeypatch):
    """The others go on, and the comparison is written."""

    def fail(options, codec, part):
        if options.method == "psd":
            raise InputError("psd cannot take this")

    monkeypatch.setattr(sizing, "_check_method", fail)
    code, out, err = compare("--methods", "psd", "kernel-ce", "--steps", 1)
    assert code == 0, err
    assert "psd: psd cannot take this" in out
    methods = read(tmp_path)["methods"]
    assert methods["psd"] == {"failed": "psd cannot take this"}
    assert list(methods["kernel-ce"]["steps"]) == ["1"]


def test_too_few_held_out_records_are_refused_first(compare, tmp_path):
    code, _, err = compare("--held-out", 2)
    assert code == 2
    assert "2 held-out records are too few" in err
    assert not (tmp_path / "out").exists()


def test_scores_belong_to_weights(compare, tmp_path):
    compare("--methods", "kernel-ce", "--steps", 1)
    path = tmp_path / "out" / "kernel-ce" / "comparison.json"
    content = json.loads(path.read_text())
    content["steps"]["1"]["pair TV"], content["weights"] = 7.0, "others"
    path.write_text(json.dumps(content))
    compare("--methods", "kernel-ce", "--steps", 1)
    assert read(tmp_path)["methods"]["kernel-ce"]["steps"]["1"]["pair TV"] <= 1
    path.write_text('{"steps": []}')
    code, _, err = compare("--methods", "kernel-ce", "--steps", 1)
    assert code == 2
    assert "is damaged; delete it" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--methods", "best"), "unknown method 'best'; known: one-step"),
        (("--methods", "psd", "psd"), "methods must be distinct, got psd psd"),
        (("--steps", 0), "steps must be at least 1, got 0"),
        (("--steps", 2, 2), "steps must be distinct numbers from 1, got 2 2"),
    ],
)
def test_bad_options_are_one_line(words, message, compare, tmp_path):
    code, _, err = compare(*words)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
