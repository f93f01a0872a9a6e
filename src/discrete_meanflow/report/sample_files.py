"""Files of samples, of which the page shows the first lines."""

import gzip
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from discrete_meanflow.errors import InputError
from discrete_meanflow.files import check_regular_file
from discrete_meanflow.report.blocks import Block, Details, Note, shortened

SHOWN_LINES = 10
MOST_CHARACTERS = 300  # of a line
MOST_FILES = 24
PATTERNS = ("samples-*.gz", "samples/*.txt.gz")


@dataclass(frozen=True)
class Lines(Block):
    """Lines of a text file."""

    template: ClassVar[str] = "lines.html"
    text: str


def sample_file_blocks(folder: Path) -> Iterator[Block]:
    """The first lines of each sample file in a folder, by increasing number of steps."""
    paths = sorted(
        itertools.chain.from_iterable(folder.glob(pattern) for pattern in PATTERNS), key=_order
    )
    if paths:
        yield Note("The first lines of each file of samples; names end with the number of steps.")
    for path in paths[:MOST_FILES]:
        yield Details(path.name, (_first_lines(path),))
    if len(paths) > MOST_FILES:
        yield Note(f"{len(paths) - MOST_FILES:,} more files are not shown.")


def _order(path: Path) -> tuple[str, int, str]:
    name, _, steps = path.name.partition(".")[0].rpartition("-")
    return name, int(steps) if steps.isdecimal() else 0, path.name


def _first_lines(path: Path) -> Block:
    try:
        check_regular_file(path)
        with gzip.open(path, "rt", errors="replace") as file:
            lines = [file.readline(8 * MOST_CHARACTERS) for _ in range(SHOWN_LINES)]
    except (OSError, EOFError, ValueError, InputError) as error:
        return Note(f"{path.name} cannot be read: {shortened(str(error))}", warning=True)
    return Lines("\n".join(line.rstrip("\n")[:MOST_CHARACTERS] for line in lines if line))
