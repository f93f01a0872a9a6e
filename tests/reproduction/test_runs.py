"""The commands that reproduce the paper: results, resuming, and one line for each mistake."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess

import pytest
import torch

from discrete_meanflow.errors import InputError, Interrupted
from dmf_reproduction import catalog
from dmf_reproduction.engine.experiment import Scale
from dmf_reproduction.engine.run import reproduce
from dmf_reproduction.engine.spec import RunSpec

DMF = [sys.executable, "-m", "discrete_meanflow"]


def dmf(*words, cwd=None):
    done = subprocess.run([*DMF, *map(str, words)], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr + done.stdout
    return done


def spec(folder, name="time-sampler-ablation", jobs=1):
    return RunSpec(name, (7, 8), "cpu", Scale.toy, folder, jobs)


def measurements(results):
    return {name: part["measurements"] for name, part in results["cells"].items()}


def ignore(event):
    pass


# -- commands ---------------------------------------------------------------------------


def test_help_loads_no_torch(monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    done = dmf("--help")
    assert not re.search(r"\b(torch|numpy|scipy|matplotlib|rich)\b", done.stderr)
    assert all(word in done.stdout for word in ("list", "reproduce", "demo", "draw"))
    assert "default: 42 123 2024" in dmf("reproduce", "--help").stdout


def test_list_names_every_experiment_and_claim(command):
    code, out, _ = command("list")
    assert code == 0
    text = " ".join(out.split())
    for name, experiment in catalog.EXPERIMENTS.items():
        assert name in text
        assert all(" ".join(summary.split()) in text for summary in experiment.claims_summary)


@pytest.mark.parametrize("name", catalog.EXPERIMENTS)
def test_every_experiment_runs_at_toy_scale(name, tmp_path, command, small_data):
    words = ("reproduce", name, "--scale", "toy", "--seeds", 7, "--device", "cpu", "--jobs", 1,
             "--data", small_data)  # fmt: skip
    code, _, err = command(*words, "--out", tmp_path)
    assert code == 0, err
    results = json.loads((tmp_path / "results.json").read_text())
    assert list(tmp_path.glob("*.png"))
    assert results["seeds"] == [7]
    assert results["versions"]["torch"]
    for claim in results["claims"]:
        assert set(claim) == {"id", "text", "where", "paper", "ours", "holds"}
        assert isinstance(claim["holds"], bool)
    again = catalog.find(name).claims(results["facts"], results["cells"])
    assert [claim.describe() for claim in again] == results["claims"]


def test_finished_run_is_read_and_redrawn(tmp_path, command):
    words = ("reproduce", "mean-rate", "--seeds", 7, "--device", "cpu")
    assert command(*words, "--out", tmp_path)[0] == 0
    before = (tmp_path / "results.json").stat().st_mtime_ns
    code, out, _ = command(*words, "--out", tmp_path)
    assert code == 0
    assert "already finished" in out
    assert (tmp_path / "results.json").stat().st_mtime_ns == before
    # Other settings never overwrite it.
    other = [w if w != 7 else 8 for w in words]
    code, _, err = command(*other, "--out", tmp_path)
    assert code == 2
    assert re.search("holds a run with other seeds.*choose another --out", err)
    # Figures can be redrawn from the record alone.
    code, _, _ = command("draw", tmp_path, "--page", tmp_path / "p.html")
    assert code == 0
    assert "data:image/png;base64" in (tmp_path / "p.html").read_text()


def test_demo_writes_a_page_and_can_run_again(tmp_path):
    done = dmf("demo", "--scale", "toy", cwd=tmp_path)
    page = (tmp_path / "demo" / "index.html").read_text()
    assert page.count("data:image/png;base64") == 6
    assert "://" not in re.sub(r"data:image/png;base64,[^\"]*", "", page)
    assert "paper" in done.stdout
    mine = tmp_path / "demo" / "thesis.txt"
    mine.write_text("not a file of the demo")
    dmf("demo", "--scale", "toy", cwd=tmp_path)
    assert mine.read_text() == "not a file of the demo"


def test_demo_does_not_touch_another_run(tmp_path, command):
    assert command("reproduce", "mean-rate", "--device", "cpu", "--out", tmp_path)[0] == 0
    code, _, err = command("demo", "--scale", "toy", "--out", tmp_path)
    assert code == 2
    assert "holds a run with other experiment" in err
    assert (tmp_path / "results.json").exists()


# -- resuming, merging and reusing runs -------------------------------------------------


def test_interrupted_run_resumes_to_the_same_result(tmp_path):
    whole = reproduce(spec(tmp_path / "whole"), ignore)

    def interrupt(event):
        if event.name == "logit-normal(0, 1)" and event.iteration == 10:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        reproduce(spec(tmp_path / "cut"), interrupt)
    assert not (tmp_path / "cut" / "results.json").exists()
    events = []
    resumed = reproduce(spec(tmp_path / "cut"), lambda e: events.append((e.name, e.iteration)))
    assert events[0] == ("logit-normal(0, 1)", 15)
    assert measurements(resumed) == measurements(whole)


def test_several_processes_measure_the_same_as_one(tmp_path):
    events = []
    one = reproduce(spec(tmp_path / "one"), ignore)
    spread = reproduce(spec(tmp_path / "spread", jobs=2), events.append)
    assert {event.name for event in events} == set(spread["cells"])
    # Another number of threads rounds differently, so the match is close, not exact.
    for name, part in measurements(one).items():
        for a, b in zip(part, measurements(spread)[name], strict=True):
            assert a["max_error"] == pytest.approx(b["max_error"], rel=1e-3)


def test_partial_runs_merge_to_the_whole_run(tmp_path, command):
    """Parts trained on two machines and copied into one folder give the same results."""
    whole = reproduce(spec(tmp_path / "whole"), ignore)
    for folder, text in (("here", "uniform"), ("there", "logit")):
        assert reproduce(replace(spec(tmp_path / folder), only=text), ignore) is None
    for path in (tmp_path / "there" / "parts").glob("*.json"):
        shutil.copy(path, tmp_path / "here" / "parts")
    foreign = tmp_path / "here" / "parts" / "logit-normal_0__1_.json"
    original = foreign.read_text()
    foreign.write_text(original.replace('"batch": 256', '"batch": 128'))
    with pytest.raises(InputError, match="other settings; delete it"):
        reproduce(spec(tmp_path / "here"), ignore)
    foreign.write_text(original)
    trained = []
    merged = reproduce(spec(tmp_path / "here"), trained.append)
    assert not trained
    assert measurements(merged) == measurements(whole)
    code, _, err = command("reproduce", "time-sampler-ablation", "--only", "x", "--out", tmp_path)
    assert code == 2
    assert "no cell of time-sampler-ablation contains 'x'; its cells: uniform;" in err


def test_cells_of_another_experiment_are_reused(tmp_path):
    """multi-step shares cells with objective-comparison; hybrid-sweep too, for one seed."""

    def make(name, only=""):
        trained = set()
        run = RunSpec(name, (7, 8), "cpu", Scale.toy, tmp_path / name, 1, only)
        return reproduce(run, lambda event: trained.add(event.name)), trained

    make("objective-comparison", "bigram (4, 8), KR")
    results, trained = make("multi-step", "bigram")
    assert results is None
    assert trained == {"bigram (4, 8), PR"}
    _, trained = make("hybrid-sweep", "bigram (4, 8), KR")
    assert trained == {f"bigram (4, 8), KR + {weight} CE" for weight in ("0.1", "1", "10")}
    lent, reused = (
        json.loads((tmp_path / name / "parts" / "bigram__4__8___KR.json").read_text())
        for name in ("objective-comparison", "hybrid-sweep")
    )
    assert reused["measurements"] == lent["measurements"][:1]
    assert [row[:1] for row in lent["curve"]["loss"]] == reused["curve"]["loss"]


# -- interruptions and mistakes ---------------------------------------------------------


def test_ctrl_c_between_the_starts_of_two_workers_is_kept(tmp_path, monkeypatch):
    started = []

    def start_and_interrupt(process):
        BaseProcess.start(process)
        started.append(process)
        if len(started) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(SpawnProcess, "start", start_and_interrupt)
    with pytest.raises(Interrupted):
        reproduce(spec(tmp_path, jobs=2), ignore)
    assert len(started) == 2
    assert not any(process.is_alive() for process in started)


def test_worker_that_dies_ends_the_run(tmp_path, monkeypatch):
    started = []

    def start_and_kill(process):
        BaseProcess.start(process)
        started.append(process)
        if len(started) == 1:
            process.kill()

    monkeypatch.setattr(SpawnProcess, "start", start_and_kill)
    with pytest.raises(RuntimeError, match="a worker ended with exit code -9"):
        reproduce(spec(tmp_path, jobs=2), ignore)
    assert not any(process.is_alive() for process in started)


@pytest.mark.parametrize("early", [True, False], ids=["while workers start", "while they train"])
def test_ctrl_c_stops_the_workers_and_keeps_the_run(early, tmp_path):
    run = tmp_path / "run"
    words = [*DMF, "reproduce", "time-sampler-ablation", "--device", "cpu", "--out", str(run)]
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    awaited = (run / "settings.json") if early else (run / "parts" / "uniform.safetensors")
    deadline = time.monotonic() + 200
    while not awaited.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "run the same command again" in err
    assert "Traceback" not in err
    assert not (run / "results.json").exists()
    assert early or (run / "parts" / "uniform.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "nothing"], "unknown experiment 'nothing'; known: exact-recovery"),
        (["reproduce"], "name an experiment"),
        (["reproduce", "mean-rate", "--seeds", "1", "1"], "distinct seeds"),
        (["reproduce", "mean-rate", "--seeds", "-4"], "whole number from 0"),
        (["reproduce", "time-sampler-ablation", "--device", "cuda"], "no CUDA device"),
        (["reproduce", "paper", "--only", "nowhere"], "no cell of exact-recovery"),
        (["reproduce", "mean-rate", "--out", "/proc/nowhere/x"], "cannot write to"),
        (["reproduce", "mean-rate", "--jobs", "0"], "--jobs must be at least 1"),
        (["reproduce", "joint-names"], "give its folder with --data DIR"),
        (["draw", "/nowhere"], "no readable results.json"),
    ],
)
def test_bad_input_gives_one_line(words, message, command):
    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    code, _, err = command(*words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_damaged_checkpoint_gives_one_line(tmp_path, command):
    def interrupt(event):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        reproduce(spec(tmp_path), interrupt)
    (checkpoint,) = (tmp_path / "parts").glob("*.safetensors")
    checkpoint.write_bytes(b"garbage")
    words = ["reproduce", "time-sampler-ablation", "--seeds", 7, 8, "--scale", "toy"]
    code, _, err = command(*words, "--device", "cpu", "--jobs", 1, "--out", tmp_path)
    assert code == 2
    assert "is damaged or foreign" in err
    assert "cell 'uniform'" in err
