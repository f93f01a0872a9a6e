"""The page in a browser: controls move, numbers are those of Python, and nothing is complained of.

``DMF_PICTURES=docs/images`` keeps the pictures of the documentation.
"""

import json
import math
import os
from pathlib import Path

import pytest
import torch
from test_chain_numbers import generator_of

from discrete_meanflow import identity_residual, mean_rate, transition
from discrete_meanflow.ctmc import paper_chains, ring
from discrete_meanflow.run.json_files import read_json

LAPTOP, PHONE = 1280, 390  # pixels wide
LARGEST_PICTURE = 150_000  # bytes
TRAINING = 120_000  # milliseconds that a kernel may take on a busy machine


@pytest.fixture(scope="module")
def open_page(browser, address):
    """Opens a view; no page may complain, nor ask another host for anything."""
    complaints, pages = [], []

    def opened(view, width=LAPTOP, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((address, "data:")) or complaints.append(request.url)
            ),
        )
        page.goto(f"{address}/#{view}")
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert not complaints


def shown(page, view, **expected):
    """Wait until a view shows the answer to a question with these values; return the question."""
    page.wait_for_function(
        """([view, expected]) => {
          const box = document.getElementById(view);
          if (box.ariaBusy !== "false") return false;
          const question = JSON.parse(box.dataset.question);
          return Object.entries(expected).every(
            ([key, value]) => JSON.stringify(question[key]) === JSON.stringify(value));
        }""",
        arg=[view, expected],
    )
    return json.loads(page.get_attribute(f"#{view}", "data-question"))


def slide(page, name, value):
    page.locator(f"#{name}").fill(str(value))


# The finite chain.


@pytest.fixture(scope="module")
def chain_page(open_page, ring_rates):
    page = open_page("chain")
    page.locator("#chain[data-learned=true]").wait_for(timeout=TRAINING)
    return page


@pytest.fixture
def chain(chain_page):
    """The view of the ring, as it is when it is opened."""
    chain_page.select_option("#preset", "ring")
    for name, value in (("r", 0), ("t", 0.6), ("draws", 1000), ("chain-seed", 0)):
        slide(chain_page, name, value)
    chain_page.press("#draws", "Enter")
    chain_page.select_option("#start", "0")
    shown(chain_page, "chain", r=0, t=0.6, start=0, draws=1000, seed=0)
    chain_page.locator("#chain[data-learned=true]").wait_for()
    return chain_page


def matrix(page, title):
    """The numbers of a heatmap, from what the pointer shows."""
    rows = page.locator(f"table[aria-label='{title}'] tbody tr").all()
    titles = [row.locator("td").evaluate_all("cells => cells.map((c) => c.title)") for row in rows]
    return torch.tensor(
        [[float(text.rpartition("= ")[2]) for text in row] for row in titles]
    ).double()


def texts(page, title):
    return page.locator(f"table[aria-label='{title}'] td").all_inner_texts()


def close(a, b):
    return torch.allclose(a, b, rtol=1e-5, atol=1e-12)


def test_matrices_are_those_of_python(chain, client):
    slide(chain, "t", 0.83)
    slide(chain, "r", 0.27)
    chain.select_option("#start", "2")
    question = shown(chain, "chain", r=0.27, t=0.83, start=2)
    u, exact = ring(), transition(ring(), 0.27, 0.83)
    assert close(matrix(chain, "True kernel K"), exact)
    assert close(matrix(chain, "Mean rate ū"), mean_rate(u, 0.27, 0.83))
    written = [float(text.replace("−", "-")) for text in texts(chain, "True kernel K")]
    assert torch.allclose(torch.tensor(written).double(), exact.flatten(), atol=6e-4)
    learned = client.post("/api/chain", json=question).json()["learned"]
    for title, name in (("Learned kernel Kθ", "kernel"), ("Difference Kθ − K", "difference"),
                        ("Learned residual", "residual")):  # fmt: skip
        assert close(matrix(chain, title), torch.tensor(learned[name]).double())
    residual = float(chain.inner_text("#learned-residual"))
    assert residual == pytest.approx(max(abs(x) for row in learned["residual"] for x in row), 0.05)
    exact_residual = identity_residual(u, 0.27, 0.83).abs().max().item()
    assert float(chain.inner_text("#exact-residual")) == pytest.approx(exact_residual, rel=0.05)


def test_charts_are_those_of_python(chain, client):
    slide(chain, "t", 0.4)
    slide(chain, "draws", 300)
    chain.press("#draws", "Enter")
    question = shown(chain, "chain", t=0.4, draws=300)
    view = client.post("/api/chain", json=question).json()
    bars, marks = chain.evaluate("document.getElementById('histogram').data.map((d) => [...d.y])")
    assert bars == view["learned"]["samples"]
    assert marks == transition(ring(), 0.0, 0.4)[:, 0].tolist()
    assert f"law {view['learned']['tv']:.4f}" in chain.inner_text("#samples-note")
    areas = chain.evaluate("document.getElementById('flow').data.slice(0, 3).map((d) => [...d.y])")
    times = torch.linspace(0, 1, 65, dtype=torch.float64)
    assert areas == transition(ring(), 0.0, times)[..., 0].T.tolist()
    line, axis = (chain.locator(part).bounding_box() for part in ("#now", "#flow .nsewdrag"))
    assert line["x"] + 1 == pytest.approx(axis["x"] + 0.4 * axis["width"], abs=1)
    assert (line["y"], line["height"]) == pytest.approx((axis["y"], axis["height"]), abs=1)


def test_handles_move_by_keys_and_do_not_cross(chain):
    chain.focus("#t")
    chain.keyboard.press("ArrowLeft")
    shown(chain, "chain", t=0.59)
    chain.focus("#r")
    chain.keyboard.press("End")
    shown(chain, "chain", r=0.58, t=0.59)
    assert chain.inner_text("label[for=r]") == "r = 0.58"


def test_handles_are_dragged(chain):
    track = chain.locator(".track").bounding_box()
    y = track["y"] + track["height"] / 2
    place = lambda share: track["x"] + 10 + share * (track["width"] - 20)  # noqa: E731
    for name, start, end in (("t", 0.6, 0.9), ("r", 0.0, 0.3)):
        chain.mouse.move(place(start), y)
        chain.mouse.down()
        chain.mouse.move(place(end), y, steps=4)
        chain.mouse.up()
        assert float(chain.input_value(f"#{name}")) == pytest.approx(end, abs=0.015)


def test_edited_rates_are_followed_by_the_exact_kernel(chain, ring_rates):
    chain.fill("[aria-label='rate from 0 to 1']", "7.5")
    rates = [row[:] for row in ring_rates]
    rates[1][0] = 7.5
    shown(chain, "chain", rates=rates)
    assert close(matrix(chain, "True kernel K"), transition(generator_of(rates), 0, 0.6))
    assert set(texts(chain, "Learned kernel Kθ")) == {"–"}
    assert chain.locator("#train").is_visible()
    assert chain.inner_text("#rates .diagonal >> nth=0") == "−8.5"
    for wrong in ("-1", "51", ""):
        chain.fill("[aria-label='rate from 0 to 1']", wrong)
        assert chain.get_attribute("[aria-label='rate from 0 to 1']", "aria-invalid") == "true"
    assert shown(chain, "chain")["rates"] == rates


def test_clicked_column_is_the_start(chain):
    chain.click("table[aria-label='True kernel K'] td[data-x='1'] >> nth=0")
    shown(chain, "chain", start=1)
    assert chain.input_value("#start") == "1"


@pytest.mark.parametrize("name", paper_chains())
def test_every_chain_is_shown(name, open_page, chain):
    if name == "ring":
        return  # its kernel is the only one that is trained here
    u = paper_chains()[name]
    rates = (u.matrix - torch.diag(u.matrix.diagonal())).tolist()
    chain.route("**/api/chain/train", lambda route: route.fulfill(json={}))
    chain.select_option("#preset", name)
    shown(chain, "chain", rates=[[int(x) if x == int(x) else x for x in row] for row in rates])
    assert close(matrix(chain, "True kernel K"), transition(u, 0, 0.6))
    chain.unroute("**/api/chain/train")


# Trained runs.


@pytest.fixture(scope="module")
def runs_page(open_page):
    return open_page("runs")


@pytest.fixture
def runs(runs_page):
    """The view of runs with the first records of ``names``."""
    page = runs_page
    page.uncheck("#compare")
    page.select_option("#second", "")
    page.select_option("#run-0", "0")
    page.fill("#count", "24")
    slide(page, "steps", 1)
    return sampled(page, seed=1)


def sampled(page, **fields):
    """Type values into fields, and wait for the records."""
    for name, value in fields.items():
        page.fill(f"#{name}", str(value))
        page.press(f"#{name}", "Enter")
    shown(page, "runs", **fields)
    return page


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


def test_clicked_position_is_an_infill(runs, models):
    first = records(runs)[3]
    runs.click(".records [data-record='3'] [data-position='1']")
    shown(runs, "runs")
    exact = models["names"].sample(24, seed=1, infill=f"?{first[1]}")
    assert records(runs) == exact
    assert runs.locator(".fixed").count() == 24
    runs.click("text=Clear fixed")
    shown(runs, "runs")
    assert records(runs)[3] == first


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


# Both views.


@pytest.mark.parametrize("view", ["chain", "runs"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_needs_no_horizontal_scrolling(view, scheme, open_page):
    page = open_page(view, PHONE, scheme)
    shown(page, view)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    background, ink = page.evaluate(
        "(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))"
    )
    levels = [sum(map(int, value[4:-1].split(","))) for value in (background, ink)]
    assert (levels[0] > levels[1]) is (scheme == "light")


@pytest.mark.parametrize("view", ["chain", "runs"])
def test_every_control_has_a_name(view, open_page):
    page = open_page(view)
    shown(page, view)
    names = page.locator("input, select, button, [tabindex]").evaluate_all(
        """controls => controls.filter((c) => c.checkVisibility()).map((c) =>
          c.ariaLabel || c.labels?.[0]?.textContent || c.textContent)"""
    )
    assert len(names) > 5
    assert all(name.strip() for name in names)
    page.locator("nav a").first.focus()
    page.keyboard.press("Enter")
    page.locator("nav [aria-current]", has_text="Finite chain").wait_for()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((part) => part.id)")
    assert len(ids) == len(set(ids))


def test_errors_are_shown_until_the_next_answer(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/#chain")
    alert = page.get_by_role("alert")
    for answer, text in (
        (lambda route: route.abort(), "start dmf explore again"),
        (lambda route: route.fulfill(status=500, body="x"), "an error: 500"),
        (lambda route: route.fulfill(status=422, json={"error": "too busy"}), "too busy"),
    ):
        shown(page, "chain")
        page.route("**/api/chain", answer)
        page.press("#t", "ArrowLeft")
        alert.filter(has_text=text).wait_for()
        page.unroute("**/api/chain")
        page.press("#t", "ArrowLeft")
        alert.wait_for(state="hidden")
    refuse = lambda route: route.fulfill(status=422, json={"error": "too many"})  # noqa: E731
    page.route("**/api/chain/train", refuse)
    page.select_option("#preset", "two-state")
    alert.filter(has_text="too many").wait_for()
    assert page.locator("#train").is_visible()
    page.close()


def test_pictures_of_the_documentation(open_page, chain, runs, tmp_path):
    """One of each view, at laptop and phone width; small enough for a repository."""
    folder = Path(os.environ.get("DMF_PICTURES", tmp_path))
    chain.locator("h1").click()
    save(chain, folder / "explore-chain.png")
    runs.hover(".records [data-record='2'] [data-position='1']")
    save(runs, folder / "explore-run.png")
    runs.check("#compare")
    slide(runs, "steps", 64)
    sampled(runs, count=12)
    save(runs, folder / "explore-steps.png")
    phone = open_page("chain", PHONE, "dark")
    phone.locator("#chain[data-learned=true]").wait_for(timeout=TRAINING)
    save(phone, folder / "explore-phone.png")


def save(page, path):
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=path, full_page=page.viewport_size["width"] == LAPTOP)
    assert path.stat().st_size < LARGEST_PICTURE
