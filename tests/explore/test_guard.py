"""The server answers its own page only, in bounded requests, whatever is sent to it."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import given, settings, strategies as st
from test_bounds import CHAIN, SAMPLES

from discrete_meanflow.explore.guard import LARGEST_BODY


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


def test_answers_are_sent_at_once(client):
    """They take 40 ms if the system waits for an acknowledgement before it sends the body."""
    times = []
    for _ in range(30):
        started = time.perf_counter()
        client.get("/web/icon.svg")
        times.append(time.perf_counter() - started)
    assert min(times[10:]) < 0.03  # the first ones are acknowledged at once


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
