"""Codec of table rows."""

import importlib.util
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import numpy
import torch
from torch import Tensor

from discrete_meanflow.data.tokens import numpy_token_dtype
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Codec, Dataset, Json
from discrete_meanflow.io.layout import Arrangement, Layout
from discrete_meanflow.io.requirements import Requirements, Restriction
from discrete_meanflow.io.table.cells import MISSING
from discrete_meanflow.io.table.choose_column import choose_columns
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.column_json import column_from_json, describe_column
from discrete_meanflow.io.table.constraints import Constraint, requirements
from discrete_meanflow.io.table.frame import Dtype
from discrete_meanflow.io.table.frames import LIBRARIES
from discrete_meanflow.io.table.read_table import DELIMITERS, SPACE
from discrete_meanflow.io.table.rows import Cells, Rows
from discrete_meanflow.io.table.table_pattern import TablePattern
from discrete_meanflow.types import State

UNIQUE = 0.9  # distinct levels per row, above which a column of levels is noted in the card


@dataclass(frozen=True)
class TableCodec(Codec):
    """Rows of a table, whose cells are text. A column has tokens at one or more positions.

    Args:
        columns: of the table.
        label: the column that contains the class.
        delimiter: written between cells.
        header: whether a header row is written.
        frame: library of the data frame that the rows come from and are returned as.
        dtypes: of the columns of this frame or, without one, of a Parquet file; empty if the rows
            are text.
        constraints: that hold in all rows: ``a<=b``, ``together(a,b)``, ``unique(a)``.
    """

    columns: tuple[Column, ...]
    label: str | None = None
    delimiter: str = ","
    header: bool = True
    frame: str | None = None
    dtypes: tuple[Dtype, ...] = ()
    constraints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.delimiter not in (*DELIMITERS, SPACE):
            raise InputError(f"table: '{self.delimiter}' is not a delimiter")
        if self.label is not None:
            self._check_label()
        if not self.columns:
            raise InputError("table: needs at least one column")
        if self.vocabulary < 2:
            raise InputError("table: every column is constant; there is nothing to learn")
        if self.frame not in (None, *LIBRARIES):
            raise InputError(f"table: unknown frame '{self.frame}'")
        if self.dtypes and len(self.dtypes) != len(self.columns):
            raise InputError(f"table: {len(self.dtypes)} types of {len(self.columns)} columns")
        _ = self._constraints  # raises InputError

    def _check_label(self) -> None:
        if self.label not in self.names:
            columns = ", ".join(self.names)
            raise InputError(f"label: no column '{self.label}'; the columns are {columns}")
        if not self._column(self.label).categorical:
            raise InputError(
                f"label: column {self.label} has numbers; choose a column of classes, or pass "
                f"--columns {self.label}=levels"
            )

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        rows: Iterable[Sequence[str]],
        kinds: Mapping[str, str] | None = None,
        dtypes: tuple[Dtype, ...] = (),
        **options: Any,
    ) -> "TableCodec":
        """The codec of ``rows``; see ``choose_columns``, and the class for ``options``."""
        types = [dtype.cell_type for dtype in dtypes]
        return cls(choose_columns(names, rows, types, kinds), dtypes=dtypes, **options)

    def with_class_column(self, name: str) -> "TableCodec":
        return replace(self, label=name)

    def with_constraints(self, constraints: Sequence[str]) -> "TableCodec":
        return replace(self, constraints=(*self.constraints, *constraints))

    @cached_property
    def _constraints(self) -> tuple[Constraint, ...]:
        return tuple(Constraint.of(self.columns, text) for text in self.constraints)

    def requirements(self, train: Callable[[], State]) -> Requirements:
        def combinations(columns: tuple[int, ...]) -> frozenset[tuple[str, ...]]:
            parts = [self.positions[self.names[i]] for i in columns]
            tokens = train()[:, self.positions_of(columns)].unique(dim=0).numpy()
            ends = numpy.cumsum([part.stop - part.start for part in parts])[:-1]
            rng = numpy.random.default_rng(0)  # exact columns need no draw
            cells = (
                self.columns[i].decode(part, rng)
                for i, part in zip(columns, numpy.split(tokens, ends, axis=1), strict=True)
            )
            return frozenset(zip(*cells, strict=True))

        return requirements(self.columns, self._constraints, combinations)

    def positions_of(self, columns: Sequence[int]) -> list[int]:
        return [position for i in columns for position in self._range(self.names[i])]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def positions(self) -> dict[str, slice]:
        """The positions of each column."""
        ends = list(accumulate(column.depth for column in self.columns))
        starts = [0, *ends]
        return {name: slice(a, b) for name, a, b in zip(self.names, starts, ends, strict=False)}

    def _range(self, name: str) -> range:
        where = self.positions[name]
        return range(where.start, where.stop)

    @property
    def main_positions(self) -> list[int]:
        """The first position of each column, which has most of its information."""
        return [self.positions[name].start for name in self.names]

    def _column(self, name: str) -> Column:
        return self.columns[self.names.index(name)]

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(size for column in self.columns for size in column.sizes)

    @property
    def vocabulary(self) -> int:
        return max(self._sizes)

    @property
    def length(self) -> int:
        return len(self._sizes)

    @property
    def allowed(self) -> Tensor:
        return torch.arange(self.vocabulary) < torch.tensor(self._sizes)[:, None]

    @property
    def ordered(self) -> tuple[int, ...]:
        counts = tuple(count for column in self.columns for count in column.ordered)
        return counts if any(counts) else ()

    def encode(self, records: Iterable[Sequence[str]]) -> State:
        rows = Rows.of(records)
        if len(rows.columns) != len(self.columns):
            raise InputError(f"row 1 has {len(rows.columns)} cells, not {len(self.columns)}")
        tokens = numpy.empty((len(rows), self.length), numpy_token_dtype(self.vocabulary))
        for column, cells in zip(self.columns, rows.columns, strict=True):
            tokens[:, self.positions[column.name]] = column.encode(cells)
        return torch.from_numpy(tokens)

    def decode(self, tokens: State) -> Rows:
        """Rows. Where a bin has several numbers, one is drawn; the same tokens give the same."""
        array = tokens.numpy()
        rng = numpy.random.default_rng(zlib.crc32(array.tobytes()))
        cells = (
            column.decode(array[:, self.positions[column.name]], rng) for column in self.columns
        )
        return Rows(tuple(cells))

    def as_given(self, records: Iterable[Sequence[str]]) -> Any:
        """A data frame if the rows come from one and its library is installed, else lists."""
        if not self.dtypes or self.frame is None or importlib.util.find_spec(self.frame) is None:
            return list(records)
        return LIBRARIES[self.frame].made(self.names, Rows.of(records), self.dtypes)

    @property
    def layout(self) -> Layout:
        names, symbols = [], []
        for column in self.columns:
            digits = [f"{column.name}, part {i}" for i in range(2, column.depth + 1)]
            names += [column.name, *digits]
            symbols += column.symbols()
        return Layout(Arrangement.ROW, tuple(names), tuple(symbols))

    def card(self, dataset: Dataset) -> Json:
        card: Json = {"columns": {column.name: column.summary() for column in self.columns}}
        columns = zip(self.names, Rows.of(dataset.records).columns, strict=True)
        missing = {name: cells.counts()[MISSING] for name, cells in columns}
        if any(missing.values()):
            card["missing cells"] = {name: n for name, n in missing.items() if n}
        if self.label is not None:
            card["class"] = self.label
        for constraint in self._constraints:
            share = constraint.share(self.columns, dataset.records)
            card.setdefault("constraints", {})[constraint.text] = (
                f"true of {100 * share:.4g} % of rows"
            )
        limit = UNIQUE * len(dataset.records)
        unique = [
            column.name
            for column in self.columns
            if column.categorical and column.leaves > max(limit, 20)
        ]
        if unique:
            card["note"] = (
                f"nearly every row has its own value in {', '.join(unique)}, which can only be "
                f"copied: consider --drop {' '.join(unique)}"
            )
        return card

    def parse_infill(self, pattern: Any) -> dict[int, int]:
        """The tokens of the cells that a pattern fixes; see :class:`TablePattern`."""
        fixed: dict[int, int] = {}
        for number, cell in TablePattern.of(self.columns, pattern).cells:
            column = self.columns[number]
            for position, token in zip(self._range(column.name), column.path(cell), strict=True):
                if fixed.setdefault(position, token) != token:
                    raise InputError(
                        f"infill: column {column.name} occurs twice, with different values"
                    )
        return fixed

    def known_cells(self, patterns: Sequence[Any]) -> dict[int, str]:
        """The numbers that patterns fix: a bin may have several."""
        cells = (TablePattern.of(self.columns, pattern).cells for pattern in patterns)
        return {
            number: self.columns[number].written(cell)
            for number, cell in chain.from_iterable(cells)
            if not self.columns[number].categorical
        }

    def restrictions(self, patterns: Sequence[Any]) -> tuple[Restriction, ...]:
        parts = (TablePattern.of(self.columns, pattern).restrictions for pattern in patterns)
        return tuple(chain.from_iterable(parts))

    def restore(self, records: Rows, known: Sequence[dict[int, str]]) -> Rows:
        columns = []
        for column, cells in enumerate(records.columns):
            pairs = zip(cells, known, strict=True)
            columns.append(Cells.of(fixed.get(column, cell) for cell, fixed in pairs))
        return Rows(tuple(columns))

    @property
    def class_positions(self) -> list[int]:
        if self.label is None:
            return []
        return list(self._range(self.label))

    @property
    def class_names(self) -> tuple[str, ...]:
        if self.label is None:
            return ()
        return tuple(self._column(self.label).leaf_names())

    def class_tokens(self, name: str) -> dict[int, int]:
        if self.label is None:
            return super().class_tokens(name)
        try:
            path = self._column(self.label).path(name)
        except InputError:
            classes = ", ".join(self.class_names)
            raise InputError(f"class: no '{name}'; the classes are {classes}") from None
        return dict(zip(self.class_positions, path, strict=True))

    def classes_in(self, tokens: State) -> list[str]:
        if self.label is None:
            return super().classes_in(tokens)
        rng = numpy.random.default_rng(0)  # levels need no draw
        label = tokens[:, self.positions[self.label]].numpy()
        return list(self._column(self.label).decode(label, rng))

    def describe(self) -> Json:
        return {
            "columns": [describe_column(column) for column in self.columns],
            "label": self.label,
            "delimiter": self.delimiter,
            "header": self.header,
            "frame": self.frame,
            "dtypes": list(map(asdict, self.dtypes)),
            "constraints": list(self.constraints),
        }

    @classmethod
    def from_json(cls, description: Json) -> "TableCodec":
        label, frame = (description[k] and str(description[k]) for k in ("label", "frame"))
        return cls(
            tuple(map(column_from_json, description["columns"])),
            label,
            str(description["delimiter"]),
            bool(description["header"]),
            frame,
            tuple(map(Dtype.from_json, description["dtypes"])),
            tuple(map(str, description["constraints"])),
        )
