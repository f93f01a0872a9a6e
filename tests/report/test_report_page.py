"""The page as a file: it needs nothing else, is reproducible, and is written as asked."""

import base64
import hashlib
import os
import re
import shutil
from pathlib import Path

import pytest
from parsed_page import parse

from discrete_meanflow.report import report_page
from discrete_meanflow.report.chart import Axis, Chart, Level, Series
from own_records import prepared, run_command

RESULTS = Path(__file__).parent.parent.parent / "results"


@pytest.fixture
def folders(runs):
    return [runs, RESULTS / "mean-rate", RESULTS / "bench"]


def test_page_refers_to_nothing_outside(folders):
    page = report_page(folders)
    assert b"://" not in re.sub(rb'src="data:image/[^"]*"', b"", page)
    root = parse(page)
    anchors = {e.attributes["id"] for e in root.all() if "id" in e.attributes}
    links = [e.attributes["href"] for e in root.all("a")]
    assert links
    assert all(link[0] == "#" and link[1:] in anchors for link in links)
    assert not list(root.all("link", "iframe", "object", "form"))


def test_policy_permits_the_script_and_the_style_of_the_page_only(folders):
    root = parse(report_page(folders))
    (policy,) = (e.attributes["content"] for e in root.all("meta") if "http-equiv" in e.attributes)
    assert policy.startswith("default-src 'none'; img-src data:; ")
    for tag in ("script", "style"):
        (element,) = root.all(tag)
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not [e for e in root.all() if "style" in e.attributes]


def test_same_records_give_the_same_bytes(folders):
    assert report_page(folders) == report_page(folders)


def test_parent_folder_stands_for_the_runs_in_it(runs):
    names = [part.children[0].text for part in parse(report_page([runs])).all("article")]
    assert names == ["images", "lists", "molecules", "rows", "table", "words"]


def test_folders_of_the_same_name_have_distinct_names(runs, tmp_path):
    shutil.copytree(runs / "rows", tmp_path / "rows")
    page = parse(report_page([runs / "rows", tmp_path / "rows", runs / "rows"]))
    names = [part.children[0].text for part in page.all("article")]
    assert names == [str(runs / "rows"), str(tmp_path / "rows")]


def test_folders_without_runs_are_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for folder, message in (
        (tmp_path, "contains no run"),
        (tmp_path / "file", "Not a directory"),
        (tmp_path / "missing", "No such file"),
    ):
        assert run_command("report", folder) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1


def test_report_without_runs_is_one_line(capsys):
    assert run_command("report") == 2
    assert "dmf: report needs a run folder" in capsys.readouterr().err


def test_report_is_written_where_it_is_said(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = prepared(tmp_path / "run")
    assert not run_command("report", folder)
    assert capsys.readouterr().err == f"report: {folder}/report.html\n"
    expected = (folder / "report.html").read_bytes()
    assert not run_command("report", folder, "--out", "page.html")
    os.symlink("page.html", "link.html")
    os.truncate("page.html", 0)
    assert not run_command("report", folder, "--out", "link.html")
    assert Path("link.html").is_symlink()
    title = b"<title>run</title>"
    assert title in expected
    assert title in Path("page.html").read_bytes()
    assert not run_command("report", folder, runs / "rows")
    assert b"<title>run, rows</title>" in Path("report.html").read_bytes()
    assert run_command("report", folder, "--out", tmp_path) == 2


def test_report_can_be_piped(tmp_path, capfdbinary):
    folder = prepared(tmp_path / "run")
    assert not run_command("report", folder, "--out", "/dev/stdout")
    written = capfdbinary.readouterr()
    assert written.out == report_page([folder])
    assert written.err == b"report: /dev/stdout\n"


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize(
    "ys", [[0.5], [1, 1, 1], [0, 1e-310], [1e-300, 1e99], [-1e99, 1e99], [3, 2, 1], [5e-324, 1]]
)
def test_chart_places_points_in_its_frame(steps, ys):
    series = Series.of("a", 0, range(1, 1 + len(ys)), ys)
    (chart,) = Chart.of("title", "x", [series], [Level("b", None, 0.5)], steps)
    places = [tuple(map(float, pair.split(","))) for pair in chart.places(series).split()]
    assert len(places) == len(ys)
    assert all(52 <= x <= 350 and 12 <= y <= 176 for x, y in places)
    assert all(12 <= tick.at <= 176 for tick in chart.y.ticks())
    order = sorted(range(len(ys)), key=lambda i: ys[i])
    heights = [places[i][1] for i in order]
    assert heights == sorted(heights, reverse=True)  # larger values stand higher


def test_values_that_are_no_numbers_are_not_drawn():
    nan, infinite = float("nan"), float("inf")
    series = Series.of("a", 0, [1, 2, 3, 4, nan], [nan, infinite, None, 0.5, 1])
    assert series.points == ((4.0, 0.5),)
    assert Chart.of("title", "x", [Series.of("a", 0, [1], [nan])]) == ()


def test_long_series_keep_their_last_point():
    series = Series.of("a", 0, range(10_001), range(10_001))
    assert len(series.points) <= 300
    assert series.points[-1] == (10_000.0, 10_000.0)


def test_axis_has_few_round_ticks():
    for low, high in ((0, 1), (0.2, 0.21), (-5, 1e6), (1e-9, 3e-9), (99, 100)):
        texts = [tick.text for tick in Axis([low, high], 0, 100, log=False).ticks()]
        assert 2 <= len(texts) <= 12
        assert len(set(texts)) == len(texts)
