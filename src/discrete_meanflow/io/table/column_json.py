"""Columns as JSON, for run folders."""

from discrete_meanflow.io.table.column import Column, Json
from discrete_meanflow.io.table.level_column import LevelColumn
from discrete_meanflow.io.table.number_column import NumberColumn

COLUMN_TYPES: dict[str, type[Column]] = {kind.kind: kind for kind in (LevelColumn, NumberColumn)}


def describe_column(column: Column) -> Json:
    paths = list(map(list, column.paths))
    return {"kind": column.kind, "name": column.name, "paths": paths, **column.describe()}


def column_from_json(content: Json) -> Column:
    """The column that ``describe_column`` wrote."""
    paths = tuple(tuple(int(token) for token in path) for path in content["paths"])
    return COLUMN_TYPES[content["kind"]].from_json(str(content["name"]), paths, content)
