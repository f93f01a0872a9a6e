"""The record of a training, and the note that warns of poor samples."""

import json
import math
import os
import shutil
import signal
import warnings

import pytest
import torch
from hypothesis import given, settings, strategies as st

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import Interrupted
from discrete_meanflow.model import run_folder as run, training_record
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.model.training_record import Scores, sampling_note
from own_records import prepared, train_run
from test_cli import in_process

rows = st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=30)


@settings(max_examples=100, deadline=None)
@given(rows, st.randoms(use_true_random=False))
def test_scores_compare_records_in_any_order(records, random):
    shuffled = random.sample(records, len(records))
    data = torch.tensor(records, dtype=torch.uint8)
    same = Scores.of(torch.tensor(shuffled), data)
    assert math.isclose(same.symbol_tv, 0, abs_tol=1e-12)
    assert same.distinct == len({tuple(row) for row in records}) / len(records)
    assert not same.are_poor(same)
    assert math.isclose(Scores.of(data + 4, data).symbol_tv, 1)
    once = Scores.of(data[:1].expand(len(data), -1), data)
    expected = sum(sum(a != b for a, b in zip(row, records[0], strict=True)) for row in records)
    assert math.isclose(once.symbol_tv, expected / data.numel(), abs_tol=1e-12)
    assert once.are_poor(same) == (once.symbol_tv > 0.2 or 1 / len(data) < same.distinct / 2)


@pytest.fixture
def copied(trained, tmp_path):
    """A run that was trained too little; a test may change it."""
    OneStepModel.load(trained / "lines", "cpu").save(tmp_path / "run")
    return tmp_path / "run"


def note_of(folder, steps=1):
    return sampling_note(folder, run.read_config(folder), steps)


def measure(folder, monkeypatch, good_from):
    """Write the record of a perfect generator from a number of steps on, collapsed below."""
    config = run.read_config(folder)
    train = read_tokens(folder / run.TRAIN, config.codec)

    def sampled(kernel, config, options):
        yield train[:1].expand(options.n, -1) if options.steps < good_from else train[: options.n]

    monkeypatch.setattr(training_record, "sample_tokens", sampled)
    training_record.write_training_record(folder, None, config, train, {})
    return json.loads((folder / run.TRAINING).read_text())


def test_poor_run_says_so_once(copied, monkeypatch, capsys):
    code, out, err = in_process(monkeypatch, capsys, "sample", copied, "-n", 4)
    assert (code, len(out.splitlines()), err.count("\n")) == (0, 4, 1)
    assert err.startswith(f"note: samples of {copied} are poor after 20 training steps: ")
    assert "train longer, with dmf train FILE --minutes N --out NEW" in err
    model = OneStepModel.load(copied, "cpu")
    with pytest.warns(UserWarning, match="are poor after 20 training steps"):
        model.sample(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.sample(2)


def test_training_prints_the_note_at_its_end(tmp_path, monkeypatch, capsys):
    folder = prepared(tmp_path / "a run")
    code, out, _ = in_process(monkeypatch, capsys, "train", "--resume", folder, "--device", "cpu")
    assert code == 0
    *_, note, last = out.splitlines()
    assert note == f"note: {note_of(folder)}"
    assert last == f"trained: {folder}; next: dmf sample '{folder}'"


def test_advice_depends_on_the_steps_that_help(copied, monkeypatch):
    assert set(measure(copied, monkeypatch, good_from=1)["samples"]) == {"1"}
    assert note_of(copied) is None
    assert set(measure(copied, monkeypatch, good_from=16)["samples"]) == {"1", "16"}
    assert all("or sample with --steps 16" in note_of(copied, steps) for steps in (1, 4))
    assert note_of(copied, 16) is None
    record = measure(copied, monkeypatch, good_from=99)
    assert record["samples"]["16"]["distinct"] == 1 / record["records"]
    assert "--steps" not in note_of(copied, 1)
    assert note_of(copied, 16) is not None


numbers = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
scores = st.fixed_dictionaries({"symbol_tv": numbers, "distinct": numbers}) | numbers
records = st.fixed_dictionaries(
    {},
    optional={
        "data": scores,
        "samples": st.dictionaries(st.sampled_from(["1", "16", "x", ""]), scores) | numbers,
    },
)


@settings(max_examples=200, deadline=None)
@given(content=records.map(json.dumps) | st.text(max_size=20))
def test_damaged_record_does_not_matter(content, trained):
    """Any content gives a note or none, never an error."""
    config = run.read_config(trained / "lines")
    path = trained / "record" / run.TRAINING
    path.parent.mkdir(exist_ok=True)
    (path.parent / run.WEIGHTS).touch()
    path.write_text(content, errors="surrogatepass")
    note = sampling_note(path.parent, config)
    assert note is None or "nan" not in note


@pytest.mark.parametrize("what", ["missing", "pipe", "folder"])
def test_run_without_a_record_has_no_note(what, copied, monkeypatch, capsys):
    path = copied / run.TRAINING
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    code, _, err = in_process(monkeypatch, capsys, "sample", copied, "-n", 2)
    assert (code, err) == (0, "")


def test_record_belongs_to_the_run(copied, tmp_path):
    """It is copied, and a run that was killed before its weights writes it again."""
    before = (copied / run.TRAINING).read_bytes()
    OneStepModel.load(copied, "cpu").save(tmp_path / "copy")
    assert (tmp_path / "copy" / run.TRAINING).read_bytes() == before
    (copied / run.WEIGHTS).unlink()
    (copied / run.TRAINING).write_text("half")
    train_run(copied)
    assert (copied / run.TRAINING).read_bytes() == before
    assert (copied / run.WEIGHTS).exists()


@pytest.mark.parametrize(
    ("stage", "options", "advised"),
    [
        (1, ("--steps", 1), "use --steps 16\n"),
        (1, ("--steps", 16), None),
        (1, ("--steps", 16, "--refine"), "use --steps 16 without --refine\n"),
        (2, ("--steps", 1), None),
        (3, ("--steps", 1), None),
    ],
)
def test_unfinished_run_says_so(stage, options, advised, tmp_path, monkeypatch, capsys):
    folder = prepared(tmp_path / "run", student_steps=200, matching_steps=200)

    def stop(event):
        if event.loss is not None and event.iteration > (0, 20, 220)[stage - 1]:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train_run(folder, stop)
    capsys.readouterr()
    words = ("sample", folder, "-n", 1, "--from-checkpoint", *options)
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert (code, err.count("\n")) == (0, 1)
    done = (20, 120, 320)[stage - 1]
    assert f"training of {folder} is not finished ({done} of 420 steps)" in err
    assert err.endswith(advised) if advised else "use --steps" not in err
    shutil.rmtree(folder)
