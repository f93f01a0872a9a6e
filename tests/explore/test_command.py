"""The command ``dmf explore``."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request

import httpx
import pytest

from test_cli import DMF, in_process

KEY = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}


def test_command_shows_the_pretrained_model_and_stops():
    """It prints the address, answers, and ends in order with Ctrl-C."""
    words = ["explore", "--no-browser", "--chain", "two-state"]
    process = subprocess.Popen([*DMF, *words], stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", line)[0]
        with urllib.request.urlopen(f"{address}/api/start") as answer:
            start = answer.read().decode()
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}  # any site may try this
        assert httpx.get(address, headers=upgrade | KEY).status_code == 200
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert '"name":"names"' in start
    assert '"chain":"two-state"' in start
    assert (process.wait(), rest) == (0, "")


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "plotly"])
def test_missing_package_names_the_extra(package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = in_process(monkeypatch, capsys, "explore")
    assert (code, err.count("\n")) == (2, 1)
    assert "pip install 'discrete-meanflow[explore]'" in err


def test_used_port_is_one_line(monkeypatch, capsys):
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        code, _, err = in_process(monkeypatch, capsys, "explore", "--port", port)
    assert (code, err.count("\n")) == (2, 1)
    assert "choose another --port" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "nowhere is not a run folder"),
        (("--port", 0), "port must be from 1 to 65535"),
        (("--port", 65536), "port must be from 1 to 65535"),
        (("--chain", "line"), "chain"),
    ],
)
def test_bad_options_are_one_line(words, message, monkeypatch, capsys):
    code, _, err = in_process(monkeypatch, capsys, "explore", *words)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
