"""Protection of a local server: it answers only its own page, in bounded requests."""

import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = {"127.0.0.1", "localhost", "[::1]"}
LARGEST_BODY = 64 * 1024  # bytes
# The page loads nothing from elsewhere, and the browser enforces it. Plotly writes inline styles.
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Guard:
    """Refuses what a page of another site could send, and large requests.

    The host must be this machine, whatever the port: a tunnel may change it. A name that an
    attacker points at 127.0.0.1 is another host.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        if problem := _foreign(scope):
            await _refuse(send, 403, problem)
            return
        body = await _read(receive)
        if body is None:
            await _refuse(send, 413, f"the request is larger than {LARGEST_BODY:,} bytes")
            return
        await self.app(scope, _replay(body, receive), _with_headers(send))


def _foreign(scope: Scope) -> str | None:
    """Why the request is not one of the page itself; None if it is."""
    sent = [(name.lower(), value.decode("latin-1").lower()) for name, value in scope["headers"]]
    hosts = [value for name, value in sent if name == b"host"]
    if len(hosts) != 1 or _without_port(hosts[0]) not in HOSTS:
        return "this server answers only requests to localhost"
    origins = {value for name, value in sent if name == b"origin"}
    if origins - {f"http://{hosts[0]}"}:
        return "this server answers only its own page"
    return None


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if name and port.isdecimal() else host


async def _read(receive: Receive) -> bytes | None:
    """The body of a request; None if it is too large."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            return None
        if not message.get("more_body"):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that returns the body first."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _with_headers(send: Send) -> Send:
    """A ``send`` that adds the headers of the policy."""

    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message["headers"], *added]
        await send(message)

    return add


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    send = _with_headers(send)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
