"""The command as its users meet it: results, resume, and one line for each mistake."""

import errno
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
from pathlib import Path

import pytest
import torch

from discrete_meanflow import __version__, cli, files
from discrete_meanflow.errors import InputError, Interrupted
from discrete_meanflow.guard import run_guarded
from dmf_reproduction import catalog
from dmf_reproduction.engine.experiment import Scale
from dmf_reproduction.engine.run import reproduce
from dmf_reproduction.engine.spec import RunSpec

DMF = [sys.executable, "-m", "discrete_meanflow"]


def dmf(*words, check=None, cwd=None):
    done = subprocess.run([*DMF, *map(str, words)], capture_output=True, text=True, cwd=cwd)
    if check is not None:
        assert done.returncode == check, done.stderr + done.stdout
    return done


def in_process(monkeypatch, capsys, *words):
    """Run the command here, so that a test costs no second import of torch."""
    monkeypatch.setattr(sys, "argv", ["dmf", *map(str, words)])
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = stop.code
    out = capsys.readouterr()
    return code, out.out, out.err


def test_help_says_what_there_is_and_waits_for_no_torch(monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    done = dmf("--help", check=0)
    assert "discrete_meanflow" in done.stderr  # what was imported
    assert not re.search(r"\b(torch|numpy|scipy|matplotlib|rich)\b", done.stderr)
    assert all(word in done.stdout for word in ("list", "reproduce", "demo", "draw"))
    out = dmf("reproduce", "--help", check=0).stdout
    assert "default: 42 123 2024" in out


def test_the_version_is_told():
    assert dmf("--version", check=0).stdout == f"dmf {__version__}\n"


def test_threads_that_wait_sleep_soon_unless_torch_is_there_already_or_one_said_otherwise():
    look = "; print(os.environ.get('GOMP_SPINCOUNT'))"
    given = {key: value for key, value in os.environ.items() if "GOMP" not in key}
    for words, more, spins in (
        ("import discrete_meanflow", {}, "3000"),
        ("import discrete_meanflow", {"GOMP_SPINCOUNT": "5"}, "5"),
        ("import discrete_meanflow", {"OMP_WAIT_POLICY": "active"}, "None"),
        ("sys.modules['torch'] = sys; import discrete_meanflow", {}, "None"),
    ):
        line = [sys.executable, "-c", f"import os, sys; {words}{look}"]
        done = subprocess.run(line, capture_output=True, text=True, env=given | more, check=True)
        assert done.stdout.strip() == spins


def test_list_names_every_experiment_and_claim(monkeypatch, capsys):
    code, out, _ = in_process(monkeypatch, capsys, "list")
    assert code == 0
    text = " ".join(out.split())
    for name, experiment in catalog.EXPERIMENTS.items():
        assert name in text
        assert all(" ".join(p.split()) in text for p in experiment.claims_summary)


@pytest.mark.parametrize("name", catalog.EXPERIMENTS)
def test_every_experiment_runs_at_toy_size(name, tmp_path, monkeypatch, capsys, small_data):
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


def test_a_finished_run_is_read_and_drawn_again(tmp_path, monkeypatch, capsys):
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


def test_demo_ends_with_a_page(tmp_path):
    done = dmf("demo", "--scale", "toy", check=0, cwd=tmp_path)
    page = (tmp_path / "demo" / "index.html").read_text()
    assert page.count("data:image/png;base64") == 6
    assert "http" not in re.sub(r"data:image/png;base64,[^']*", "", page)
    assert "paper" in done.stdout
    mine = tmp_path / "demo" / "thesis.txt"
    mine.write_text("not the demo's")
    dmf("demo", "--scale", "toy", check=0, cwd=tmp_path)  # a second demo is not refused
    assert mine.read_text() == "not the demo's"


def test_the_demo_does_not_touch_another_run(tmp_path, monkeypatch, capsys):
    words = ("reproduce", "mean-rate", "--device", "cpu", "--out", tmp_path)
    assert in_process(monkeypatch, capsys, *words)[0] == 0
    code, _, err = in_process(monkeypatch, capsys, "demo", "--scale", "toy", "--out", tmp_path)
    assert code == 2
    assert "holds a run with other experiment" in err
    assert (tmp_path / "results.json").exists()


def order(folder, name="time-sampler-ablation", jobs=1):
    return RunSpec(name, (7, 8), "cpu", Scale.toy, folder, jobs)


def measured(results):
    return {name: part["measurements"] for name, part in results["cells"].items()}


def test_an_interrupted_run_ends_as_if_it_was_not(tmp_path, monkeypatch):
    whole = reproduce(order(tmp_path / "whole"), lambda news: None)

    def interrupt(news):
        if news.cell == "logit-normal(0, 1)" and news.iteration == 10:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        reproduce(order(tmp_path / "cut"), interrupt)
    assert not (tmp_path / "cut" / "results.json").exists()
    started = []
    resumed = reproduce(
        order(tmp_path / "cut"), lambda news: started.append((news.cell, news.iteration))
    )
    assert started[0] == ("logit-normal(0, 1)", 15)
    assert measured(resumed) == measured(whole)


def test_processes_measure_what_one_process_does(tmp_path):
    news = []
    one = reproduce(order(tmp_path / "one"), lambda news: None)
    spread = reproduce(order(tmp_path / "spread", jobs=2), news.append)
    assert {n.cell for n in news} == set(spread["cells"])
    # Another number of threads rounds differently, so the match is close, not exact.
    for name, part in measured(one).items():
        for a, b in zip(part, measured(spread)[name], strict=True):
            assert a["max_error"] == pytest.approx(b["max_error"], rel=1e-3)


def test_a_run_in_parts_is_the_run(tmp_path, monkeypatch, capsys):
    """Parts made apart (on two machines, say) and put into one folder make the same results."""
    whole = reproduce(order(tmp_path / "whole"), lambda news: None)
    for where, text in (("here", "uniform"), ("there", "logit")):
        part = replace(order(tmp_path / where), only=text)
        assert reproduce(part, lambda news: None) is None
    for found in (tmp_path / "there" / "parts").glob("*.json"):
        shutil.copy(found, tmp_path / "here" / "parts")
    foreign = tmp_path / "here" / "parts" / "logit-normal_0__1_.json"
    kept = foreign.read_text()
    foreign.write_text(kept.replace('"batch": 256', '"batch": 128'))
    with pytest.raises(InputError, match="other settings; delete it"):
        reproduce(order(tmp_path / "here"), lambda news: None)
    foreign.write_text(kept)
    trained = []
    merged = reproduce(order(tmp_path / "here"), trained.append)
    assert not trained
    assert measured(merged) == measured(whole)
    code, _, err = in_process(
        monkeypatch, capsys, "reproduce", "time-sampler-ablation", "--only", "x", "--out", tmp_path
    )
    assert code == 2
    assert "no cell of time-sampler-ablation holds 'x': uniform;" in err


def test_cells_that_another_experiment_has_trained_are_not_trained_again(tmp_path):
    """multi-step shares its cells with objective-comparison; hybrid-sweep some, for one seed."""

    def make(name, only=""):
        trained = set()
        wanted = RunSpec(name, (7, 8), "cpu", Scale.toy, tmp_path / name, 1, only)
        return reproduce(wanted, lambda news: trained.add(news.cell)), trained

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


def test_ctrl_c_between_the_starts_of_two_workers_is_not_lost(tmp_path, monkeypatch):
    started = []

    def start_and_interrupt(process):
        BaseProcess.start(process)
        started.append(process)
        if len(started) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(SpawnProcess, "start", start_and_interrupt)
    with pytest.raises(Interrupted):
        reproduce(order(tmp_path, jobs=2), lambda news: None)
    assert len(started) == 2
    assert not any(process.is_alive() for process in started)


@pytest.mark.parametrize("early", [True, False], ids=["while workers start", "while they train"])
def test_ctrl_c_stops_the_workers_and_the_run_goes_on(early, tmp_path):
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
    assert "To go on: run the same command again" in err
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
        (["reproduce", "mean-rate", "--jobs", "0"], "--jobs: needs at least 1"),
        (["reproduce", "mean-rate", "--device", "tpu"], "invalid choice"),
        (["reproduce", "mean-rate", "--seeds", "x"], "--seeds"),
        (["invent"], "dmf: Unrecognized options: invent; Available subcommands: train, sample"),
        (["sample"], "dmf: Missing from dmf sample: RUN The run folder"),
        (["draw", "/nowhere"], "no readable results.json"),
    ],
)
def test_bad_input_is_one_line(words, message, monkeypatch, capsys):
    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_damaged_checkpoint_is_one_line(tmp_path, monkeypatch, capsys):
    def interrupt(news):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        reproduce(order(tmp_path), interrupt)
    (saved,) = (tmp_path / "parts").glob("*.safetensors")
    saved.write_bytes(b"garbage")
    words = ["reproduce", "time-sampler-ablation", "--seeds", 7, 8, "--scale", "toy"]
    code, _, err = in_process(
        monkeypatch, capsys, *words, "--device", "cpu", "--jobs", 1, "--out", tmp_path
    )
    assert code == 2
    assert "is damaged or foreign" in err
    assert "cell 'uniform'" in err


def test_our_bug_is_not_dressed_up_as_bad_input(monkeypatch, capsys):
    def broken(self):
        raise KeyError("surprise")

    monkeypatch.setattr(cli.List, "__call__", broken)
    code, _, err = in_process(monkeypatch, capsys, "list")
    assert code == 70
    log = Path(re.search(r"see (\S+)", err).group(1))
    assert "KeyError: 'surprise'" in log.read_text()
    assert "Traceback" not in err
    log.unlink()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate ..."),
        RuntimeError("CUDA error: out of memory"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_too_little_memory_is_told(error, monkeypatch, capsys):
    def large(self):
        raise error

    monkeypatch.setattr(cli.List, "__call__", large)
    code, _, err = in_process(monkeypatch, capsys, "list")
    assert (code, err.count("\n")) == (2, 1)
    assert "smaller --batch" in err


def test_a_command_that_is_terminated_clears_away_what_it_began(tmp_path, capsys):
    """As it does at Ctrl-C; and the process that it ran in is as before."""
    before = signal.getsignal(signal.SIGTERM)

    def write():
        with files.replace_atomically(tmp_path / "a.txt") as partial:
            partial.write_text("half")
            os.kill(os.getpid(), signal.SIGTERM)

    assert run_guarded(write) == 130
    assert capsys.readouterr().err == "dmf: stopped at once.\n"  # with nothing to go on from
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before
