"""Outputs: plain files are replaced, links followed, devices and pipes written into."""

import gzip
import io
import os
import signal
import stat
import sys
import tempfile
import threading
from pathlib import Path

import numpy
import onnx
import pytest
from hypothesis import given, settings, strategies as st
from safetensors.torch import load_file

from discrete_meanflow import OneStepModel
from discrete_meanflow.cli.exit_codes import run_guarded
from discrete_meanflow.errors import InputError
from discrete_meanflow.files import open_output, output_path, write_atomically
from discrete_meanflow.io.write import text_writer
from own_records import train_by_command, train_run, write
from test_cli import in_process

pytestmark = pytest.mark.skipif(os.name != "posix", reason="has no pipes and links")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes devices"
)

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def link_to_descriptor(folder, number):
    """A link as /dev/stdout is one. A test of the real one could replace it, as root."""
    path = folder / f"descriptor-{number}"
    path.symlink_to(f"/proc/self/fd/{number}")
    return path


class Reader(threading.Thread):
    """Reads a pipe to its end, or only some bytes."""

    def __init__(self, path, size=-1):
        super().__init__(daemon=True)
        self.path, self.size = path, size
        self.start()

    def run(self):
        with open(self.path, "rb", buffering=0) as file:
            self.content = file.readall() if self.size < 0 else file.read(self.size)

    def result(self):
        self.join(30)
        return self.content


def make_device(path, minor):
    """A device like /dev/null (3) or /dev/full (7), in a temporary folder."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        with open(path, "rb"):
            return path
    except OSError:
        pytest.skip("devices are not allowed here")


def streamed(path, content):
    with open_output(path) as file:
        for i in range(0, len(content), 1000):
            file.write(content[i : i + 1000])


def built(path, content):
    with output_path(path) as partial:
        partial.write_bytes(content)


def half_written(path, content):
    with open_output(path) as file:
        file.write(content)
        raise ZeroDivisionError


@settings(max_examples=60, deadline=None)
@given(
    content=st.binary(max_size=300_000),
    target=st.sampled_from(["new", "plain", "pipe"]),
    links=st.integers(0, 3),
    written=st.sampled_from([streamed, built]),
    fails=st.booleans(),
)
def test_output_reaches_its_target_and_links_stay(content, target, links, written, fails):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        end = path = folder / "end"
        if target == "plain":
            end.write_bytes(b"old")
            end.chmod(0o640)
        elif target == "pipe":
            os.mkfifo(end)
        for i in range(links):
            (folder / f"link{i}").symlink_to(path.name)
            path = folder / f"link{i}"
        before = set(os.listdir(folder))
        reader = Reader(end) if target == "pipe" else None

        if fails:
            with pytest.raises(ZeroDivisionError):
                half_written(path, content)
        else:
            written(path, content)

        assert all((folder / f"link{i}").is_symlink() for i in range(links))
        if reader is not None:
            assert reader.result() == content
            assert stat.S_ISFIFO(end.stat().st_mode)
        elif fails:
            assert end.read_bytes() == b"old" if target == "plain" else not end.exists()
        else:
            assert end.read_bytes() == content
        if target == "plain":
            assert stat.S_IMODE(end.stat().st_mode) == 0o640
        made = {"end"} if target == "new" and not fails else set()
        assert set(os.listdir(folder)) == before | made  # no temporary file


def test_bad_outputs_are_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "to folder").symlink_to("folder")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "nowhere").symlink_to("missing/file")
    for name, message in {
        "folder": "is a folder",
        "to folder": "is a folder",
        "a": "form a loop",
        "a/file": "Too many levels of symbolic links",
        "nowhere": "missing/file: No such file or directory",
    }.items():
        for written in (streamed, built):
            with pytest.raises(InputError, match=message):
                written(tmp_path / name, b"new")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "folder", "nowhere", "to folder"]
    assert not os.listdir(tmp_path / "folder")


@needs_root
def test_devices_are_written_into(trained, tmp_path, monkeypatch, capsys):
    null, full = make_device(tmp_path / "null", 3), make_device(tmp_path / "full", 7)
    (tmp_path / "full.npz").symlink_to("full")
    for kind, out, code in (
        ("lines", null, 0),
        ("array", null, 0),
        ("lines", full, 2),
        ("array", tmp_path / "full.npz", 2),
    ):
        words = ("sample", trained / kind, "-n", 3, "--out", out)
        result, _, err = in_process(monkeypatch, capsys, *words)
        assert result == code, err
        assert ("No space left on device" in err) == (code == 2)
    with pytest.raises(InputError, match="remove it"):
        write_atomically(null, b"")
    assert all(stat.S_ISCHR(path.stat().st_mode) for path in (null, full))
    assert sorted(os.listdir(tmp_path)) == ["full", "full.npz", "null"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("lines", "a"),
        ("lines", "a.txt.gz"),
        ("table", "a.parquet"),
        ("array", "a.npy"),
        ("array", "a.npz"),
    ],
)
def test_pipe_gets_the_bytes_of_a_file(kind, name, trained, tmp_path, monkeypatch, capsys):
    pipe, plain = tmp_path / name, tmp_path / f"plain-{name}"
    os.mkfifo(pipe)
    reader = Reader(pipe)
    for out in (pipe, plain):
        words = ("sample", trained / kind, "-n", 7, "--seed", 0, "--out", out)
        code, _, err = in_process(monkeypatch, capsys, *words)
        assert code == 0, err
        assert err.endswith(f"7 records: {out}\n")
    assert reader.result() == plain.read_bytes()


def test_array_without_a_suffix_is_printed_into_a_pipe(trained, tmp_path, monkeypatch, capsys):
    os.mkfifo(tmp_path / "pipe")
    reader = Reader(tmp_path / "pipe")
    words = ("sample", trained / "array", "-n", 4, "--seed", 0)
    assert in_process(monkeypatch, capsys, *words, "--out", tmp_path / "pipe")[0] == 0
    assert reader.result().decode() == in_process(monkeypatch, capsys, *words)[1]
    records = numpy.loadtxt(io.BytesIO(reader.result()), delimiter=",")
    assert records.shape == (4, 6)


def test_reader_that_leaves_ends_the_records_quietly(tmp_path, monkeypatch, capsys):
    """As in ``dmf sample RUN | head``; without classes, the records go on."""
    run = tmp_path / "run"
    train_by_command(monkeypatch, capsys, write(tmp_path, "table"), run, "--label", "colour")
    os.mkfifo(tmp_path / "pipe")
    words = ("sample", run, "-n", 30_000)
    reader = Reader(tmp_path / "pipe", 1)
    code, out, err = in_process(monkeypatch, capsys, *words, "--out", tmp_path / "pipe")
    assert (code, out, err, reader.result()) == (0, "", "", b"c")  # of colour,letter,k
    reader = Reader(tmp_path / "pipe", 1)
    more = ("--save-classes", tmp_path / "pipe", "--out", tmp_path / "a.csv")
    code, _, err = in_process(monkeypatch, capsys, *words, *more)
    assert (code, err) == (0, f"30,000 records: {tmp_path / 'a.csv'}\n")
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 30_001


@on_linux
def test_closed_standard_output_is_one_line(tmp_path, monkeypatch):
    """Python has no sys.stdout then, and its number may belong to another file."""
    monkeypatch.setattr(sys, "stdout", None)
    for path in (None, link_to_descriptor(tmp_path, 1)):
        with pytest.raises(InputError, match="standard output is closed"), text_writer(path):
            pass


@on_linux
def test_descriptor_by_number_is_written_into(tmp_path):
    """The shell has such a file open: it is neither truncated nor replaced."""
    with open(tmp_path / "a", "w+b") as file:
        file.write(b"first ")
        file.flush()
        streamed(link_to_descriptor(tmp_path, file.fileno()), b"new ")
        file.write(b"last")
    assert (tmp_path / "a").read_bytes() == b"first new last"


def test_terminated_command_keeps_the_target_of_a_link(tmp_path, capsys):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")

    def stopped():
        with open_output(tmp_path / "link") as file:
            file.write(b"new")
            os.kill(os.getpid(), signal.SIGTERM)

    assert run_guarded(stopped) == 130
    assert (tmp_path / "target").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["link", "target"]


def test_graph_is_written_into_a_pipe(trained, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.onnx").symlink_to("pipe")
    reader = Reader(tmp_path / "pipe")
    OneStepModel.load(trained / "table", "cpu").export(tmp_path / "link.onnx")
    onnx.checker.check_model(onnx.load_from_string(reader.result()))
    assert (tmp_path / "link.onnx").is_symlink()


@pytest.mark.parametrize("name", ["weights.safetensors", "checkpoint-1.safetensors"])
def test_training_replaces_no_link_in_a_run_folder(name, trained, tmp_path):
    OneStepModel.load(trained / "lines", "cpu").save(tmp_path / "run")
    for file in ("weights", "checkpoint-1", "checkpoint-2"):
        (tmp_path / "run" / f"{file}.safetensors").unlink()
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=rf"{name}: it is a link or not a regular file"):
        train_run(tmp_path / "run")
    assert (tmp_path / "run" / name).is_symlink()
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "run" / name).unlink()
    train_run(tmp_path / "run")
    assert load_file(tmp_path / "run" / name)


def test_compressed_output_follows_a_link(trained, tmp_path, monkeypatch, capsys):
    """The name that the user gives decides about the format, not the target."""
    (tmp_path / "a.txt.gz").symlink_to("b")
    words = ("sample", trained / "lines", "-n", 3, "--out", tmp_path / "a.txt.gz")
    assert in_process(monkeypatch, capsys, *words)[0] == 0
    assert len(gzip.decompress((tmp_path / "b").read_bytes()).splitlines()) == 3
