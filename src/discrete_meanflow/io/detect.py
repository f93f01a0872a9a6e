"""Detect the kind of data in a file."""

import re
from pathlib import Path

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.content import beginning
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.kinds import KINDS
from discrete_meanflow.io.table.read_table import consistent_delimiters
from discrete_meanflow.io.table.table_kind import Table
from discrete_meanflow.io.table.write_table import JSON_SUFFIXES
from discrete_meanflow.io.text_kinds import Fasta, Lines, Windows

MAX_RECORD = 512  # characters of a line; a text with longer lines is cut into windows
JSON = re.compile(r"""\s*(\{\s*"|\[\s*[{\["])""")  # start of an object or of a list of them


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
