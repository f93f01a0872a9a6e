"""Every number of a question is bounded."""

import json
import math

import pytest

RATES = [[0, 2], [2, 0]]
CHAIN = {"rates": RATES, "r": 0, "t": 0.5, "start": 0, "draws": 100, "seed": 0}
SAMPLES = {"count": 2, "steps": [1], "seed": 0, "fixed": []}
HUGE = 10**400
WRONG = [math.nan, math.inf, -math.inf, -1, HUGE, -HUGE, None, "x", [], {}, 1e308]


@pytest.mark.parametrize("body", [b"[" * 60_000, b"{", b"\xff", b"1" * 60_000, b'"a"', b"null"])
def test_bodies_that_are_no_question_are_refused(body, client):
    response = client.post("/api/chain", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)


@pytest.mark.parametrize("field", CHAIN)
@pytest.mark.parametrize("value", WRONG, ids=str)
def test_numbers_of_a_chain_are_bounded(field, value, client):
    refused(client, "/api/chain", CHAIN | {field: value})
    if field == "rates":
        refused(client, "/api/chain/train", {"rates": [[0, value], [1, 0]]})


@pytest.mark.parametrize("field", SAMPLES)
@pytest.mark.parametrize("value", WRONG, ids=str)
def test_numbers_of_samples_are_bounded(field, value, client):
    if (field, value) == ("fixed", []):
        return  # nothing is fixed
    refused(client, "/api/runs/0/samples", SAMPLES | {field: value})


def refused(client, path, question):
    """The question is answered by one line."""
    body = json.dumps(question)
    response = client.post(path, content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422), response.text
    line = response.json().get("error") or response.json()["detail"]
    assert len(line.splitlines()) == 1
    assert not line.startswith("Value error")


@pytest.mark.parametrize(
    "change",
    [
        {"rates": [[0, 1], [1]]},
        {"rates": [[1, 1], [1, 0]]},
        {"rates": [[0, 0], [0, 0]]},
        {"rates": [[0]]},
        {"rates": [[0] * 13] * 13},
        {"rates": [[0, 50.1], [1, 0]]},
        {"t": 0},
        {"r": 0.6},
        {"start": 2},
        {"draws": 10_001},
        {"seed": 2**32},
        {"seed": 0.5},
        {"more": 1},
    ],
    ids=str,
)
def test_impossible_chains_are_refused(change, client):
    refused(client, "/api/chain", CHAIN | change)


@pytest.mark.parametrize(
    "change",
    [
        {"count": 201},
        {"count": 0},
        {"steps": [0]},
        {"steps": [65]},
        {"steps": [1] * 7},
        {"fixed": [[15, 0]]},
        {"fixed": [[-1, 0]]},
        {"fixed": [[0, 27]]},
        {"fixed": [[0, -1]]},
        {"fixed": [[0, HUGE]]},
        {"fixed": [[0]]},
    ],
    ids=str,
)
def test_impossible_samples_are_refused(change, client):
    refused(client, "/api/runs/0/samples", SAMPLES | change)


@pytest.mark.parametrize("run", ["4", "-1", "x", "0.5", str(HUGE), "../0", "%2e%2e"])
def test_unknown_runs_are_refused(run, client):
    response = client.post(f"/api/runs/{run}/samples", json=SAMPLES)
    assert response.status_code in (404, 422)
