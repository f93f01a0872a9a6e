"""Read a file into a dataset, according to the options."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.codec import Dataset
from discrete_meanflow.io.content import check_readable, location_of
from discrete_meanflow.io.detect import detect
from discrete_meanflow.io.kind import Kind
from discrete_meanflow.io.kinds import find_kind
from discrete_meanflow.io.labelled_codec import read_classes
from discrete_meanflow.io.table.table_kind import Table
from discrete_meanflow.io.text_kinds import Tokenised, TokenisedWindows, Windows
from discrete_meanflow.model.options import ReadOptions
from discrete_meanflow.printable import printable

# Options that only one kind of data has.
OPTION_KINDS: dict[str, type[Kind]] = {
    "header": Table,
    "drop": Table,
    "columns": Table,
    "constraints": Table,
    "length": Windows,
}


def read_dataset(path: Path, options: ReadOptions) -> tuple[Kind, Dataset]:
    """Choose the kind of a file and read it. Errors name the file."""
    check_readable(path)
    kind = choose_kind(path, options)
    with file_context(path, options):
        dataset = kind.read(path)
        if options.label is not None:
            dataset = read_classes(dataset, path, options.label)
        if not options.pad:
            check_one_length(dataset)
    return kind, dataset


@contextmanager
def file_context(
    path: Path, options: ReadOptions, errors: type[InputError] = InputError
) -> Iterator[None]:
    """Prefix errors with the file name, unless they name it or the tokenizer already."""
    try:
        yield
    except errors as error:
        names = (path, options.tokenizer or path)
        is_named = any(printable(str(name)) in str(error) for name in names)
        raise InputError(f"{error}" if is_named else f"{path}: {error}") from None


def choose_kind(path: Path, options: ReadOptions) -> Kind:
    """The kind of a file with its options. An option that does not fit the kind is an error."""
    kind = detect(path) if options.kind == "auto" else find_kind(options.kind)
    if isinstance(kind, Windows):
        if options.tokenizer:
            kind = TokenisedWindows(options.length, options.tokenizer)
        else:
            kind = Windows(options.length)
    elif options.tokenizer is not None:
        if kind.name != "lines":
            raise InputError(
                f"--tokenizer is for lines and windows, but {path} is read as {kind.name}; pass "
                "--kind lines or --kind windows if that is wrong"
            )
        kind = Tokenised(options.tokenizer)
    elif isinstance(kind, Table):
        header = {"auto": None, "yes": True, "no": False}[options.header]
        kind = Table(header, options.drop, options.column_kinds, options.constraints)
    for name, owner in OPTION_KINDS.items():
        is_set = getattr(options, name) != getattr(ReadOptions, name)
        if is_set and not isinstance(kind, owner):
            raise InputError(f"--{name} is for {owner.name}, but {path} is {kind.name}")
    return kind


def check_one_length(dataset: Dataset) -> None:
    """Raise if strings would need padding."""
    codec = dataset.codec.bare
    if codec.pad is None or dataset.tokens is not None:
        return
    lengths = map(codec.count, dataset.bare)
    first = next(lengths)
    number, length = next(((i, n) for i, n in enumerate(lengths, 2) if n != first), (0, 0))
    if not number:
        return
    place = location_of(dataset.bare, number)
    raise InputError(f"{place} has {length} symbols, the first has {first}; allow it with --pad")
