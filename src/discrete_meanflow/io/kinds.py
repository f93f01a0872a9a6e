"""All kinds of data, by name."""

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.array_kind import Array
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.table.table_kind import Table
from discrete_meanflow.io.text_kinds import (
    Fasta,
    Lines,
    Smiles,
    Tokenised,
    TokenisedWindows,
    Windows,
)

KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (Lines, Tokenised, Windows, TokenisedWindows, Smiles, Fasta, Table, Array)
}


def find_kind(name: str) -> Kind:
    if not isinstance(name, str) or name not in KINDS:
        raise InputError(f"unknown kind '{name}'; choose one of {', '.join(KINDS)}")
    return KINDS[name]()
