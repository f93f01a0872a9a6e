"""Codec of records with classes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.data.labels import label_positions, label_tokens, labelled
from discrete_meanflow.errors import InputError, error_context
from discrete_meanflow.io.array_codec import read_named_array
from discrete_meanflow.io.codec import Codec, Dataset, Json
from discrete_meanflow.io.content import LineFile
from discrete_meanflow.io.layout import Layout
from discrete_meanflow.io.table.cells import as_text, is_missing, text_problem, type_of_value
from discrete_meanflow.printable import shown
from discrete_meanflow.types import State

NO_CLASS = "?"


@dataclass(frozen=True)
class LabelledCodec(Codec):
    """Records of another codec, followed by the number of their class in the same alphabet."""

    inner: Codec
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.classes)) != len(self.classes):
            raise InputError("classes: a name occurs twice")
        label_positions(len(self.classes), self.inner.vocabulary)  # raises for fewer than 2

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
    def ordered(self) -> tuple[int, ...]:
        unordered = (0,) * (self.length - self.inner.length)
        return (*self.inner.ordered, *unordered) if self.inner.ordered else ()

    @property
    def class_positions(self) -> list[int]:
        return list(range(self.inner.length, self.length))

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.classes

    @property
    def allowed(self) -> Tensor | None:
        if self.inner.allowed is None:
            return None
        label = torch.ones(self.length - self.inner.length, self.vocabulary, dtype=torch.bool)
        return torch.cat([self.inner.allowed, label])

    def encode(self, records: tuple[Any, Sequence[str]]) -> State:
        """Encode a pair of records and their classes."""
        number = {name: i for i, name in enumerate(self.classes)}
        labels = torch.tensor([number[name] for name in records[1]])
        tokens = self.inner.encode(records[0])
        return labelled(tokens, labels, len(self.classes), self.vocabulary)

    def decode(self, tokens: State) -> Any:
        return self.inner.decode(tokens[:, : self.inner.length])

    @property
    def layout(self) -> Layout:
        return self.inner.layout

    def card(self, dataset: Dataset) -> Json:
        records, names = dataset.records
        counts = Counter(names)
        inner = self.inner.card(Dataset(records, self.inner))
        return {**inner, "classes": {name: counts[name] for name in self.classes}}

    def parse_infill(self, pattern: Any) -> dict[int, int]:
        return self.inner.parse_infill(pattern)

    def with_constraints(self, constraints: Sequence[str]) -> Codec:
        return replace(self, inner=self.inner.with_constraints(constraints))

    def class_tokens(self, name: str) -> dict[int, int]:
        if name not in self.classes:
            raise InputError(f"class: no '{name}'; the classes are {', '.join(self.classes)}")
        number = torch.tensor([self.classes.index(name)])
        tokens = label_tokens(number, len(self.classes), self.vocabulary)[0].tolist()
        return dict(zip(self.class_positions, tokens, strict=True))

    def classes_in(self, tokens: State) -> list[str]:
        """The class of each record, ``NO_CLASS`` if its number exceeds the classes."""
        digits = tokens[:, self.inner.length :].long()
        powers = torch.arange(digits.shape[1] - 1, -1, -1)
        numbers = (digits * self.vocabulary**powers).sum(-1).tolist()
        return [self.classes[i] if i < len(self.classes) else NO_CLASS for i in numbers]

    def describe(self) -> Json:
        return {**self.inner.describe(), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, description: Json, inner: type[Codec] = Codec) -> "LabelledCodec":
        return cls(inner.from_json(description), tuple(map(str, description["classes"])))


def add_classes(dataset: Dataset, classes: Any) -> Dataset:
    """The dataset with a class for each record.

    Args:
        classes: a list, array or tensor of classes, or the name of a table column.
    """
    column = dataset.codec.with_class_column(classes) if isinstance(classes, str) else None
    if column is not None:
        return replace(dataset, codec=column)
    if dataset.tokens is not None:
        raise InputError("classes: windows of one text cannot have classes")
    names = _class_names(classes)
    if len(names) != len(dataset.records):
        raise InputError(f"classes: {len(names)} classes for {len(dataset.records)} records")
    codec = LabelledCodec(dataset.codec, tuple(sorted(set(names))))
    return replace(dataset, records=(dataset.records, names), codec=codec)


def _class_names(classes: Any) -> list[str]:
    """The name of each class of a list."""
    classes = classes.tolist() if hasattr(classes, "tolist") else classes
    if isinstance(classes, str | bytes | Mapping | Set) or not isinstance(classes, Iterable):
        raise InputError(
            f"classes: needs a list with the class of each record, or the name of a column of a "
            f"table, got {shown(classes)}"
        )
    names = []
    for number, name in enumerate(classes, 1):
        if is_missing(name):
            raise InputError(f"classes: record {number} has none; name it, or remove the record")
        with error_context("classes"):
            names.append(as_text(name, type_of_value(name, number)))
        if problem := text_problem(names[-1]):
            raise InputError(f"classes: record {number} {problem}")
    return names


def read_classes(dataset: Dataset, path: Path, label: str) -> Dataset:
    """The dataset of file ``path`` with the classes that ``--label`` names.

    Args:
        label: a column of the table, an array of the .npz, a .npy file, or a text file with one
            class per line.
    """
    if (column := dataset.codec.with_class_column(label)) is not None:
        return replace(dataset, codec=column)
    file = Path(label)
    in_archive = ".npz" in path.suffixes and not file.is_file()
    classes: Any
    if not in_archive and ".npy" not in file.suffixes:
        classes = list(iter(LineFile(file)))  # list(LineFile(file)) would read it twice
    else:
        classes, _ = read_named_array(path, label) if in_archive else read_named_array(file)
        if classes.ndim != 1:
            raise InputError(
                f"--label: '{label}' has shape {classes.shape}, needs one class per record"
            )
    with error_context(f"--label '{label}'"):
        return add_classes(dataset, classes)
