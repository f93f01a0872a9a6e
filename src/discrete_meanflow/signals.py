"""Being asked to stop."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker


@contextlib.contextmanager
def stop_requests(*numbers: signal.Signals) -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM set a flag, read between blocks; a second Ctrl-C is obeyed at once."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        if number == signal.SIGINT and len(asked) == 1:
            # os.write, because a signal may come in the middle of another print
            os.write(2, b"\nstopping after this block; Ctrl-C again stops at once\n")
        if len(asked) > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt

    # Only the main thread may listen; elsewhere whoever runs the thread decides.
    main = threading.current_thread() is threading.main_thread()
    numbers = (numbers or (signal.SIGINT, signal.SIGTERM)) if main else ()
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM is obeyed as Ctrl-C is: what was begun is cleared away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def blocked_signal(number: signal.Signals) -> Iterator[None]:
    """A signal that comes meanwhile is obeyed at the end; processes started meanwhile never see it.

    To ignore it meanwhile would keep it from them as well, and lose it for us.
    """
    resource_tracker.ensure_running()  # its start, with the first process, would let signals in
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
