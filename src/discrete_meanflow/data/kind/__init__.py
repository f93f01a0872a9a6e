"""Kinds of data: how each is detected, read and written."""

from discrete_meanflow.data.kind.base import Kind
from discrete_meanflow.data.kind.registry import KINDS, detect, find_kind
from discrete_meanflow.data.kind.structured import Array, Table
from discrete_meanflow.data.kind.text import (
    Fasta,
    Lines,
    Smiles,
    Tokenised,
    TokenisedWindows,
    Windows,
)

__all__ = [
    "KINDS",
    "Array",
    "Fasta",
    "Kind",
    "Lines",
    "Smiles",
    "Table",
    "Tokenised",
    "TokenisedWindows",
    "Windows",
    "detect",
    "find_kind",
]
