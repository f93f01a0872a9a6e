"""Run the server on this machine and open the page."""

import contextlib
import os
import socket
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from discrete_meanflow.errors import InputError
from discrete_meanflow.explore.server import create_app
from discrete_meanflow.run.progress import say

LOCALHOST = "127.0.0.1"  # no other machine reaches it


def serve(
    runs: Sequence[Path] = (), chain: str | None = None, port: int = 0, browser: bool = True
) -> None:
    """Show the page until Ctrl-C.

    Args:
        runs: see :func:`create_app`.
        chain: see :func:`create_app`.
        port: 0 takes a free one.
        browser: whether to open the page.
    """
    with listen(port) as listener:
        app = create_app(runs, chain)
        address = f"http://{LOCALHOST}:{listener.getsockname()[1]}"
        say(f"explorer: {address} (Ctrl-C stops it)")
        if browser:  # in a thread: browsers of the terminal run until they are closed
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        config = uvicorn.Config(
            app, ws="none", log_level="error", access_log=False, server_header=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn has stopped in order
            uvicorn.Server(config).run(sockets=[listener])


def listen(port: int) -> socket.socket:
    """A socket that accepts connections from this machine."""
    # asyncio sends small answers at once (TCP_NODELAY) if the protocol is named; else the system
    # holds them back for 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOCALHOST, port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on port {port}: {error.strerror}; choose another --port"
        ) from None
    listener.listen(128)
    return listener
