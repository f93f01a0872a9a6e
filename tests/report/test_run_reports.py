"""Reports of runs on own data: every number and every sample is that of the records."""

import base64
import json
import shutil
import struct
import zlib

import pytest
import torch
from parsed_page import parse, points, tables

from discrete_meanflow.model.eval_samples import load_saved
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.run_folder import read_config, read_weights
from discrete_meanflow.model.sampling import sample_tokens
from discrete_meanflow.report import report_page
from own_records import prepared


def scores_in(value):
    """All numbers of a record."""
    if isinstance(value, dict):
        for item in value.values():
            yield from scores_in(item)
    elif isinstance(value, float):
        yield value


def exact_values(page):
    """The numbers with all digits that stand behind the cells of tables."""
    return {
        word.strip("()")
        for table in tables(page)
        for row in table
        for _, exact in row
        for word in exact.split()
    }


@pytest.mark.parametrize("name", ["words", "images"])
def test_every_score_of_the_evaluation_is_on_the_page(runs, name):
    evaluation = json.loads((runs / name / "evaluation.json").read_text())
    page = parse(report_page([runs / name]))
    shown = exact_values(page)
    for part in ("scores", "completions", "classes"):
        assert {repr(value) for value in scores_in(evaluation[part])} <= shown, part
    rows = {row[0][0]: row for table in tables(page) for row in table if row}
    for row, scores in evaluation["scores"].items():
        assert [text for text, _ in rows[row][1:]] == [f"{v:.3f}" for v in scores.values()]
    assert evaluation["options"] in page.text


def test_charts_show_scores_and_the_level_of_held_out_records(runs):
    scores = json.loads((runs / "words" / "evaluation.json").read_text())["scores"]
    page = parse(report_page([runs / "words"]))
    charts = {chart.attributes.get("aria-label"): chart for chart in page.all("svg")}
    for name, real in scores["held out"].items():
        chart = charts[name]
        expected = [
            [str(k), f"{scores[row][name]:.7g}"] for k, row in ((1, "1 step"), (4, "4 steps"))
        ]
        assert list(points(chart.parent)) == [("samples", expected)]
        levels = [line for line in chart.all("line") if "level" in line.classes()]
        assert [line.attributes["data-y"] for line in levels] == [f"{real:.7g}"]


def test_learning_curves_are_those_of_the_log(runs):
    lines = [
        json.loads(line) for line in (runs / "words" / "metrics.jsonl").read_text().splitlines()
    ]
    plan = json.loads((runs / "words" / "config.json").read_text())["plan"]
    page = parse(report_page([runs / "words"]))
    shown = {
        chart.attributes["aria-label"]: dict(points(chart.parent))
        for chart in page.all("svg")
        if "chart" in chart.classes()
    }
    start = 0
    for stage in ("teacher", "student", "matching"):
        end = start + plan[f"{stage}_steps"]
        own = [line for line in lines if start < line["iteration"] <= end]
        assert own
        expected = [[str(line["iteration"]), f"{line['loss']:.7g}"] for line in own]
        assert shown[f"loss: {stage}"] == {stage: expected}
        start = end
    assert set(shown["tokens per second"]) == {"teacher", "student", "matching"}
    total = next(table for table in tables(page) if len(table[0]) == 0 and len(table) == 4)
    seconds = sum(float(row[3][1]) for row in total[1:])
    assert seconds == pytest.approx(lines[-1]["seconds"])


def facts_of(element):
    """Names and values, in order."""
    for item in element.all("div"):
        if [child.tag for child in item.children] == ["dt", "dd"]:
            yield item.children[0].text, item.children[1].text


def test_facts_of_the_run_are_on_the_page(runs):
    facts = set(facts_of(parse(report_page([runs / "words"]))))
    for name in ("data.json", "environment.json", "config.json"):
        record = json.loads((runs / "words" / name).read_text())
        for key, value in record.get("plan", record).items():
            if isinstance(value, str | int) and key != "command":
                assert (key, str(value)) in facts


def test_saved_samples_stand_beside_each_other(runs):
    config = read_config(runs / "words")
    saved = load_saved(runs / "words", config)
    columns = [config.codec.decode(saved.tokens[k])[:8] for k in (1, 4)]
    page = parse(report_page([runs / "words"]))
    (table,) = [t for t in page.all("table") if "samples" in t.classes()]
    shown = [[cell.text for cell in row.all("td")] for row in table.all("tr")][1:]
    collapsed = [[" ".join(record.split()) for record in row] for row in zip(*columns, strict=True)]
    assert shown == collapsed


def drawn(folder, steps):
    """The samples that the page shows of a run without an evaluation."""
    config = read_config(folder)
    kernel = read_weights(folder, config)
    return torch.cat(list(sample_tokens(kernel, config, SampleOptions(12, steps, seed=0))))


def test_new_rows_are_drawn_and_marked_where_they_change(runs):
    codec = read_config(runs / "rows").codec
    records = [codec.decode(drawn(runs / "rows", k)) for k in (1, 4, 16)]
    page = parse(report_page([runs / "rows"]))
    assert f"dmf evaluate {runs / 'rows'}" in page.text
    (table,) = [t for t in page.all("table") if "rows" in t.classes()]
    for i, group in enumerate(table.all("tbody")):
        cells = [list(row.all("td"))[1:] for row in group.all("tr")]
        assert [[c.text for c in row] for row in cells] == [list(r[i]) for r in records]
        for row, above in zip(cells[1:], cells[:-1], strict=True):
            for cell, other in zip(row, above, strict=True):
                assert ("changed" in cell.classes()) is (cell.text != other.text)


def test_images_are_pictures_of_their_tokens(runs):
    config = read_config(runs / "images")
    saved = load_saved(runs / "images", config)
    page = parse(report_page([runs / "images"]))
    pictures = [image for image in page.all("img") if "pixels" in image.classes()]
    assert len(pictures) == len(saved.tokens[1])
    for image, tokens in zip(pictures, saved.tokens[1], strict=True):
        png = base64.b64decode(image.attributes["src"].partition(",")[2])
        assert struct.unpack(">II", png[16:24]) == (5, 3)
        content = zlib.decompress(png[png.index(b"IDAT") + 4 :])
        levels = [content[row * 6 + 1 : row * 6 + 6] for row in range(3)]
        assert b"".join(levels) == bytes(85 * int(token) for token in tokens[:15])
        (label,) = config.codec.classes_in(tokens[None])
        assert label in image.parent.text


def test_molecules_are_drawn(runs):
    pytest.importorskip("rdkit")
    page = parse(report_page([runs / "molecules"]))
    (table,) = [t for t in page.all("table") if "samples" in t.classes()]
    cells = list(table.all("td"))
    drawings = [image.attributes["src"] for image in table.all("img")]
    assert len(drawings) == sum("invalid" not in cell.classes() for cell in cells) > 0
    for uri in drawings:
        assert base64.b64decode(uri.partition("base64,")[2]).startswith(b"<svg")


def test_lists_are_shown_by_their_symbols(runs):
    config = read_config(runs / "lists")
    page = parse(report_page([runs / "lists"]))
    (table,) = [t for t in page.all("table") if "samples" in t.classes()]
    first = [row[0] for row in [list(row.all("td")) for row in table.all("tr")] if row]
    expected = [" ".join(map(str, row)) for row in config.codec.decode(drawn(runs / "lists", 1))]
    assert [cell.text for cell in first] == expected


def test_unfinished_run_says_how_to_finish_it(tmp_path):
    folder = prepared(tmp_path / "my run")
    page = parse(report_page([folder]))
    assert page.text.count(f"dmf train --resume '{folder}'") == 2
    assert f"dmf evaluate '{folder}'" in page.text
    config = json.loads((folder / "config.json").read_text())
    planned = sum(config["plan"][f"{stage}_steps"] for stage in ("teacher", "student", "matching"))
    assert f"0 of {planned} steps" in page.text


@pytest.mark.parametrize("kept", [["config.json"], ["config.json", "evaluation.json", "data.json"]])
def test_partial_folder_shows_what_is_there(runs, tmp_path, kept):
    folder = tmp_path / "part"
    folder.mkdir()
    for name in kept:
        shutil.copy(runs / "words" / name, folder / name)
    page = parse(report_page([folder]))
    assert ("pair TV" in page.text) is ("evaluation.json" in kept)
    assert "damaged" not in page.text


def test_runs_side_by_side_share_tables_and_plots(runs, tmp_path):
    shutil.copytree(runs / "words", tmp_path / "other")
    evaluation = json.loads((runs / "words" / "evaluation.json").read_text())
    evaluation["scores"]["1 step"]["pair TV"] = 0.987654321
    (tmp_path / "other" / "evaluation.json").write_text(json.dumps(evaluation))
    page = parse(report_page([runs / "words", tmp_path / "other"]))
    overview = next(part for part in page.all("section") if "chapter" in part.classes())
    rows = [row for table in tables(overview) for row in table]
    assert any(
        row and row[1] == ("other", "") and row[2] == ("0.988", "0.987654321") for row in rows
    )
    chart = next(c for c in overview.all("svg") if c.attributes["aria-label"] == "pair TV")
    assert [name for name, _ in points(chart.parent)] == ["words", "other"]
    levels = [line for line in chart.all("line") if "level" in line.classes()]
    assert len(levels) == 2
    for names in ("words", "images"):  # one run alone has nothing to compare
        alone = parse(report_page([runs / names]))
        assert not [part for part in alone.all("section") if "chapter" in part.classes()]
