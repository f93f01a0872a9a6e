"""The command as its users meet it: results, resume, and one line for each mistake."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from discrete_meanflow import __version__, cli, files
from discrete_meanflow.guard import run_guarded

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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "mean-rate", "--device", "tpu"], "invalid choice"),
        (["reproduce", "mean-rate", "--seeds", "x"], "--seeds"),
        (["invent"], "dmf: Unrecognized options: invent; Available subcommands: train, sample"),
        (["sample"], "dmf: Missing from dmf sample: RUN The run folder"),
    ],
)
def test_bad_input_is_one_line(words, message, monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, *words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


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
