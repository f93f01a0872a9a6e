"""Trained runs in a browser: controls move, and the records are those of Python."""

import itertools
import math

import pytest
from browsing import LAPTOP, PHONE, sampled, shown, slide

from discrete_meanflow.run.json_files import read_json


def records(page, column=0, panel=0):
    box = page.locator(".run").nth(panel).locator(".records").nth(column)
    return box.locator("[data-record]").evaluate_all("rows => rows.map((row) => row.ariaLabel)")


def test_records_are_those_of_python(runs, models):
    model = models["names"]
    assert records(runs) == model.sample(24, seed=1)
    slide(runs, "steps", 64)
    shown(runs, "runs", steps=[64])
    assert runs.inner_text("#steps-shown") == "64"
    assert records(runs) == model.sample(24, 64, seed=1)
    sampled(runs, count=7)
    assert records(runs) == model.sample(7, 64, seed=1)
    runs.click("button:text('Sample')")
    shown(runs, "runs", seed=2)
    assert records(runs) == model.sample(7, 64, seed=2)


def test_several_steps_start_from_the_same_noise(runs, models):
    slide(runs, "steps", 2)
    runs.check("#compare")
    shown(runs, "runs", steps=[1, 2, 4, 16])
    for column, steps in enumerate((1, 2, 4, 16)):
        assert records(runs, column) == models["names"].sample(24, steps, seed=1)


@pytest.mark.parametrize("width", [LAPTOP, PHONE])
@pytest.mark.parametrize("kind", ["names", "table", "array", "smiles"])
def test_records_of_the_same_noise_are_in_one_row(kind, width, runs, models):
    """Whatever their heights: some molecules are drawn, some texts need two lines."""
    runs.set_viewport_size({"width": width, "height": 800})
    runs.select_option("#run-0", str(list(models).index(kind)))
    slide(runs, "steps", 64)
    runs.check("#compare")
    sampled(runs, count=9)
    for i in (0, 8):
        rows = runs.locator(f".records [data-record='{i}']").all()
        boxes = [row.bounding_box() for row in rows]
        assert len(boxes) == 4
        assert max(box["y"] for box in boxes) - min(box["y"] for box in boxes) < 1
        assert all(a["x"] < b["x"] for a, b in itertools.pairwise(boxes))
    canvases = runs.locator(".records canvas").all()
    widths = [(c.bounding_box()["width"], c.get_attribute("width")) for c in canvases]
    column = runs.locator(".column").first.bounding_box()["width"]
    assert all(shown <= min(column, int(full)) for shown, full in widths)
    assert runs.evaluate("document.documentElement.scrollWidth") == width


def test_clicked_position_is_an_infill(runs, models):
    first = records(runs)[3]
    runs.click(".records [data-record='3'] [data-position='1']")
    shown(runs, "runs")
    exact = models["names"].sample(24, seed=1, infill=f"?{first[1]}")
    assert records(runs) == exact
    assert runs.locator(".fixed").count() == 24
    opacity = lambda: runs.eval_on_selector(".run button", "b => getComputedStyle(b).opacity")  # noqa: E731
    assert opacity() == "1"
    runs.click("text=Clear fixed")
    shown(runs, "runs")
    assert records(runs)[3] == first
    assert opacity() == "0.5"  # nothing is left to clear


def test_pointer_shows_the_law_of_a_position(runs, client):
    body = {"count": 24, "steps": [1], "seed": 1}
    laws = client.post("/api/runs/0/samples", json=body).json()["columns"][0]["laws"]
    symbols = client.get("/api/start").json()["runs"][0]["symbols"][0]
    for record, position in ((2, 1), (20, 0)):
        runs.hover(f".records [data-record='{record}'] [data-position='{position}']")
        assert f"of record {record + 1}" in runs.inner_text("#law h2")
        names = runs.locator("#law dt").all_inner_texts()
        shares = [float(t.removesuffix(" %")) for t in runs.locator("#law dd").all_inner_texts()]
        pairs = laws[record][position]
        assert names == [symbols[token] for token, _ in pairs]
        assert shares == pytest.approx([100 * share for _, share in pairs], abs=0.51)


def test_keys_reach_records(runs):
    runs.focus(".records")
    for key in ("PageUp",) * 24 + ("Home", "ArrowDown", "ArrowRight"):
        runs.keyboard.press(key)
    assert "Position 2 of record 2" in runs.inner_text("#law h2")


def test_quality_is_that_of_the_evaluation(runs, models):
    scores = read_json(models["names"].folder / "evaluation.json")["scores"]
    for name in ("C2ST AUC", "unique"):
        runs.select_option("#score-0", name)
        samples, held_out = runs.evaluate(
            "document.querySelector('.chart .plot').data.map((d) => d.y)"
        )
        assert held_out == [scores["held out"][name]] * 2
        assert samples == [row[name] for key, row in scores.items() if key != "held out"]


@pytest.mark.parametrize("kind", ["table", "array", "smiles"])
def test_runs_of_each_kind_are_shown(kind, runs, models):
    model = models[kind]
    runs.select_option("#run-0", str(list(models).index(kind)))
    shown(runs, "runs")
    sample = model.sample(24, seed=1)
    if kind == "table":
        cells = runs.locator(".records [data-record='5'] td").all_inner_texts()
        assert cells == list(map(str, sample[5]))
    if kind == "array":
        sizes = runs.locator(".records canvas").evaluate_all("all => all.map((c) => c.width)")
        assert len(sizes) == 24
        _, classes = model.sample(24, seed=1, labels=True)
        assert runs.locator(".records .class").all_inner_texts() == classes
        runs.select_option("#class-0", label="class 3")
        shown(runs, "runs")
        assert set(runs.locator(".records .class").all_inner_texts()) == {"class 3"}
    if kind == "smiles":
        assert records(runs) == list(sample)
        invalid = runs.locator(".records .class", has_text="not valid").count()
        assert invalid + runs.locator(".records img").count() == 24


def test_two_runs_are_side_by_side(runs, models):
    runs.select_option("#second", "3")
    shown(runs, "runs")
    assert records(runs) == models["names"].sample(24, seed=1)
    assert records(runs, panel=1) == list(models["smiles"].sample(24, seed=1))
    left, right = (runs.locator(".run").nth(i).bounding_box() for i in (0, 1))
    assert math.isclose(left["y"], right["y"])
    assert left["x"] + left["width"] < right["x"]
