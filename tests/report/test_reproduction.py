"""Reports of the reproduction: every claim and every figure of a folder of results."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from parsed_page import parse, points, tables

from discrete_meanflow.model.grid import number
from discrete_meanflow.report import report_page

RESULTS = Path(__file__).parent.parent.parent / "results"
FOLDERS = sorted(path.parent for path in RESULTS.glob("*/results.json"))
VERDICTS = {True: "yes", False: "no"}


def read(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def page():
    return parse(report_page([RESULTS]))


@pytest.fixture(scope="module")
def parts(page):
    """The part of the page of each folder by its name."""
    return {part.children[0].text: part for part in page.all("article")}


def one_line(text):
    return " ".join(text.split())


def test_every_folder_of_results_has_a_part(parts):
    folders = {path.name for path in RESULTS.iterdir() if path.is_dir()}
    assert set(parts) == folders
    for path in (RESULTS / "bench").glob("*.json"):
        assert json.loads(path.read_text()).get("command", path.stem) in parts["bench"].text


def test_no_part_of_the_results_is_missing(page):
    assert not [note.text for note in page.all("p") if "warning" in note.classes()]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_claim_appears_with_its_verdict(folder, parts):
    results = read(folder)
    (table,) = [t for t in parts[folder.name].all("table") if "claims" in t.classes()]
    rows = [row for row in next(tables(table.parent)) if row]
    assert len(rows) == len(results["claims"])
    for claim, (text, paper, ours, verdict) in zip(results["claims"], rows, strict=True):
        assert text[0] == one_line(f"{claim['text']} {claim['where']}")
        assert [paper[0], ours[0]] == [one_line(number(claim[key])) for key in ("paper", "ours")]
        assert verdict[0] == VERDICTS[claim["holds"]]
        for (shown, exact), key in ((paper, "paper"), (ours, "ours")):
            if isinstance(claim[key], float):
                assert float(exact or shown) == claim[key]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_figure_and_origin_appears(folder, parts):
    results, part = read(folder), parts[folder.name]
    sources = [image.attributes["src"] for image in part.all("img")]
    figures = [base64.b64decode(uri.partition("base64,")[2]) for uri in sources]
    assert figures == [path.read_bytes() for path in sorted(folder.glob("*.png"))]
    seeds = ", ".join(map(str, results["seeds"]))
    for text in (results["command"], results["device"], results["date"], seeds, results["title"]):
        assert text in part.text
    for version in results["versions"].values():
        assert version in part.text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_training_appears_with_its_measurements(folder, parts):
    results = read(folder)
    shown = {row[0][0]: row for table in tables(parts[folder.name]) for row in table if row}
    curves = dict.fromkeys(name for name, _ in points(parts[folder.name]))
    for name, cell in results["cells"].items():
        assert shown[name][1][0] == f"{cell['iterations']:,}"
        assert shown[name][2][1] == repr(float(cell["seconds"]))
        assert any(name.endswith(curve) for curve in curves)


def test_summary_counts_the_claims(page):
    claims = {flag: [] for flag in (True, False)}
    for folder in FOLDERS:
        results = read(folder)
        claims[results["of_the_paper"]] += [claim["holds"] for claim in results["claims"]]
    chapter = next(part for part in page.all("section") if "chapter" in part.classes())
    totals = [item.text for item in chapter.all("strong")]
    assert totals == [f"{sum(holds)} of {len(holds)}" for holds in (claims[True], claims[False])]
    counts = {row[0][0]: row[2][0] for row in next(tables(chapter)) if row}
    for folder in FOLDERS:
        holds = [claim["holds"] for claim in read(folder)["claims"]]
        assert counts[folder.name] == f"{sum(holds)} of {len(holds)}"
    of_the_paper = [read(RESULTS / name)["of_the_paper"] for name in counts]
    assert of_the_paper == sorted(of_the_paper, reverse=True)


def test_scores_of_joint_distributions_are_plotted(parts):
    facts = read(RESULTS / "joint-names")["facts"]
    chart = next(
        c for c in parts["joint-names"].all("svg") if c.attributes.get("aria-label") == "pair tv"
    )
    for kernel, curve in points(chart.parent):
        scores = facts["scores"][kernel]
        assert curve == [[k, f"{score['pair_tv']:.7g}"] for k, score in scores.items()]


def test_reports_of_experiments_load_no_torch():
    code = (
        "import sys; from pathlib import Path\n"
        "from discrete_meanflow.report import report_page\n"
        f"report_page([Path({str(RESULTS / 'joint-names')!r})])\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
