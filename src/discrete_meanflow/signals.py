"""Stop requests: Ctrl-C and SIGTERM."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def stop_requests(*numbers: signal.Signals) -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and SIGTERM into a flag that is read between blocks.

    A second Ctrl-C raises ``KeyboardInterrupt`` at once.
    """
    received: list[int] = []

    def handle(number: int, frame: object) -> None:
        received.append(number)
        if number == signal.SIGINT and len(received) == 1:
            # os.write, because a signal may arrive in the middle of another print
            os.write(2, b"\nstopping after this block; press Ctrl-C again to stop at once\n")
        if len(received) > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt

    # Only the main thread may install handlers; elsewhere the owner of the thread decides.
    main = threading.current_thread() is threading.main_thread()
    numbers = (numbers or (signal.SIGINT, signal.SIGTERM)) if main else ()
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that unfinished work is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
