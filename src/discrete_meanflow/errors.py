"""User errors versus internal errors.

The command line prints an :class:`InputError` as one line and exits with 2. Any other exception is
a bug in the library: it exits with 70 and writes a log.
"""

import contextlib
from collections.abc import Iterator

from discrete_meanflow.printable import printable


class InputError(ValueError):
    """Invalid input. The message is one line: what is wrong, where, and what to do.

    It may repeat what the user or a file says: it is made printable, and shortened.
    """

    def __init__(self, message: object) -> None:
        super().__init__(printable(" ".join(str(message).split())))


class DataError(InputError):
    """Invalid data. The caller that knows the file name adds it to the message."""


@contextlib.contextmanager
def error_context(place: object) -> Iterator[None]:
    """Prefix every :class:`InputError` with a location."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


class Interrupted(Exception):  # noqa: N818 - it is not an error
    """The user asked to stop, and all progress is saved. The message says how to resume."""
