"""Kinds of data: how each is detected, read and written."""

import re
from pathlib import Path

from discrete_meanflow.data.content import beginning
from discrete_meanflow.data.kind.base import Kind
from discrete_meanflow.data.kind.structured import Array, Table
from discrete_meanflow.data.kind.text import (
    Fasta,
    Lines,
    Smiles,
    Tokenised,
    TokenisedWindows,
    Windows,
)
from discrete_meanflow.data.read_table import consistent_delimiters
from discrete_meanflow.data.write import JSON_SUFFIXES
from discrete_meanflow.errors import InputError

MAX_RECORD = 512  # characters of a line; a text with longer lines is cut into windows
JSON = re.compile(r"""\s*(\{\s*"|\[\s*[{\["])""")  # start of an object or of a list of them
KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (Lines, Tokenised, Windows, TokenisedWindows, Smiles, Fasta, Table, Array)
}
__all__ = [
    "KINDS", "Array", "Fasta", "Kind", "Lines", "Smiles", "Table", "Tokenised",
    "TokenisedWindows", "Windows", "detect", "find_kind",
]  # fmt: skip


def find_kind(name: str) -> Kind:
    if name not in KINDS:
        raise InputError(f"unknown kind '{name}'; choose one of {', '.join(KINDS)}")
    return KINDS[name]()


def detect(path: Path) -> Kind:
    """Detect the kind of a file from its suffix, else from its first lines."""
    name = path.name.lower().removesuffix(".gz")
    for kind in KINDS.values():
        if name.endswith(kind.suffixes):
            return kind()
    start = beginning(path)
    if name.endswith(JSON_SUFFIXES) or JSON.match(start):
        raise InputError(
            f"{path} is JSON, whose fields are not parsed; convert it to .csv, or use --kind lines "
            "to take each line as one record"
        )
    lines = start.rstrip("\n").split("\n")
    if start.startswith(">"):
        return Fasta()
    # Blank lines between paragraphs, or long lines, indicate one text.
    if lines.count("") > max(1, len(lines) // 50) or max(map(len, lines)) > MAX_RECORD:
        return Windows()
    return Table() if consistent_delimiters(lines[:50]) else Lines()
