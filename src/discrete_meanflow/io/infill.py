"""Syntax of infilling patterns: ``ma??`` for text, ``colour=red`` for rows, ``0,?,3`` for arrays.

These functions split a pattern into its parts; the codecs turn the parts into tokens.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy

from discrete_meanflow.errors import InputError
from discrete_meanflow.printable import shown

UNKNOWN = "?"
ESCAPE = "\\"


def text_of(value: Any) -> str:
    """A value of a pattern as text."""
    try:
        return str(value)
    except ValueError:  # Python writes at most 4,300 digits
        raise InputError("infill: a number has too many digits") from None


def require_string(pattern: Any) -> str:
    if not isinstance(pattern, str):
        raise InputError(f"infill: must be a string such as 'ma??', got {shown(pattern)}")
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


def split_assignments(pattern: str) -> Iterator[tuple[str, list[str]]]:
    """The names of ``a=b|c,d>=5`` and the alternatives of each: ``b``, ``c`` and ``>=5``.

    A part without a name belongs to the one before. ``\\,`` is a comma, ``\\|`` a bar, and ``\\=``,
    ``\\<`` and ``\\>`` are parts of a name.
    """
    name = ""
    for part in filter(None, split_unescaped(pattern, ",")):
        [(left, equals, right)] = re.findall(r"\A((?:\\.|[^\\=<>]|\\\Z)*)(=?)(.*)", part, re.DOTALL)
        if equals or not right or left.strip():
            name = unescape(left)
        yield name, list(map(unescape, split_unescaped(right, "|")))


def split_unescaped(text: str, separator: str) -> list[str]:
    """The parts between the separators that no backslash escapes."""
    parts = [""]
    for symbol in re.findall(r"\\?.", text, re.DOTALL):
        if symbol == separator:
            parts.append("")
        else:
            parts[-1] += symbol
    return parts


def unescape(text: str) -> str:
    return re.sub(r"\\([\\,=|<>])", r"\1", text)


def split_cells(pattern: Any) -> list[str | None]:
    """The cells of ``0,?,3`` or of a nested list, None for each ``?`` or None."""
    if isinstance(pattern, list | tuple | numpy.ndarray):
        flat = numpy.asarray(pattern, dtype=object).ravel()
        cells = [UNKNOWN if cell is None else text_of(cell).strip() for cell in flat]
    else:
        text = require_string(pattern)
        cells = [cell.strip() for cell in text.split(",")] if text else []
    return [None if cell == UNKNOWN else cell for cell in cells]
