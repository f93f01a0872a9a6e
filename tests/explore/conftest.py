"""One server of the explorer for all tests, with runs of several kinds."""

import threading

import httpx
import pytest
import uvicorn
from browsing import LAPTOP, TRAINING, sampled, shown, slide

from discrete_meanflow import OneStepModel
from discrete_meanflow.explore import create_app
from discrete_meanflow.explore.serve import listen
from discrete_meanflow.pretrained import pretrained_folder
from pages import random_run

KINDS = {"names": 0, "table": 0, "array": 5, "smiles": 0}  # runs, and their numbers of classes


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The runs that the server shows, in the order of their numbers."""
    root = tmp_path_factory.mktemp("explore")
    made = {
        kind: random_run(root / kind, kind, classes)
        for kind, classes in KINDS.items()
        if kind != "names"
    }
    return {"names": OneStepModel.load(pretrained_folder("names"), "cpu"), **made}


@pytest.fixture(scope="session")
def address(models):
    """The address of a running server."""
    app = create_app([model.folder for model in models.values()])
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    with listen(0) as listener:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def client(address):
    with httpx.Client(base_url=address, timeout=60) as made:
        yield made


@pytest.fixture
def ask(client):
    """The answer to a question, which must be accepted."""

    def answer(path, **question):
        response = client.post(path, json=question)
        assert response.status_code == 200, response.text
        return response.json()

    return answer


@pytest.fixture(scope="session")
def ring_rates(client):
    """The rates of the ring, whose kernel the server has begun to train."""
    rates = client.get("/api/start").json()["chains"]["ring"]
    client.post("/api/chain/train", json={"rates": rates})
    return rates


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def runs_page(open_page):
    return open_page("runs")


@pytest.fixture
def runs(runs_page):
    """The view of runs with the first records of ``names``."""
    page = runs_page
    page.set_viewport_size({"width": LAPTOP, "height": 800})
    page.uncheck("#compare")
    page.select_option("#second", "")
    page.select_option("#run-0", "0")
    page.fill("#count", "24")
    slide(page, "steps", 1)
    return sampled(page, seed=1)
