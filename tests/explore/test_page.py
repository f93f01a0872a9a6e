"""Both views in a browser: widths, names of controls, errors and pictures.

``DMF_PICTURES=docs/images`` keeps the pictures of the documentation.
"""

import os
from pathlib import Path

import pytest
from browsing import LAPTOP, PHONE, TRAINING, sampled, shown, slide

LARGEST_PICTURE = 150_000  # bytes


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
