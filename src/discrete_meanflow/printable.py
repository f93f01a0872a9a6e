"""Text that can be shown to a person, whoever wrote it."""

import re

LONGEST = 1000  # characters of a message
# Terminals obey the first three groups; the last are lone surrogates, which cannot be encoded.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text with escaped control characters; if it is long, its beginning and its end."""
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown(value: object) -> str:
    """The ``repr`` of a value, or the name of its type if it has none."""
    try:
        return repr(value)
    except Exception:  # a class may raise anything, and Python for an integer of 4,300 digits
        return f"a value of type {type(value).__name__}"
