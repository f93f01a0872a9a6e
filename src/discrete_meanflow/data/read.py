"""Records from files, gzipped or not; what is wrong is told with file and line."""

import gzip
import zlib
from pathlib import Path

import numpy
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State


def text(path: Path) -> str:
    """A whole file as UTF-8."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"cannot read {path}: {what}") from None


def lines(path: Path) -> list[str]:
    """One record a line; empty lines are none."""
    found = [line for line in text(path).replace("\r\n", "\n").split("\n") if line]
    if not found:
        raise InputError(f"{path} is empty")
    return found


def fasta(path: Path) -> list[str]:
    """The sequences behind the ``>`` lines, each joined from its lines."""
    found: list[list[str]] = []
    for number, line in enumerate(text(path).splitlines(), 1):
        if line.startswith(">"):
            found.append([])
        elif line.strip():
            if not found:
                raise InputError(f"{path}, line {number}: a sequence before its '>' line")
            found[-1].append(line.strip())
    if not found:
        raise InputError(f"{path} has no '>' line: not a FASTA file")
    return ["".join(parts) for parts in found]


def whole_numbers(path: Path) -> State:
    """Rows of whole numbers with commas between: shape ``(rows, columns)``."""
    rows = []
    for number, line in enumerate(lines(path), 1):
        try:
            rows.append([int(cell) for cell in line.split(",")])
        except ValueError:
            raise InputError(f"{path}, line {number}: whole numbers with commas, please") from None
        if len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{path}, line {number}: {len(rows[-1])} numbers, the first line has {len(rows[0])}"
            )
    return torch.from_numpy(numpy.array(rows, dtype=numpy.int64))
