"""Quality and privacy of tables in reports: pictures show what the evaluation recorded."""

import json
import random
import shutil

import pytest
from parsed_page import parse, tables
from test_hostile import VALUES, paths, replaced, report_or_error, safe, write

from discrete_meanflow.report import report_page
from discrete_meanflow.report.bars import BarChart

IGNORED = ("weights.safetensors", "samples.safetensors", "tensorboard")


@pytest.fixture
def quality(runs):
    return json.loads((runs / "table" / "evaluation.json").read_text())["quality"]


def sections(page):
    """The sections of a page by heading."""
    return {next(part.all("h3")).text: part for part in page.all("section")}


def bars(figure, name):
    return [rect.attributes for rect in figure.all("rect") if name in rect.classes()]


def figures(section):
    return {next(f.all("figcaption")).text: f for f in section.all("figure")}


def test_bars_show_the_frequencies_of_each_column(runs, quality):
    page = safe(report_page([runs / "table"]))
    shown = figures(sections(page)["Quality"])
    for column in quality["columns"]:
        picture, figure = column["picture"], shown[column["name"]]
        for name, row in (("rest", "held out"), ("share", "1 step")):
            frequencies = picture["frequencies"][row]
            heights = [float(bar["height"]) for bar in bars(figure, name)]
            assert len(heights) == len(frequencies)
            scale = sum(heights) / sum(frequencies)
            assert heights == pytest.approx([scale * x for x in frequencies], abs=0.3)
            assert all(float(bar["y"]) + h == pytest.approx(176, abs=0.2)
                       for bar, h in zip(bars(figure, name), heights, strict=True))  # fmt: skip
        titles = [title.text for title in figure.all("title")]
        for label, real in zip(picture["labels"], picture["frequencies"]["held out"], strict=True):
            assert any(t.startswith(f"{label}: held out {real:.3f}, ") for t in titles)


def test_matrix_has_samples_below_the_diagonal(runs, quality):
    page = safe(report_page([runs / "table"]))
    (matrix,) = [f for f in page.all("figure") if "matrix" in f.classes()]
    squares = bars(matrix, "share")
    distances, pairs = quality["pairs"]["distances"], quality["pairs"]["columns"]
    assert len(squares) == 2 * len(pairs)
    for row, below in (("1 step", True), ("held out", False)):
        part = [s for s in squares if (float(s["y"]) - 20 > float(s["x"]) - 92) is below]
        shades = sorted(float(s["fill-opacity"]) for s in part)
        darkest = max(max(distances["1 step"]), max(distances["held out"]))
        assert shades == pytest.approx(sorted(x / darkest for x in distances[row]), abs=1e-3)


def test_every_score_and_verdict_is_on_the_page(runs, quality):
    parts = sections(safe(report_page([runs / "table"])))
    for name, key, verdict in (("Quality", "scores", 0), ("Privacy", "privacy", 1)):
        shown = {exact for table in tables(parts[name]) for row in table for _, exact in row}
        expected = {repr(x) for scores in quality[key].values() for x in scores.values()}
        assert expected <= shown
        assert " ".join(quality["verdict"][verdict].split()) in parts[name].text
    rows = [row[0][0] for table in tables(parts["Quality"]) for row in table if row]
    assert {column["name"] for column in quality["columns"]} <= set(rows)


def test_other_and_older_evaluations_have_no_section(runs, tmp_path):
    words = runs / "words"
    assert json.loads((words / "evaluation.json").read_text())["quality"] == {}
    assert not {"Quality", "Privacy"} & set(sections(parse(report_page([words]))))
    folder = shutil.copytree(runs / "table", tmp_path / "run")
    evaluation = json.loads((folder / "evaluation.json").read_text())
    for part in ("Quality", "Privacy"):
        assert part in sections(parse(report_page([folder])))
    del evaluation["quality"]
    write(folder / "evaluation.json", evaluation)
    page = parse(report_page([folder]))
    assert not {"Quality", "Privacy"} & set(sections(page))
    assert "damaged" not in page.text


def test_damaged_quality_is_reported_and_never_a_traceback(runs, tmp_path, quality):
    folder = shutil.copytree(
        runs / "table", tmp_path / "run", ignore=shutil.ignore_patterns(*IGNORED)
    )
    evaluation = json.loads((folder / "evaluation.json").read_text())
    rng = random.Random(0)
    for path in rng.sample(list(paths(quality)), 15):
        for value in (..., rng.choice(VALUES)):
            changed = replaced(quality, path, value)
            write(folder / "evaluation.json", evaluation | {"quality": changed})
            assert report_or_error(folder) is not None


@pytest.mark.parametrize("bad", [1.5, -0.1, float("nan"), 10**400])
def test_bars_are_frequencies(bad):
    with pytest.raises((ValueError, OverflowError)):
        BarChart.of("", ["a"], [0.5], [bad], words=True)
    assert BarChart.of("", ["a", "b"], [0, 0], [0, 0], words=False).held_out[0].height == 0
