"""Records may contain anything: a page has no script but its own, and damage is reported."""

import json
import random
import shutil

import pytest
from parsed_page import parse

from discrete_meanflow import OneStepModel
from discrete_meanflow.errors import InputError
from discrete_meanflow.report import report_page

SCRIPT = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
VALUES = (
    *(None, True, -1, 1e300, 10**400, float("nan"), float("inf"), "", SCRIPT, "\ud800"),
    *([], {}, [[]], [None], [1] * 5000, "x" * 10_000, {"a": SCRIPT}, {SCRIPT: {SCRIPT: 1}}),
)
CLAIM = {"text": "it holds", "where": "table 1", "paper": 0.5, "ours": 0.25, "holds": True}
CURVE = {"iteration": [1, 2], "loss": [[1.0], [0.5]], "at": [2], "max_error": [[0.1]]}
CELL = {"iterations": 2, "seconds": 1.5, "curve": CURVE, "measurements": [{"seed": 1, "tv": 0.1}]}
RESULTS = {
    "experiment": "ring",
    "title": "A ring",
    "where": "table 1",
    "command": "dmf reproduce ring",
    "date": "2026-01-31",
    "of_the_paper": True,
    "device": "CPU",
    "versions": {"torch": "2"},
    "wall_seconds": 1.0,
    "training_seconds": 2.0,
    "seeds": [1],
    "scale": "toy",
    "settings": {"a": {"process": "p"}},
    "facts": {"floor": 0.1, "scores": {"ours": {"1": {"tv": 0.1}}}, "held out": {"tv": 0.05}},
    "cells": {"a, b": CELL, "a, c": CELL},
    "claims": [CLAIM],
}


def safe(page):
    """The parsed page: no element and no attribute comes from a record."""
    root = parse(page)
    assert len(list(root.all("script"))) == len(list(root.all("style"))) == 1
    assert not [e for e in root.all() for name in e.attributes if name.startswith("on")]
    for element in root.all():
        for name in ("src", "href"):
            target = element.attributes.get(name, "#")
            assert target.startswith(("data:image/", "#"))
    return root


def paths(value, before=()):
    """The places of all values in a record."""
    yield before
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from paths(item, (*before, key))


def replaced(value, path, other):
    """The record with another value at a place; without it, if ``other`` is Ellipsis."""
    if not path:
        return {} if other is ... else other
    copied = value.copy()
    if other is ... and len(path) == 1:
        del copied[path[0]]
    else:
        copied[path[0]] = replaced(value[path[0]], path[1:], other)
    return copied


def report_or_error(folder):
    """The parsed page; None if there is nothing to show, which one line says."""
    try:
        page = report_page([folder])
    except InputError as error:
        page = None
        message = str(error)
    if page is not None:
        return safe(page)
    assert "\n" not in message
    return None


def write(path, content):
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, errors="surrogatepass")


def test_damaged_results_are_reported_and_never_a_traceback(tmp_path):
    assert "1 of 1" in report_page_of(tmp_path, RESULTS).text
    rng = random.Random(0)
    for path in paths(RESULTS):
        for value in (..., *rng.sample(VALUES, 3)):
            report_page_of(tmp_path, replaced(RESULTS, path, value))


def report_page_of(folder, results):
    write(folder / "results.json", results)
    return report_or_error(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "data.json", "environment.json", "evaluation.json", "training.json"]
)
def test_damaged_runs_are_reported_and_never_a_traceback(runs, tmp_path, name):
    folder = shutil.copytree(
        runs / "images", tmp_path / "run", ignore=lambda *_: ["weights.safetensors", "tensorboard"]
    )
    record = json.loads((folder / name).read_text())
    rng = random.Random(0)
    places = list(paths(record))
    for path in rng.sample(places, min(len(places), 12)):
        for value in (..., rng.choice(VALUES)):
            write(folder / name, replaced(record, path, value))
            assert report_or_error(folder) is not None  # the other parts are shown


@pytest.mark.parametrize("content", ["", "null", "[1]", "{", '{"a": ' * 5000, "NaN", "\0"])
def test_damaged_files_are_reported(runs, tmp_path, content):
    folder = shutil.copytree(runs / "words", tmp_path / "run")
    for name in ("evaluation.json", "training.json", "metrics.jsonl", "samples.safetensors"):
        (folder / name).write_text(content)
    page = report_or_error(folder)
    assert "evaluation.json" in page.text
    assert "loss: teacher" not in page.text
    write(tmp_path / "results.json", content)
    shutil.rmtree(folder)
    assert report_or_error(tmp_path) is None


def test_log_may_contain_anything(runs, tmp_path):
    folder = shutil.copytree(runs / "words", tmp_path / "run")
    line = {"iteration": 1, "loss": 0.5, "seconds": 1.0, "tokens_per_second": 9.0}
    rng = random.Random(0)
    for key in line:
        for value in rng.sample(VALUES, 6):
            bad = json.dumps(line | {key: value})
            (folder / "metrics.jsonl").write_text(f"{json.dumps(line)}\n{bad}\n{{cut sh")
            assert report_or_error(folder) is not None


def test_markup_in_records_is_text(tmp_path):
    words = [SCRIPT, "<b>&amp;</b>", "'\"><svg onload=alert(1)>"] * 8
    model = OneStepModel.fit(words, iterations=4, size=1e4, batch=8, device="cpu",
                             out=tmp_path / "<i>run")  # fmt: skip
    root = safe(report_page([model.folder]))
    assert "&lt;" not in root.text  # escaped once
    assert "<i>run" in root.text
    rows = [{SCRIPT: word, "b": "</td><script>"} for word in words]
    model = OneStepModel.fit([list(row.values()) for row in rows], iterations=4, size=1e4,
                             batch=8, device="cpu", out=tmp_path / "rows")  # fmt: skip
    assert "</td><script>" in safe(report_page([model.folder])).text


def test_hostile_claims_and_file_names_are_text(tmp_path):
    folder = tmp_path / "<script>alert(2)<"
    folder.mkdir()
    claim = CLAIM | {"text": SCRIPT, "where": SCRIPT, "paper": SCRIPT, "ours": [SCRIPT]}
    texts = dict.fromkeys(("title", "where", "command", "date", "device"), SCRIPT)
    write(folder / "results.json", RESULTS | texts | {"claims": [claim] * 3})
    (folder / '"><script>x.png').write_bytes(b"\x89PNG")
    root = safe(report_page([folder]))
    assert root.text.count("<script>alert(1)</script>") > 6


def test_long_lists_are_cut(tmp_path):
    many = {f"cell {i}": CELL for i in range(2000)}
    write(tmp_path / "results.json", RESULTS | {"claims": [CLAIM] * 20_000, "cells": many})
    page = report_page([tmp_path])
    assert len(page) < 3e6
    root = safe(page)
    assert "19,000 more claims are not shown" in root.text
    assert "20000 of 20000" in root.text
