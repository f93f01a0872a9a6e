"""What samples are conditioned on: patterns, one or many, a class, and constraints."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
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
from discrete_meanflow.io.requirements import NO_REQUIREMENTS, Requirements, Restriction
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
        restrictions: of each pattern, what its records satisfy besides; () if none has any.
        requirements: what all records satisfy.
        source: what errors call a pattern, before its number.
    """

    tokens: State
    observed: Tensor
    count: int
    known: tuple[dict[int, str], ...] = ()
    restrictions: tuple[tuple[Restriction, ...], ...] = ()
    requirements: Requirements = NO_REQUIREMENTS
    source: str = ""

    def place(self, pattern: int) -> str:
        """Where an error about a pattern begins."""
        return f"{self.source} {pattern + 1}: " if self.source else ""

    def own(self, pattern: int) -> tuple[Restriction, ...]:
        """The restrictions of one pattern."""
        return self.restrictions[pattern] if self.restrictions else ()

    def all_restrictions(self, pattern: int) -> tuple[Restriction, ...]:
        """What the records of one pattern satisfy."""
        return (*self.own(pattern), *self.requirements.restrictions)

    @property
    def restricted(self) -> bool:
        """Whether records must satisfy more than their observed positions."""
        return bool(self.restrictions) or self.requirements != NO_REQUIREMENTS

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


def read_conditions(
    codec: Codec,
    options: SampleOptions,
    patterns: Sequence[Any] | None = None,
    requirements: Requirements = NO_REQUIREMENTS,
) -> Conditions:
    """The conditions of all records. Every pattern is checked.

    Args:
        codec: of the records.
        options: their pattern, class and number.
        patterns: each with ``options.n`` records, besides the lines of the options' file.
        requirements: of all records.
    """
    label = None if options.label is None else str(options.label)
    source, asked = "", [options.infill]
    if patterns is not None:
        source, asked = "conditions, row", [(*options.infill, pattern) for pattern in patterns]
    if options.infill_file is not None:
        source = f"{options.infill_file}, line"
        asked = list(_patterns_of_lines(options.infill_file, options.infill))
    tokens = numpy.zeros((len(asked), codec.length), numpy_token_dtype(codec.vocabulary))
    observed = numpy.zeros(tokens.shape, bool)
    restrictions = []
    for row, pattern in enumerate(asked):
        with error_context(f"{source} {row + 1}") if source else nullcontext():
            fixed = codec.fix(pattern, label)
            restrictions.append(codec.bare.restrictions(pattern))
            if options.guidance != 1 and not fixed:
                raise InputError("guidance needs a condition: set infill or a class")
        tokens[row, list(fixed)] = list(fixed.values())
        observed[row, list(fixed)] = True
    return Conditions(
        torch.from_numpy(tokens),
        torch.from_numpy(observed),
        options.n,
        tuple(map(codec.bare.known_cells, asked)),
        tuple(restrictions) if any(restrictions) else (),
        requirements,
        source,
    )


def _patterns_of_lines(path: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The pattern of each line of a file, after those of all records."""
    lines = list(iter_lines(path))
    if not lines[-1]:  # after the last line break
        lines.pop()
    if not lines:
        raise InputError(f"{path} is empty: it contains no pattern")
    for line in lines:
        yield (*patterns, line) if line else patterns
