"""Constraints that a user states on all rows: orders, combinations and unique columns."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.infill import split_unescaped, unescape
from discrete_meanflow.io.requirements import Requirements, Restriction, Unique
from discrete_meanflow.io.table.cells import MISSING
from discrete_meanflow.io.table.column import Column
from discrete_meanflow.io.table.order import SIGNS
from discrete_meanflow.io.table.restrictions import Combination, Order, Rows

FORMS = "'a<=b', 'together(a,b)' or 'unique(a)'"
CALL = re.compile(r"\s*(together|unique)\s*\((.*)\)\s*", re.DOTALL)
NAME = r"((?:\\.|[^\\<>])+)"
ORDER = re.compile(rf"{NAME}({'|'.join(SIGNS)}){NAME}", re.DOTALL)

Combinations = Callable[[tuple[int, ...]], frozenset[tuple[str, ...]]]  # of columns, in the data


@dataclass(frozen=True)
class Constraint:
    """A constraint that names its columns.

    Args:
        text: as the user states it.
        rule: ``together``, ``unique`` or the sign of an order.
        columns: their numbers.
    """

    text: str
    rule: str
    columns: tuple[int, ...]

    @classmethod
    def of(cls, columns: Sequence[Column], text: str) -> "Constraint":
        """Parse ``a<=b``, ``together(a,b)`` or ``unique(a)``."""
        if call := CALL.fullmatch(text):
            rule, names = call[1], split_unescaped(call[2], ",")
        elif order := ORDER.fullmatch(text):
            rule, names = order[2], [order[1], order[3]]
        else:
            raise InputError(f"constraint '{text}': write {FORMS}")
        known = [column.name for column in columns]
        stated = [unescape(name.strip()) for name in names]
        for name in stated:
            if name not in known:
                raise InputError(
                    f"constraint '{text}': no column '{name}'; the columns are {', '.join(known)}"
                )
        if len(set(stated)) != (1 if rule == "unique" else max(2, len(stated))):
            raise InputError(f"constraint '{text}': wrong number of columns; write {FORMS}")
        constraint = cls(text, rule, tuple(known.index(name) for name in stated))
        try:
            constraint._check(columns)
        except InputError as error:
            raise InputError(f"constraint '{text}': {error}") from None
        return constraint

    def _check(self, columns: Sequence[Column]) -> None:
        """Raise if columns of this kind cannot have the constraint."""
        if self.rule in SIGNS:
            self._order(columns)
        for i in self.columns if self.rule == "together" else ():
            column = columns[i]
            if not column.exact:
                raise InputError(
                    f"column {column.name} has bins of several numbers; pass --columns "
                    f"{column.name}=levels"
                )

    def _order(self, columns: Sequence[Column]) -> Order:
        left, right = self.columns
        return Order(self.text, self.columns, self.rule, (columns[left], columns[right]))

    def restriction(
        self, columns: Sequence[Column], combinations: Combinations
    ) -> Restriction | None:
        """The condition on single rows; None if there is none."""
        if self.rule == "together":
            return Combination(self.text, self.columns, combinations(self.columns))
        return None if self.rule == "unique" else self._order(columns)

    def unique(self, columns: Sequence[Column]) -> Unique | None:
        """The column without repeated cells; None if there is none."""
        if self.rule != "unique":
            return None
        [number] = self.columns
        column = columns[number]
        limited = column.exact and column.missing_token is None
        return Unique(column.name, number, column.leaves if limited else None)

    def share(self, columns: Sequence[Column], rows: Rows) -> float:
        """The fraction of rows that satisfy it; of a unique column, of distinct cells."""
        if self.rule in SIGNS:
            return float(self._order(columns).holds(rows).mean())
        if self.rule == "together":
            return 1.0
        cells = [cell for row in rows if (cell := row[self.columns[0]]) != MISSING]
        return len(set(cells)) / max(1, len(cells))


def requirements(
    columns: Sequence[Column], constraints: Sequence[Constraint], combinations: Combinations
) -> Requirements:
    """What the constraints require of rows."""
    restrictions = (constraint.restriction(columns, combinations) for constraint in constraints)
    unique = (constraint.unique(columns) for constraint in constraints)
    return Requirements(tuple(filter(None, restrictions)), tuple(filter(None, unique)))
