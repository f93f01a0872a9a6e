import importlib
import importlib.util
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.alphabet import MOST, small
from discrete_meanflow.data.bins import Bins, numbers_in
from discrete_meanflow.data.cells import MADE_FROM, as_number, type_told_by
from discrete_meanflow.data.codec import Codec, Json
from discrete_meanflow.data.read import DELIMITERS, SPACE
from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

FRAMES = ("pandas", "polars")


@dataclass(frozen=True)
class TableCodec(Codec):
    """Rows of a table: each column has levels of its own, as text."""

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    label: str | None = None  # the column that is the class
    delimiter: str = ","  # as it stands between cells where rows are written
    heading: bool = True  # whether names stand above them
    types: tuple[str, ...] = ()  # of the cells of each column; by default what their text tells
    bins: tuple[Bins, ...] = ()  # of each column, where any was cut
    frame: str | None = None  # whose frame the rows came from, and are handed back as

    def __post_init__(self) -> None:
        if self.delimiter not in (*DELIMITERS, SPACE):
            raise InputError(f"table: '{self.delimiter}' is no delimiter")
        if self.label is not None and self.label not in self.names:
            columns = ", ".join(self.names)
            raise InputError(f"--label: no column '{self.label}'; there are {columns}")
        for name, levels in zip(self.names, self.levels, strict=False):
            if len(levels) > MOST:
                less = "--bins 20 (in Python bins=20) makes fewer of its numbers"
                raise InputError(
                    f"table: column {name} has {len(levels):,} levels, at most {MOST:,} work; "
                    + (less if numbers_in(levels) else f"--without '{name}' leaves it out")
                )
        if not self.names or len(self.names) != len(self.levels) or not all(self.levels):
            raise InputError("table: needs a name and at least one level for each column")
        if self.vocabulary < 2:
            raise InputError("table: every column is constant; there is nothing to learn")
        if self.frame not in (None, *FRAMES):
            raise InputError(f"table: unknown frame '{self.frame}'")
        if not self.types:
            object.__setattr__(self, "types", tuple(map(type_told_by, self.levels)))
        if self.bins and len(self.bins) != len(self.names):
            raise InputError("table: needs bins, or none, for each column")
        try:
            _ = self.values
        except (KeyError, ValueError, OverflowError):
            raise InputError("table: its columns do not have the types that it tells") from None

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        rows: Sequence[Sequence[str]],
        types: tuple[str, ...] = (),
        bins: tuple[Bins, ...] = (),
    ) -> "TableCodec":
        levels = tuple(tuple(sorted(set(column))) for column in zip(*rows, strict=True))
        return cls(tuple(names), levels, types=types, bins=bins)

    @property
    def vocabulary(self) -> int:
        return max(map(len, self.levels))

    @cached_property
    def values(self) -> list[dict[str, Any]]:
        """What the levels of each column stand for."""
        each = zip(self.types, self.levels, strict=True)
        return [{level: MADE_FROM[sort](level) for level in levels} for sort, levels in each]

    @property
    def length(self) -> int:
        return len(self.names)

    @property
    def allowed(self) -> Tensor:
        counts = torch.tensor([len(each) for each in self.levels])
        return torch.arange(self.vocabulary) < counts[:, None]

    def encode(self, records: Sequence[Sequence[str]]) -> State:
        number = [{level: i for i, level in enumerate(each)} for each in self.levels]
        rows = numpy.empty((len(records), self.length), small(self.vocabulary))
        for i, row in enumerate(records):
            try:
                rows[i] = [n[cell] for n, cell in zip(number, row, strict=True)]
            except (KeyError, ValueError) as error:
                raise InputError(f"row {i + 1}: {error} does not fit the columns") from None
        return torch.from_numpy(rows)

    def decode(self, tokens: State) -> list[list[str]]:
        return [
            [each[i] for each, i in zip(self.levels, row, strict=True)] for row in tokens.tolist()
        ]

    def as_given(self, records: list[list[str]]) -> Any:
        """Rows, or the frame that they came from, where its library is installed."""
        if self.frame is None or importlib.util.find_spec(self.frame) is None:
            return records
        columns = zip(self.names, self.values, zip(*records, strict=True), strict=True)
        cells = {name: [value[c] for c in column] for name, value, column in columns}
        return importlib.import_module(self.frame).DataFrame(cells)

    def known(self, pattern: Any) -> dict[int, int]:
        """``colour=red,odour=n``: columns by name, the others are unknown.

        ``\\,`` is a comma, ``\\=`` an equals sign in a name, ``\\\\`` a backslash. Or a dict.
        """
        found: dict[int, int] = {}
        if not isinstance(pattern, Mapping | str):
            text = "clamp: columns by their names, as {'colour': 'red'}"
            raise InputError(f"{text}, got {pattern!r}")
        for name, level in pattern.items() if isinstance(pattern, Mapping) else _equations(pattern):
            if level is None and str(name) in self.names:
                continue  # it is unknown
            for place, token in self._known(str(name), str(level)).items():
                if found.setdefault(place, token) != token:
                    raise InputError(f"clamp: column {name} is given twice, with different levels")
        return found

    def _known(self, name: str, level: str) -> dict[int, int]:
        if name not in self.names:
            known = ", ".join(f"'{each}'" for each in self.names)
            raise InputError(f"clamp: no column '{name}'; there are {known}")
        place = self.names.index(name)
        if level not in self.levels[place]:
            level = self._same(place, level)
        if level not in self.levels[place]:
            values = self.values[place]
            has = ", ".join(f"'{each}'" for each in sorted(values, key=lambda each: values[each]))
            comma = "; a comma in one is \\," * any("," in each for each in values)
            raise InputError(f"clamp: column {name} has no '{level}'; it has {has}{comma}")
        return {place: self.levels[place].index(level)}

    def _same(self, place: int, level: str) -> str:
        """The level that stands for the same value, or for the bin that it is in: 1 is 1.0."""
        tops = self.bins[place] if self.bins else ()
        if not tops and self.types[place] not in ("int", "float"):
            return level
        value = as_number(level)
        if value is None:
            return level
        if tops and not math.isnan(value):
            told = len({name for _, name in tops[:2]}) == 1  # runs of before do not tell the least
            least, most = tops[0][0] if told else -math.inf, tops[-1][0]
            if not least <= value <= most:
                name = self.names[place]
                raise InputError(f"clamp: {name}={level} lies outside {least:g} to {most:g}")
            return next(name for top, name in tops if value <= top)
        return next((name for name, each in self.values[place].items() if each == value), level)

    @property
    def class_positions(self) -> list[int]:
        return [] if self.label is None else [self.names.index(self.label)]

    def of_class(self, name: str) -> dict[int, int]:
        return super().of_class(name) if self.label is None else self._known(self.label, name)

    def classes_in(self, tokens: State) -> list[str]:
        if self.label is None:
            return super().classes_in(tokens)
        place = self.names.index(self.label)
        return [self.levels[place][i] for i in tokens[:, place].tolist()]

    def describe(self) -> Json:
        levels = [list(each) for each in self.levels]
        words: Json = {
            "columns": list(self.names),
            "levels": levels,
            "label": self.label,
            "delimiter": self.delimiter,
            "heading": self.heading,
        }
        # Runs of earlier versions say nothing of what follows, and go on as they are.
        if self.types != tuple(map(type_told_by, self.levels)):
            words["types"] = list(self.types)
        if any(self.bins):
            words["bins"] = [list(map(list, each)) for each in self.bins]
        return words if self.frame is None else words | {"frame": self.frame}

    @classmethod
    def from_json(cls, words: Json) -> "TableCodec":
        levels = tuple(tuple(map(str, each)) for each in words["levels"])
        label = words["label"]
        names = tuple(map(str, words["columns"]))
        label = None if label is None else str(label)
        # Runs of earlier versions say nothing of these.
        delimiter, heading = words.get("delimiter", ","), words.get("heading", True)
        types, frame = tuple(map(str, words.get("types", ()))), words.get("frame")
        frame = None if frame is None else str(frame)
        bins = tuple(
            tuple((float(top), str(name)) for top, name in each) for each in words.get("bins", ())
        )
        return cls(names, levels, label, str(delimiter), bool(heading), types, bins, frame)


def _equations(pattern: str) -> Iterator[tuple[str, str]]:
    """``a=b,c=d`` as pairs."""
    for part in filter(None, _parted(pattern, ",")):
        name, *level = (re.sub(r"\\([\\,=])", r"\1", side) for side in _parted(part, "=", 1))
        yield name, "".join(level)


def _parted(pattern: str, mark: str, most: int = -1) -> list[str]:
    """A pattern cut at ``mark``, at most so often, but where a backslash stands before it."""
    pieces = re.findall(rf"(?:\\.|[^\\{mark}])+|{mark}|\\$", pattern, re.DOTALL)
    parts, cuts = [""], 0
    for piece in pieces:
        if piece == mark and cuts != most:
            parts.append("")
            cuts += 1
        else:
            parts[-1] += piece
    return parts
