"""What samples are conditioned on: patterns of ``--infill``, the lines of a file, and a class."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.tokens import numpy_token_dtype
from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.io.codec import Codec
from discrete_meanflow.io.content import iter_lines
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.types import State

GROUP_ROWS = (
    10_000  # records whose conditions are written out at once: the largest chunk of samples
)


@dataclass(frozen=True)
class Conditions:
    """Observed positions of ``count`` records for each of several patterns.

    Args:
        tokens: of the observed positions, ``(patterns, D)``.
        observed: bool of the same shape.
        count: records for each pattern.
        known: of each pattern, the cells to restore: tokens may determine them only in part.
    """

    tokens: State
    observed: Tensor
    count: int
    known: tuple[dict[int, str], ...] = ()

    @property
    def total(self) -> int:
        """Number of records."""
        return self.count * len(self.tokens)

    def decode(self, codec: Codec, tokens: State, first: int = 0) -> Any:
        """Records with their known cells; the first of them has number ``first``."""
        records = codec.decode(tokens)
        if not any(self.known):
            return records
        numbers = range(first, first + len(tokens))
        return codec.bare.restore(records, [self.known[i // self.count] for i in numbers])

    def groups(self) -> Iterator[tuple[int, State, Tensor]]:
        """Numbers of records with their tokens and observed positions, in order.

        A group has many patterns, each repeated, or one that stands for all of its records.
        """
        size = max(1, GROUP_ROWS // self.count)
        pairs = zip(self.tokens.split(size), self.observed.split(size), strict=True)
        for parts in pairs:
            repeats = 1 if size == 1 else self.count
            tokens, observed = (part.repeat_interleave(repeats, 0) for part in parts)
            yield self.count * len(parts[0]), tokens.long(), observed


def read_conditions(codec: Codec, options: SampleOptions) -> Conditions:
    """The conditions of all records. Every pattern is checked."""
    label = None if options.label is None else str(options.label)
    patterns = [options.infill]
    fixed = [codec.fix(options.infill, label)]
    if options.infill_file is not None:
        patterns = list(_patterns_of_lines(options.infill_file, options.infill))
        fixed = list(_fixed_by_lines(options.infill_file, codec, patterns, label))
    tokens = numpy.zeros((len(fixed), codec.length), numpy_token_dtype(codec.vocabulary))
    observed = numpy.zeros(tokens.shape, bool)
    for row, positions in enumerate(fixed):
        if options.guidance != 1 and not positions:
            line = f"{options.infill_file}, line {row + 1}: " * bool(options.infill_file)
            raise InputError(f"{line}guidance needs a condition: set infill or a class")
        tokens[row, list(positions)] = list(positions.values())
        observed[row, list(positions)] = True
    known = tuple(map(codec.bare.known_cells, patterns))
    return Conditions(torch.from_numpy(tokens), torch.from_numpy(observed), options.n, known)


def _patterns_of_lines(path: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The pattern of each line of a file, after those of all records."""
    lines = list(iter_lines(path))
    if not lines[-1]:  # after the last line break
        lines.pop()
    if not lines:
        raise InputError(f"{path} is empty: it contains no pattern")
    for line in lines:
        yield (*patterns, line) if line else patterns


def _fixed_by_lines(
    path: Path, codec: Codec, patterns: list[tuple[str, ...]], label: str | None
) -> Iterator[dict[int, int]]:
    """What the patterns of each line of a file fix, together with the class of all records."""
    for number, line in enumerate(patterns, 1):
        with error_context(f"{path}, line {number}"):
            yield codec.fix(line, label)
