"""The run engine: JSON records, progress events and their printer."""

import io
import json
import os
import pickle

import pytest
from rich.console import Console

from discrete_meanflow.errors import InputError
from discrete_meanflow.run.environment import environment
from discrete_meanflow.run.json_files import read_json, write_json
from discrete_meanflow.run.progress import ProgressEvent, progress_printer


def test_json_records_are_read_back_exactly(tmp_path):
    content = {
        "numbers": [1, 2.5, True, None],
        "text": "[1,   2]\n[ ü ]",
        "nested": [[1, 2], {"a": ["x  y", "]"]}],
        "environment": environment(),
    }
    write_json(tmp_path / "a.json", content)
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text) == read_json(tmp_path / "a.json") == content
    assert '"numbers": [ 1, 2.5, true, null ]' in text  # on one line
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert read_json(tmp_path / "a.json") == content


def test_unreadable_json_is_one_line(tmp_path):
    path = tmp_path / "a.json"
    for content in (b"", b"[1]", b"{", b"\xff", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.json.*; delete it"):
            read_json(path, "delete it")
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        read_json(path)
    os.mkfifo(path)
    with pytest.raises(InputError, match="is not a regular file"):
        read_json(path)


def event(iteration, **changes):
    return ProgressEvent("cell (a)", iteration, 40, 0.5, 1.0, **changes)


def test_progress_event_can_be_pickled():
    assert pickle.loads(pickle.dumps(event(3, metrics={"max_error": 0.1}))) == event(
        3, metrics={"max_error": 0.1}
    )


def test_printer_writes_a_line_at_every_tenth_without_a_terminal():
    out = io.StringIO()
    with progress_printer(Console(file=out, width=200)) as printer:
        for iteration in range(1, 41):
            printer(event(iteration, metrics={"max_error": 0.1}))
    lines = out.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "cell (a): 10 %  4 of 40 steps  loss 0.500  max error 1.0e-01  1 s"
    assert lines[-1].startswith("cell (a): 100 %  40 of 40 steps")


def test_printer_shows_a_bar_on_a_terminal():
    out = io.StringIO()
    with progress_printer(Console(file=out, width=120, force_terminal=True)) as printer:
        printer.start("cell (a)", 0.25, "preparing")
        printer(event(20, tokens_per_second=1234.0))
    assert "20 of 40 steps  loss 0.500  1,234 tokens/s" in out.getvalue()
    assert "50 %" in out.getvalue()
