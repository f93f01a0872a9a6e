"""Records with their class behind them: known when it is asked for, drawn along when it is not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.data import read
from discrete_meanflow.data.codec import Codec, Json
from discrete_meanflow.data.kind import Dataset
from discrete_meanflow.data.labels import (
    label_numbers,
    label_positions,
    label_tokens,
    labelled,
)
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.types import State

NO_CLASS = "?"


@dataclass(frozen=True)
class LabelledCodec(Codec):
    """Records of another codec, and the number of each one's class in the same alphabet."""

    inner: Codec
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.classes)) != len(self.classes):
            raise InputError("classes: one is named twice")
        label_positions(len(self.classes), self.inner.vocabulary)  # objects if there are too few

    @property
    def vocabulary(self) -> int:
        return self.inner.vocabulary

    @property
    def length(self) -> int:
        return self.inner.length + label_positions(len(self.classes), self.vocabulary)

    @property
    def bare(self) -> Codec:
        return self.inner

    @property
    def class_positions(self) -> list[int]:
        return list(range(self.inner.length, self.length))

    @property
    def allowed(self) -> Tensor | None:
        if self.inner.allowed is None:
            return None
        more = torch.ones(self.length - self.inner.length, self.vocabulary, dtype=torch.bool)
        return torch.cat([self.inner.allowed, more])

    def encode(self, records: tuple[Any, Sequence[str]]) -> State:
        """Of records and their classes."""
        tokens, number = self.inner.encode(records[0]), {c: i for i, c in enumerate(self.classes)}
        labels = torch.tensor([number[each] for each in records[1]])
        return labelled(tokens, labels, len(self.classes), self.vocabulary)

    def decode(self, tokens: State) -> Any:
        return self.inner.decode(tokens[:, : self.inner.length])

    def known(self, pattern: Any) -> dict[int, int]:
        return self.inner.known(pattern)

    def of_class(self, name: str) -> dict[int, int]:
        if name not in self.classes:
            raise InputError(f"class: no '{name}'; there are {', '.join(self.classes)}")
        number = torch.tensor([self.classes.index(name)])
        tokens = label_tokens(number, len(self.classes), self.vocabulary)[0].tolist()
        return dict(zip(self.class_positions, tokens, strict=True))

    def classes_in(self, tokens: State) -> list[str]:
        """Raw, as records are: a number that no class has is NO_CLASS."""
        numbers = label_numbers(tokens[:, self.inner.length :], self.vocabulary).tolist()
        return [self.classes[i] if i < len(self.classes) else NO_CLASS for i in numbers]

    def describe(self) -> Json:
        return {**self.inner.describe(), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, words: Json, inner: type[Codec] = Codec) -> "LabelledCodec":
        return cls(inner.from_json(words), tuple(map(str, words["classes"])))


def classed(dataset: Dataset, classes: Any) -> Dataset:
    """The records with a class for each: a list, an array or a tensor of them, or the name of the
    column of the table that they stand in."""
    if isinstance(classes, str) and isinstance(dataset.codec, TableCodec):
        return replace(dataset, codec=replace(dataset.codec, label=classes))
    if dataset.tokens is not None:
        raise InputError("classes: windows of one text have none")
    names = [str(each) for each in (classes.tolist() if hasattr(classes, "tolist") else classes)]
    if len(names) != len(dataset.records):
        raise InputError(f"classes: {len(names)} of them for {len(dataset.records)} records")
    codec = LabelledCodec(dataset.codec, tuple(sorted(set(names))))
    return replace(dataset, records=(dataset.records, names), codec=codec)


def with_label(dataset: Dataset, path: Path, label: str) -> Dataset:
    """``label`` is a column of the table, an array of the .npz, a .npy, or a file with a class a
    line."""
    if isinstance(dataset.codec, TableCodec):
        return classed(dataset, label)
    file = Path(label)
    inside = ".npz" in path.suffixes and not file.is_file()
    found: Any
    if not inside and ".npy" not in file.suffixes:
        found = read.lines(file)
    else:
        found, _ = read.array_named(path, label) if inside else read.array_named(file)
        if found.ndim != 1:
            raise InputError(f"--label: '{label}' has shape {found.shape}, not one per record")
    with error_context(f"--label '{label}'"):
        return classed(dataset, found)
