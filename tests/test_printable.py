"""What a command prints cannot drive a terminal, and is short, whatever users and files say."""

import subprocess

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from discrete_meanflow.cli.evaluation_tables import scores_table
from discrete_meanflow.cli.exit_codes import run_guarded
from discrete_meanflow.errors import InputError
from discrete_meanflow.printable import LONGEST, printable
from discrete_meanflow.run.progress import ProgressPrinter, print_line, progress_printer, say
from test_cli import DMF, in_process

HOSTILE = "a\x1b]0;title\x07\x9b2J\u202eb\ud800"


@given(st.text(st.characters(), max_size=50), st.integers(1, 10**5))
def test_printable_text_is_short_and_can_be_encoded(text, times):
    shown = printable(text * times)
    shown.encode()
    assert len(shown) <= 6 * LONGEST + 10  # an escape has at most six characters
    assert not set(shown) & set("\x1b\x9b\x07\r\b\u202e")
    assert printable(shown) == shown or len(shown) > LONGEST


@given(st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=LONGEST))
def test_printable_text_stays(text):
    assert printable(text) == text


@given(st.text(st.characters(), max_size=300))
def test_error_is_one_line(text):
    assert len(str(InputError(text)).splitlines()) <= 1


def test_nothing_hostile_reaches_a_terminal(capsys):
    console = Console(force_terminal=False, width=10_000)
    say(HOSTILE)
    print_line(console, HOSTILE)
    with progress_printer(console) as printer:
        assert isinstance(printer, ProgressPrinter)
        printer.start(HOSTILE, 0.5, "")
        assert HOSTILE not in [task.description for task in printer.bars.tasks]
    console.print(scores_table(HOSTILE, {HOSTILE: {"score": 1.0}, "held out": {"score": 1.0}}))

    def action():
        raise InputError(HOSTILE)

    assert run_guarded(action) == 2
    out, err = capsys.readouterr()
    assert printable(HOSTILE) in out
    assert printable(HOSTILE) in err
    assert not set("\x1b\x9b\x07\u202e\ud800") & set(out + err)


@pytest.mark.parametrize("words", [("sample",), ("train",), ("train", "a.txt", "--out")])
def test_long_names_are_one_line(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.txt").write_text("ab\nba\n")
    monkeypatch.chdir(tmp_path)
    code, _, err = in_process(monkeypatch, capsys, *words, "x" * 300)
    assert (code, err.count("\n")) == (2, 1)
    assert "File name too long" in err


@pytest.mark.parametrize("words", ["--version", "--help"])
@pytest.mark.parametrize(("redirection", "code"), [(">/dev/full", 2), (">&-", 0)])
def test_full_or_closed_standard_output_is_no_bug(words, redirection, code):
    command = " ".join([*DMF, words, redirection])
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == code
    assert done.stderr == ("dmf: cannot print: No space left on device\n" if code else "")


def test_full_or_closed_standard_error_changes_no_exit_code():
    for redirection in ("2>/dev/full", "2>&-"):
        command = " ".join([*DMF, "nothing", redirection])
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
