"""Codec of table rows."""

import importlib
import importlib.util
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.alphabet import MAX_SYMBOLS
from discrete_meanflow.data.cells import PARSERS, Bins, as_number, numeric_levels, type_of_text
from discrete_meanflow.data.codec import Codec, Dataset, Json
from discrete_meanflow.data.infill import split_assignments
from discrete_meanflow.data.layout import Arrangement, Layout
from discrete_meanflow.data.read_table import DELIMITERS, SPACE
from discrete_meanflow.data.tokens import numpy_token_dtype
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

FRAMES = ("pandas", "polars")
MANY_LEVELS = 100  # a column with more, and with more than 1 per 20 rows, is noted in the card


@dataclass(frozen=True)
class TableCodec(Codec):
    """Rows of a table. Token i of a column stands for its level i, which is text.

    Args:
        names: of the columns.
        levels: distinct cells of each column.
        label: the column that contains the class.
        delimiter: written between cells.
        header: whether a header row is written.
        types: of the cells of each column; by default guessed from the levels.
        bins: of each column, if a column was binned; else empty.
        frame: library of the data frame that the rows come from and are returned as.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    label: str | None = None
    delimiter: str = ","
    header: bool = True
    types: tuple[str, ...] = ()
    bins: tuple[Bins, ...] = ()
    frame: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter not in (*DELIMITERS, SPACE):
            raise InputError(f"table: '{self.delimiter}' is not a delimiter")
        if self.label is not None and self.label not in self.names:
            columns = ", ".join(self.names)
            raise InputError(f"label: no column '{self.label}'; the columns are {columns}")
        for name, levels in zip(self.names, self.levels, strict=False):
            if len(levels) > MAX_SYMBOLS:
                bins = "--bins 20 (in Python bins=20) cuts its numbers into bins"
                raise InputError(
                    f"table: column {name} has {len(levels):,} levels, the limit is "
                    f"{MAX_SYMBOLS:,}; "
                    + (bins if numeric_levels(levels) else f"--drop '{name}' leaves it out")
                )
        if not self.names or len(self.names) != len(self.levels) or not all(self.levels):
            raise InputError("table: needs a name and at least one level for each column")
        if self.vocabulary < 2:
            raise InputError("table: every column is constant; there is nothing to learn")
        if self.frame not in (None, *FRAMES):
            raise InputError(f"table: unknown frame '{self.frame}'")
        if not self.types:
            object.__setattr__(self, "types", tuple(map(type_of_text, self.levels)))
        if self.bins and len(self.bins) != len(self.names):
            raise InputError("table: needs bins for every column or for none")
        try:
            _ = self.values
        except (KeyError, ValueError, OverflowError):
            raise InputError("table: the levels of a column do not match its type") from None

    @classmethod
    def of(
        cls, names: Sequence[str], rows: Sequence[Sequence[str]], **options: Any
    ) -> "TableCodec":
        """The codec of ``rows``; ``options`` are further arguments of the class."""
        levels = tuple(tuple(sorted(set(column))) for column in zip(*rows, strict=True))
        return cls(tuple(names), levels, **options)

    @property
    def vocabulary(self) -> int:
        return max(map(len, self.levels))

    @cached_property
    def values(self) -> list[dict[str, Any]]:
        """For each column, the typed value of each level."""
        columns = zip(self.types, self.levels, strict=True)
        return [{level: PARSERS[type_](level) for level in levels} for type_, levels in columns]

    @property
    def length(self) -> int:
        return len(self.names)

    @property
    def allowed(self) -> Tensor:
        counts = torch.tensor([len(levels) for levels in self.levels])
        return torch.arange(self.vocabulary) < counts[:, None]

    def encode(self, records: Sequence[Sequence[str]]) -> State:
        token = [{level: i for i, level in enumerate(levels)} for levels in self.levels]
        rows = numpy.empty((len(records), self.length), numpy_token_dtype(self.vocabulary))
        for i, row in enumerate(records):
            try:
                rows[i] = [column[cell] for column, cell in zip(token, row, strict=True)]
            except (KeyError, ValueError) as error:
                raise InputError(f"row {i + 1}: {error} does not fit the columns") from None
        return torch.from_numpy(rows)

    def decode(self, tokens: State) -> list[list[str]]:
        return [
            [levels[i] for levels, i in zip(self.levels, row, strict=True)]
            for row in tokens.tolist()
        ]

    def as_given(self, records: list[list[str]]) -> Any:
        """A data frame if the rows come from one and its library is installed, else the rows."""
        if self.frame is None or importlib.util.find_spec(self.frame) is None:
            return records
        columns = zip(self.names, self.values, zip(*records, strict=True), strict=True)
        cells = {name: [value[c] for c in column] for name, value, column in columns}
        return importlib.import_module(self.frame).DataFrame(cells)

    @property
    def layout(self) -> Layout:
        return Layout(Arrangement.ROW, self.names, self.levels)

    def card(self, dataset: Dataset) -> Json:
        columns = dict(zip(self.names, self.levels, strict=True))
        card: Json = {"columns": {name: len(levels) for name, levels in columns.items()}}
        if self.label is not None:
            card["class"] = self.label
        limit = max(MANY_LEVELS, len(dataset.records) // 20)
        many = [name for name, levels in columns.items() if len(levels) > limit]
        numbers = [name for name in many if numeric_levels(columns[name])]
        words = [name for name in many if name not in numbers]
        notes = []
        if numbers:
            notes.append(f"many distinct numbers in {', '.join(numbers)}: consider --bins 20")
        if words:
            notes.append(
                f"many distinct values in {', '.join(words)}, which can only be copied: consider "
                f"--drop {shlex.join(words)}"
            )
        return card | ({"note": "; ".join(notes)} if notes else {})

    def parse_infill(self, pattern: Any) -> dict[int, int]:
        """Parse ``colour=red,odour=n`` or ``{"colour": "red"}``; other columns are unknown.

        ``\\,`` is a comma, ``\\=`` an equals sign in a name, ``\\\\`` a backslash. In a dict, None
        is unknown.
        """
        if not isinstance(pattern, Mapping | str):
            raise InputError(
                "infill: must name columns, as 'colour=red' or {'colour': 'red'}, "
                f"got {pattern!r}"
            )
        pairs = split_assignments(pattern) if isinstance(pattern, str) else pattern.items()
        fixed: dict[int, int] = {}
        for name, level in pairs:
            if level is None and str(name) in self.names:
                continue
            column, token = self._level_token(str(name), str(level))
            if fixed.setdefault(column, token) != token:
                raise InputError(f"infill: column {name} occurs twice, with different levels")
        return fixed

    def _level_token(self, name: str, level: str) -> tuple[int, int]:
        """The position of a column and the token of its level."""
        if name not in self.names:
            columns = ", ".join(f"'{column}'" for column in self.names)
            raise InputError(
                f"infill: no column '{name}' (write COLUMN=VALUE); the columns are {columns}"
            )
        column = self.names.index(name)
        token = self._find_token(column, level)
        if token is None:
            values = self.values[column]
            levels = ", ".join(f"'{other}'" for other in sorted(values, key=lambda v: values[v]))
            comma = "; write a comma as \\," * any("," in other for other in values)
            raise InputError(f"infill: column {name} has no '{level}'; it has {levels}{comma}")
        return column, token

    def _find_token(self, column: int, level: str) -> int | None:
        """The token of a level, or of an equal number; None if the column has neither."""
        levels = self.levels[column]
        level = level if level in levels else self._equal_level(column, level)
        return levels.index(level) if level in levels else None

    def _equal_level(self, column: int, level: str) -> str:
        """The level of the same number, such as 1.0 for 1, or of the bin that contains it."""
        bins, value = self.bins[column] if self.bins else (), as_number(level)
        if value is None or not (bins or self.types[column] in ("int", "float")):
            return level
        if bins and not math.isnan(value):
            least, most = bins[0][0], bins[-1][0]
            if not least <= value <= most:
                name = self.names[column]
                raise InputError(f"infill: {name}={level} lies outside {least:g} to {most:g}")
            return next(name for top, name in bins if value <= top)
        return next((name for name, v in self.values[column].items() if v == value), level)

    @property
    def class_positions(self) -> list[int]:
        return [] if self.label is None else [self.names.index(self.label)]

    @property
    def class_names(self) -> tuple[str, ...]:
        return () if self.label is None else self.levels[self.names.index(self.label)]

    def class_tokens(self, name: str) -> dict[int, int]:
        if self.label is None:
            return super().class_tokens(name)
        column = self.names.index(self.label)
        token = self._find_token(column, name)
        if token is None:
            classes = ", ".join(sorted(self.levels[column]))
            raise InputError(f"class: no '{name}'; the classes are {classes}")
        return {column: token}

    def classes_in(self, tokens: State) -> list[str]:
        if self.label is None:
            return super().classes_in(tokens)
        column = self.names.index(self.label)
        return [self.levels[column][i] for i in tokens[:, column].tolist()]

    def describe(self) -> Json:
        return {
            "columns": list(self.names),
            "levels": [list(levels) for levels in self.levels],
            "label": self.label,
            "delimiter": self.delimiter,
            "header": self.header,
            "types": list(self.types),
            "bins": [list(map(list, bins)) for bins in self.bins],
            "frame": self.frame,
        }

    @classmethod
    def from_json(cls, description: Json) -> "TableCodec":
        label, frame = (description[k] and str(description[k]) for k in ("label", "frame"))
        return cls(
            tuple(map(str, description["columns"])),
            tuple(tuple(map(str, levels)) for levels in description["levels"]),
            label,
            str(description["delimiter"]),
            bool(description["header"]),
            tuple(map(str, description["types"])),
            tuple(tuple((float(x), str(name)) for x, name in b) for b in description["bins"]),
            frame,
        )
