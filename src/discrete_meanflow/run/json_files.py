"""JSON records: written atomically, read from regular files only."""

import json
import re
from pathlib import Path
from typing import Any

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import read_regular_file, write_atomically

Json = dict[str, Any]
# A list of numbers over several lines. A string in JSON contains no line break, so none matches.
NUMBERS = re.compile(r'\[\n[^\[\]{}"]*\]')


def write_json(path: Path, content: Json) -> None:
    """Write a record; lists of numbers stand on one line, which makes it a third of the size."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    text = NUMBERS.sub(lambda numbers: " ".join(numbers[0].split()), text)
    write_atomically(path, text.encode() + b"\n")


def read_json(path: Path, remedy: str = "") -> Json:
    """Read a record.

    Args:
        path: the file.
        remedy: what the user should do if the file is missing or damaged.
    """
    advice = f"; {remedy}" if remedy else ""
    try:
        content = json.loads(read_regular_file(path).decode())
    except (InputError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}{advice}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a record of this program{advice}")
    return content
