"""Syntax of infilling patterns: ``ma??`` for text, ``colour=red`` for rows, ``0,?,3`` for arrays.

These functions split a pattern into its parts; the codecs turn the parts into tokens.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy

from discrete_meanflow.errors import InputError

UNKNOWN = "?"
ESCAPE = "\\"


def require_string(pattern: Any) -> str:
    if not isinstance(pattern, str):
        raise InputError(f"infill: must be a string such as 'ma??', got {pattern!r}")
    return pattern


def split_characters(pattern: str, symbols: Collection[str]) -> Iterator[str | None]:
    """The characters of ``ma??``, None for each ``?``.

    ``\\?`` and ``\\\\`` escape; ``\\n`` and ``\\t`` are white space if ``symbols`` contain it.
    """
    escapes = {UNKNOWN: UNKNOWN, ESCAPE: ESCAPE}
    escapes |= {name: white for name, white in (("n", "\n"), ("t", "\t")) if white in symbols}
    characters = iter(pattern)
    for character in characters:
        if character == ESCAPE:
            escaped = next(characters, ESCAPE)
            if escaped not in escapes:
                raise InputError(
                    f"infill: unknown escape '{ESCAPE}{escaped}'; write a backslash as "
                    f"{ESCAPE}{ESCAPE}"
                )
            yield escapes[escaped]
        else:
            yield None if character == UNKNOWN else character


def split_assignments(pattern: str) -> Iterator[tuple[str, str]]:
    """The pairs of ``a=b,c=d``. ``\\,`` is a comma, ``\\=`` an equals sign in a name."""
    for part in re.findall(r"(?:\\.|[^\\,]|\\\Z)+", pattern, re.DOTALL):
        [sides] = re.findall(r"\A((?:\\.|[^\\=]|\\\Z)*)=?(.*)", part, re.DOTALL)
        name, level = (re.sub(r"\\([\\,=])", r"\1", side) for side in sides)
        yield name, level


def split_cells(pattern: Any) -> list[str | None]:
    """The cells of ``0,?,3`` or of a nested list, None for each ``?`` or None."""
    if isinstance(pattern, list | tuple | numpy.ndarray):
        flat = numpy.asarray(pattern, dtype=object).ravel()
        cells = [UNKNOWN if cell is None else str(cell).strip() for cell in flat]
    else:
        text = require_string(pattern)
        cells = [cell.strip() for cell in text.split(",")] if text else []
    return [None if cell == UNKNOWN else cell for cell in cells]
