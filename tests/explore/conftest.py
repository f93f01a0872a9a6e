"""One server of the explorer for all tests, with runs of several kinds."""

import threading

import httpx
import pytest
import uvicorn

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
