"""What the user can mend, told apart from what we must mend.

The command line shows an :class:`InputError` as one line and exits with 2; any other
exception is a bug of the library and exits with 70 and a log.
"""

import contextlib
from collections.abc import Iterator


class InputError(ValueError):
    """Bad input: the message is one line, names the place and says what to do."""


class DataError(InputError):
    """Of the data themselves, which do not know their file: who does puts it before."""


@contextlib.contextmanager
def error_context(place: object) -> Iterator[None]:
    """Puts the place before what is said of bad input."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


class Interrupted(Exception):  # noqa: N818 - it is no error
    """The user asked to stop; everything up to here is saved. It says how to go on."""
