"""The server answers its own page only, in bounded requests, whatever is sent to it."""

import json
import math
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import given, settings, strategies as st

from discrete_meanflow.explore.guard import LARGEST_BODY

RATES = [[0, 2], [2, 0]]
CHAIN = {"rates": RATES, "r": 0, "t": 0.5, "start": 0, "draws": 100, "seed": 0}
SAMPLES = {"count": 2, "steps": [1], "seed": 0, "fixed": []}
HUGE = 10**400
WRONG = [math.nan, math.inf, -math.inf, -1, HUGE, -HUGE, None, "x", [], {}, 1e308]


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost", "LOCALHOST:9999", "[::1]:1"])
def test_names_of_this_machine_are_answered(host, client):
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "127.0.0.1.evil.com",
        "localhost.evil.com:80",
        "10.0.0.1",
        "",
        "localhost:x",
        ":80",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/start", "/explore/app.js"])
def test_foreign_hosts_are_refused(host, path, client):
    response = client.get(path, headers={"host": host})
    assert response.status_code == 403
    assert list(response.json()) == ["error"]


@pytest.mark.parametrize("origin", ["http://evil.com", "null", "https://{}", "http://localhost"])
def test_foreign_origins_are_refused(origin, client):
    host = client.base_url.netloc.decode()
    headers = {"origin": origin.format(host)}
    assert client.post("/api/chain", json=CHAIN, headers=headers).status_code == 403
    assert client.get("/api/start", headers=headers).status_code == 403
    assert client.get("/api/start", headers={"origin": f"http://{host}"}).status_code == 200


def test_only_this_machine_is_listened_to(address):
    port = int(address.rpartition(":")[2])
    with socket.socket() as other:
        other.settimeout(1)
        assert other.connect_ex(("127.0.0.2", port)) != 0


def test_large_bodies_are_refused(client):
    fitting, larger = (b" " * size for size in (LARGEST_BODY, LARGEST_BODY + 1))
    headers = {"content-type": "application/json"}
    assert client.post("/api/chain", content=fitting, headers=headers).status_code == 422
    assert client.post("/api/chain", content=larger, headers=headers).status_code == 413
    parts = iter([b"[" * 30_000] * 3)  # without a length
    assert client.post("/api/chain", content=parts, headers=headers).status_code == 413


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


PATHS = st.lists(
    st.sampled_from(["..", ".", "%2e%2e", "%2f", "\\", "etc", "passwd", "explore", "web", "static",
                     "server.py", "config.json", "weights.safetensors", "app.js", "%00"]),
    min_size=1, max_size=6,
)  # fmt: skip


@given(parts=PATHS)
@settings(max_examples=150)
def test_no_path_leads_to_other_files(parts, address):
    """Whatever is requested, the answer is one of the page's own files or none."""
    path = "/" + "/".join(parts)
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as raw:  # no client that tidies the path
        raw.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    allowed = {"/explore/app.js", "/web/app.js"}
    assert b" 404 " in answer.splitlines()[0] or path in allowed


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/explore/index.html"])
def test_the_server_has_no_other_pages(path, client):
    assert client.get(path).status_code == 404


def test_the_browser_enforces_that_nothing_leaves(client):
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert not {"http:", "https:", "*", "'unsafe-eval'"} & set(policy.replace(";", "").split())


def test_plotly_is_kept_by_the_browser(client):
    page = client.get("/").text
    name = next(part for part in page.split('"') if "plotly" in part)
    response = client.get(f"/{name}")
    assert "immutable" in response.headers["cache-control"]
    assert len(response.content) > 1e6


def test_twenty_clients_get_their_own_answers(address):
    """Each asks for its own seed and time, over and over, and always gets the same."""

    def answers(i):
        chain = CHAIN | {"t": 0.5 + i / 100, "seed": i}
        samples = SAMPLES | {"seed": i, "steps": [1, 3]}
        with httpx.Client(base_url=address, timeout=60) as client:
            made = []
            for _ in range(2):
                exact = client.post("/api/chain", json=chain).json()["exact"]
                columns = client.post("/api/runs/0/samples", json=samples).json()["columns"]
                texts = [[record["text"] for record in c["records"]] for c in columns]
                made.append((exact, texts))
        return made

    with ThreadPoolExecutor(20) as threads:
        together = list(threads.map(answers, range(20)))
    assert together == [answers(i) for i in range(20)]
    assert len({json.dumps(made) for made in together}) == 20
