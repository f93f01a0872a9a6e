"""The commands that reproduce the paper: results, resume, and one line for each mistake."""

import json
import os
import re
import shutil
import signal
import subprocess
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
from test_cli import DMF, dmf, in_process


def test_list_shows_every_experiment_and_claim(monkeypatch, capsys):
    code, out, _ = in_process(monkeypatch, capsys, "list")
    assert code == 0
    text = " ".join(out.split())
    for name, experiment in catalog.EXPERIMENTS.items():
        assert name in text
        assert all(" ".join(p.split()) in text for p in experiment.claims_summary)


@pytest.mark.parametrize("name", catalog.EXPERIMENTS)
def test_experiment_runs_at_toy_scale(name, tmp_path, monkeypatch, capsys, small_data):
    words = ("reproduce", name, "--scale", "toy", "--seeds", 7, "--device", "cpu", "--jobs", 1,
             "--data", small_data)  # fmt: skip
    code, _, err = in_process(monkeypatch, capsys, *words, "--out", tmp_path)
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


def test_finished_run_is_read_and_drawn_again(tmp_path, monkeypatch, capsys):
    words = ("reproduce", "mean-rate", "--seeds", 7, "--device", "cpu")
    assert in_process(monkeypatch, capsys, *words, "--out", tmp_path)[0] == 0
    before = (tmp_path / "results.json").stat().st_mtime_ns
    code, out, _ = in_process(monkeypatch, capsys, *words, "--out", tmp_path)
    assert code == 0
    assert "finished earlier" in out
    assert (tmp_path / "results.json").stat().st_mtime_ns == before
    # Other settings never overwrite it.
    other = [w if w != 7 else 8 for w in words]
    code, _, err = in_process(monkeypatch, capsys, *other, "--out", tmp_path)
    assert code == 2
    assert re.search("holds a run with other seeds.*choose another --out", err)
    # Figures can be drawn again from the record alone.
    code, _, _ = in_process(monkeypatch, capsys, "draw", tmp_path, "--page", tmp_path / "p.html")
    assert code == 0
    assert "data:image/png;base64" in (tmp_path / "p.html").read_text()


def test_demo_writes_a_page(tmp_path):
    done = dmf("demo", "--scale", "toy", check=0, cwd=tmp_path)
    page = (tmp_path / "demo" / "index.html").read_text()
    assert page.count("data:image/png;base64") == 6
    assert "http" not in re.sub(r"data:image/png;base64,[^']*", "", page)
    assert "paper" in done.stdout
    mine = tmp_path / "demo" / "thesis.txt"
    mine.write_text("not the demo's")
    dmf("demo", "--scale", "toy", check=0, cwd=tmp_path)  # a second demo is not refused
    assert mine.read_text() == "not the demo's"


def test_demo_leaves_another_run_untouched(tmp_path, monkeypatch, capsys):
    words = ("reproduce", "mean-rate", "--device", "cpu", "--out", tmp_path)
    assert in_process(monkeypatch, capsys, *words)[0] == 0
    code, _, err = in_process(monkeypatch, capsys, "demo", "--scale", "toy", "--out", tmp_path)
    assert code == 2
    assert "holds a run with other experiment" in err
    assert (tmp_path / "results.json").exists()


def spec(folder, name="time-sampler-ablation", jobs=1):
    return RunSpec(name, (7, 8), "cpu", Scale.toy, folder, jobs)


def measured(results):
    return {name: part["measurements"] for name, part in results["cells"].items()}


def test_interrupted_run_gives_the_same_results(tmp_path, monkeypatch):
    whole = reproduce(spec(tmp_path / "whole"), lambda event: None)

    def interrupt(event):
        if event.name == "logit-normal(0, 1)" and event.iteration == 10:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        reproduce(spec(tmp_path / "cut"), interrupt)
    assert not (tmp_path / "cut" / "results.json").exists()
    started = []
    resumed = reproduce(
        spec(tmp_path / "cut"), lambda event: started.append((event.name, event.iteration))
    )
    assert started[0] == ("logit-normal(0, 1)", 15)
    assert measured(resumed) == measured(whole)


def test_several_processes_measure_the_same_as_one(tmp_path):
    events = []
    one = reproduce(spec(tmp_path / "one"), lambda event: None)
    spread = reproduce(spec(tmp_path / "spread", jobs=2), events.append)
    assert {event.name for event in events} == set(spread["cells"])
    # Another number of threads rounds differently, so the match is close, not exact.
    for name, part in measured(one).items():
        for a, b in zip(part, measured(spread)[name], strict=True):
            assert a["max_error"] == pytest.approx(b["max_error"], rel=1e-3)


def test_parts_of_a_run_merge_to_the_whole_run(tmp_path, monkeypatch, capsys):
    """Parts made apart (on two machines, say) and put into one folder make the same results."""
    whole = reproduce(spec(tmp_path / "whole"), lambda event: None)
    for where, text in (("here", "uniform"), ("there", "logit")):
        part = replace(spec(tmp_path / where), only=text)
        assert reproduce(part, lambda event: None) is None
    for found in (tmp_path / "there" / "parts").glob("*.json"):
        shutil.copy(found, tmp_path / "here" / "parts")
    foreign = tmp_path / "here" / "parts" / "logit-normal_0__1_.json"
    kept = foreign.read_text()
    foreign.write_text(kept.replace('"batch": 256', '"batch": 128'))
    with pytest.raises(InputError, match="other settings; delete it"):
        reproduce(spec(tmp_path / "here"), lambda event: None)
    foreign.write_text(kept)
    trained = []
    merged = reproduce(spec(tmp_path / "here"), trained.append)
    assert not trained
    assert measured(merged) == measured(whole)
    code, _, err = in_process(
        monkeypatch, capsys, "reproduce", "time-sampler-ablation", "--only", "x", "--out", tmp_path
    )
    assert code == 2
    assert "no cell of time-sampler-ablation holds 'x': uniform;" in err


def test_cells_of_another_experiment_are_reused(tmp_path):
    """multi-step shares its cells with objective-comparison; hybrid-sweep some, for one seed."""

    def make(name, only=""):
        trained = set()
        wanted = RunSpec(name, (7, 8), "cpu", Scale.toy, tmp_path / name, 1, only)
        return reproduce(wanted, lambda event: trained.add(event.name)), trained

    make("objective-comparison", "bigram (4, 8), KR")
    results, trained = make("multi-step", "bigram")
    assert results is None
    assert trained == {"bigram (4, 8), PR"}
    _, trained = make("hybrid-sweep", "bigram (4, 8), KR")
    assert trained == {f"bigram (4, 8), KR + {weight} CE" for weight in ("0.1", "1", "10")}
    lent, got = (
        json.loads((tmp_path / name / "parts" / "bigram__4__8___KR.json").read_text())
        for name in ("objective-comparison", "hybrid-sweep")
    )
    assert got["measurements"] == lent["measurements"][:1]
    assert [row[:1] for row in lent["curve"]["loss"]] == got["curve"]["loss"]


def test_ctrl_c_while_workers_start_is_not_lost(tmp_path, monkeypatch):
    started = []

    def start_and_interrupt(process):
        BaseProcess.start(process)
        started.append(process)
        if len(started) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(SpawnProcess, "start", start_and_interrupt)
    with pytest.raises(Interrupted):
        reproduce(spec(tmp_path, jobs=2), lambda event: None)
    assert len(started) == 2
    assert not any(process.is_alive() for process in started)


@pytest.mark.parametrize("early", [True, False], ids=["while workers start", "while they train"])
def test_ctrl_c_stops_workers_and_saves_the_run(early, tmp_path):
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
    assert "To resume: run the same command again" in err
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
        (["reproduce", "mean-rate", "--device", "tpu"], "invalid choice"),
        (["reproduce", "mean-rate", "--seeds", "x"], "--seeds"),
        (["draw", "/nowhere"], "no readable results.json"),
    ],
)
def test_bad_input_of_reproduction_is_one_line(words, message, monkeypatch, capsys):
    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_damaged_checkpoint_of_a_cell_is_one_line(tmp_path, monkeypatch, capsys):
    def interrupt(event):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        reproduce(spec(tmp_path), interrupt)
    (saved,) = (tmp_path / "parts").glob("*.safetensors")
    saved.write_bytes(b"garbage")
    words = ["reproduce", "time-sampler-ablation", "--seeds", 7, 8, "--scale", "toy"]
    code, _, err = in_process(
        monkeypatch, capsys, *words, "--device", "cpu", "--jobs", 1, "--out", tmp_path
    )
    assert code == 2
    assert "is damaged or foreign" in err
    assert "cell 'uniform'" in err


def test_reproduce_help_shows_the_default_seeds():
    assert "default: 42 123 2024" in dmf("reproduce", "--help", check=0).stdout
