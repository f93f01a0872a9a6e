"""The page in a browser: no errors, values under the pointer, and a phone's width."""

from pathlib import Path

import pytest

from discrete_meanflow.report import report_page

RESULTS = Path(__file__).parent.parent.parent / "results"
PHONE = 390  # pixels wide


@pytest.fixture
def opened(browser, runs, tmp_path):
    """Returns a function that opens the page in a window; nothing may fail or be requested."""
    path = tmp_path / "page.html"
    folders = [
        *(runs / name for name in ("words", "images", "rows", "table")),
        RESULTS / "joint-names",
    ]
    path.write_bytes(report_page([*folders, RESULTS / "target-variance"]))
    problems, requested = [], []

    def open_page(width, scheme="light"):
        page = browser.new_page(
            viewport={"width": width, "height": 800}, color_scheme=scheme, has_touch=True
        )
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                problems.append(request.url)
                if not request.url.startswith(("data:", "file:"))
                else None
            ),
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    assert not problems
    assert not [url for url in requested if not url.startswith("data:") and url != path.as_uri()]


def test_pointer_shows_the_values_of_a_chart(opened):
    page = opened(1200)
    chart = page.locator("svg.chart[aria-label='loss: teacher']").last
    chart.scroll_into_view_if_needed()
    assert not page.locator("#tip").is_visible()
    chart.hover()
    step, loss = page.locator("#tip div").all_inner_texts()[:2]
    values = chart.locator("g.series").first.get_attribute("data-values")
    pairs = {
        f"training step: {float(x):,.0f}": float(y)
        for x, y in (p.split(",") for p in values.split())
    }
    assert float(loss.rpartition(": ")[2]) == pytest.approx(pairs[step], rel=1e-3)
    page.mouse.move(1, 1)
    assert not page.locator("#tip").is_visible()


def test_legend_hides_series(opened):
    page = opened(1200)
    charts = page.locator(".charts", has=page.locator("button", has_text="factorised")).first
    series = charts.locator("[data-name='factorised']").first
    button = charts.locator("button", has_text="factorised")
    assert series.is_visible()
    button.click()
    assert not series.is_visible()
    button.click()
    assert series.is_visible()


def test_claims_that_hold_can_be_hidden(opened):
    page = opened(1200)
    rows = page.locator("table.claims tr")
    holding, failing = rows.and_(page.locator(".yes")), rows.and_(page.locator(".no"))
    assert holding.first.is_visible()
    page.locator("#failing").check()
    assert not holding.first.is_visible()
    assert failing.first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_needs_no_horizontal_scrolling(opened, scheme):
    page = opened(PHONE, scheme)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    for verdict in page.locator("table.claims .verdict").all():
        assert verdict.bounding_box()["x"] + 20 < PHONE, "the verdict is out of sight"
    background, ink = page.evaluate(
        "(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))"
    )
    levels = [sum(map(int, value[4:-1].split(","))) for value in (background, ink)]
    assert (levels[0] > levels[1]) is (scheme == "light")
