"""The command line: commands, exit codes, and one line for each mistake."""

import errno
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from discrete_meanflow import __version__, cli, files
from discrete_meanflow.cli import compiled_code
from discrete_meanflow.cli.exit_codes import run_guarded

DMF = [sys.executable, "-m", "discrete_meanflow"]


def dmf(*words, check=None, cwd=None):
    """Run the command in a process of its own."""
    done = subprocess.run([*DMF, *map(str, words)], capture_output=True, text=True, cwd=cwd)
    if check is not None:
        assert done.returncode == check, done.stderr + done.stdout
    return done


def in_process(monkeypatch, capsys, *words):
    """Run the command in this process, so that torch is not imported a second time."""
    monkeypatch.setattr(sys, "argv", ["dmf", *map(str, words)])
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = stop.code
    out = capsys.readouterr()
    return code, out.out, out.err


def test_help_shows_all_commands_without_importing_torch(monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    done = dmf("--help", check=0)
    assert "discrete_meanflow" in done.stderr  # the list of imports
    assert not re.search(r"\b(torch|numpy|scipy|matplotlib|rich)\b", done.stderr)
    assert all(word in done.stdout for word in ("train", "sample", "evaluate", "export", "report"))
    assert "--version" in done.stdout


def test_help_whose_reader_has_left_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "discrete_meanflow", "--help"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_option_prints_the_version():
    assert dmf("--version", check=0).stdout == f"dmf {__version__}\n"


def test_commands_of_other_packages_load_only_when_needed(monkeypatch, capsys):
    @dataclass(frozen=True)
    class Hello:
        """Greet."""

        name: str = "you"

        def __call__(self):
            print(f"hello {self.name}")

    loaded = []

    class Entry:
        name, value = "hello", "nowhere:Hello"

        def load(self):
            loaded.append(self.name)
            return Hello

    missing = EntryPoint("gone", "not_installed_anywhere:Gone", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group: [Entry(), missing])
    code, _, err = in_process(monkeypatch, capsys, "train", "--help")
    assert (code, loaded) == (0, []), err
    assert in_process(monkeypatch, capsys, "hello", "--name", "me")[1] == "hello me\n"
    code, out, _ = in_process(monkeypatch, capsys, "--help")
    assert code == 0
    assert "hello" in out
    assert "gone" not in out
    code, _, err = in_process(monkeypatch, capsys, "gone")
    assert (code, err) == (2, "dmf: cannot import not_installed_anywhere, which provides 'gone'\n")
    code, _, err = in_process(monkeypatch, capsys, "invent")
    known = "train, sample, fill, evaluate, compare, report, export, explore, hello, gone."
    assert code == 2
    assert err.startswith(f"dmf: unknown command 'invent'; known: {known}")
    assert err.count("\n") == 1


def test_waiting_threads_sleep_soon_unless_the_user_says_otherwise():
    code = "import os, sys; {}from discrete_meanflow import cli; sys.argv[1:] = ['--version']; "
    code += "sys.exit = str; cli.main(); print(os.environ.get('GOMP_SPINCOUNT'))"
    environ = {key: value for key, value in os.environ.items() if "GOMP" not in key}
    for before, more, spins in (
        ("", {}, "3000"),
        ("", {"GOMP_SPINCOUNT": "5"}, "5"),
        ("", {"OMP_WAIT_POLICY": "active"}, "None"),
        ("sys.modules['torch'] = sys; ", {}, "None"),
    ):
        line = [sys.executable, "-c", code.format(before)]
        done = subprocess.run(line, capture_output=True, text=True, env=environ | more, check=True)
        assert done.stdout.split()[-1] == spins


def test_compiled_code_is_kept_in_the_users_cache_folder(tmp_path, monkeypatch):
    home, caches, name = tmp_path / "home", tmp_path / "caches", "TORCHINDUCTOR_CACHE_DIR"
    home.mkdir()
    inside = f"discrete-meanflow/inductor-{compiled_code.processor()}"
    kept, file = str(caches / inside), tmp_path / "file"
    file.write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    for caches_home, before, folder in (
        (str(caches), None, kept),
        (str(caches), "mine", "mine"),
        ("", None, str(home / ".cache" / inside)),
        (str(file), None, None),
        (str(tmp_path / "link"), None, None),
    ):
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("XDG_CACHE_HOME", caches_home)
        monkeypatch.setenv(name, before or "")
        if before is None:
            monkeypatch.delenv(name)
        monkeypatch.setattr(sys, "argv", ["dmf", "--version"])
        with pytest.raises(SystemExit):
            cli.main()
        assert os.environ.get(name) == folder
    assert not caches.exists()  # only PyTorch creates it


def test_compiled_code_of_another_user_is_not_used(tmp_path, monkeypatch):
    assert compiled_code.is_ours(str(tmp_path / "new" / "folder"))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert not compiled_code.is_ours(str(tmp_path / "new" / "folder"))
    monkeypatch.undo()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert not compiled_code.is_ours(str(tmp_path / "new" / "folder"))


def test_each_kind_of_processor_has_its_own_code(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled_code, "PROCESSORS", tmp_path / "cpuinfo")
    names = {compiled_code.processor()}
    for flags in ("flags : avx2", "flags : avx2 amx", "Features : sve"):
        compiled_code.PROCESSORS.write_text(f"processor : 0\n{flags}\nprocessor : 1\n{flags}\n")
        names.add(compiled_code.processor())
    assert len(names) == 4


def test_missing_argument_is_one_line(monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, "evaluate")
    assert (code, err.count("\n")) == (2, 1)
    assert "dmf: Missing from dmf evaluate: RUN Run folder" in err


def test_internal_error_is_not_reported_as_bad_input(monkeypatch, capsys):
    def broken(self):
        raise KeyError("surprise")

    monkeypatch.setattr(cli.Export, "__call__", broken)
    code, _, err = in_process(monkeypatch, capsys, "export", "run", "--onnx", "graph.onnx")
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
def test_lack_of_memory_is_one_line(error, monkeypatch, capsys):
    def large(self):
        raise error

    monkeypatch.setattr(cli.Export, "__call__", large)
    code, _, err = in_process(monkeypatch, capsys, "export", "run", "--onnx", "graph.onnx")
    assert (code, err.count("\n")) == (2, 1)
    assert "smaller --batch" in err


def test_terminated_command_removes_its_temporary_files(tmp_path, capsys):
    """SIGTERM acts like Ctrl-C, and its handler is restored."""
    before = signal.getsignal(signal.SIGTERM)

    def write():
        with files.replace_atomically(tmp_path / "a.txt") as partial:
            partial.write_text("half")
            os.kill(os.getpid(), signal.SIGTERM)

    assert run_guarded(write) == 130
    assert capsys.readouterr().err == "dmf: stopped at once.\n"  # there is nothing to resume
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before
