"""Exported pages, and a browser that shows them."""

import functools
import http.server
import os
import threading
from pathlib import Path

import pytest

from discrete_meanflow.errors import InputError
from discrete_meanflow.web.runtime import find_runtime
from discrete_meanflow.web.site import export_site
from pages import fill, random_run, settle


@pytest.fixture(scope="session")
def runtime():
    """The folder of the real package."""
    named = os.environ.get("DMF_ONNXRUNTIME_WEB")
    try:
        return find_runtime(Path(named) if named else None).folder
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def exported(tmp_path_factory, browser, runtime):
    """Runs of three kinds and their pages, served by one server."""
    root = tmp_path_factory.mktemp("web")
    runs = {
        "lines": random_run(root / "runs-lines", "lines"),
        "table": random_run(root / "runs-table", "table"),
        "array": random_run(root / "runs-array", "array", classes=5),  # in base 3: two positions
    }
    for kind, model in runs.items():
        export_site(model, root / kind, runtime)
    handler = functools.partial(QuietHandler, directory=root)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield runs, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def open_pages(browser, exported):
    """Open the page of a kind once. It may not complain, nor ask another host for anything."""
    runs, address = exported
    pages, complaints = {}, []

    def open_page(kind):
        if kind not in pages:
            page = pages[kind] = browser.new_page()
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("requestfailed", lambda request: complaints.append(request.url))
            page.on("request", lambda r: r.url.startswith(address) or complaints.append(r.url))
            page.goto(f"{address}{kind}/")
            page.locator("#status", has_text="forward pass").wait_for(timeout=60_000)
        return runs[kind], pages[kind]

    return open_page, complaints


@pytest.fixture
def show(open_pages):
    """The page of a kind with its first records: seed 1, and nothing is fixed."""
    open_page, complaints = open_pages

    def first_records(kind):
        model, page = open_page(kind)
        if page.is_enabled("#release"):
            settle(page, lambda: page.click("#release"))
        fill(page, count=24, seed=1)
        return model, page

    yield first_records
    assert not complaints
