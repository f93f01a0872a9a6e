"""From records to a run folder: what was understood, the split, the plan."""

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import torch

from discrete_meanflow.data import TokenArray
from discrete_meanflow.data.array_codec import ArrayCodec
from discrete_meanflow.data.bins import bin_columns
from discrete_meanflow.data.cells import as_text, is_missing, type_of
from discrete_meanflow.data.codec import Codec
from discrete_meanflow.data.dataset import Dataset
from discrete_meanflow.data.kind import Array, Kind, Lines, Table
from discrete_meanflow.data.labelled_codec import LabelledCodec
from discrete_meanflow.data.lines import location_of
from discrete_meanflow.data.read_array import check_integers
from discrete_meanflow.data.split import check_held_out, first_occurrences, shuffled, take_rows
from discrete_meanflow.data.subword_codec import SubwordCodec
from discrete_meanflow.data.table_codec import TableCodec
from discrete_meanflow.data.text_codec import TextCodec
from discrete_meanflow.errors import DataError, InputError
from discrete_meanflow.model import run_folder as run
from discrete_meanflow.model.plan import Plan, choose, fitted, of_iterations, sensible_size
from discrete_meanflow.types import State

Json = dict[str, Any]
LATE = 1.2  # times the minutes that were given, from which on it is told
FEW_STEPS = 200  # of a stage, whose samples are poor
LOOKED_AT = 10_000  # records, for what a tokenizer loses
FEW = 0.001  # of the records, that make all others long
FEWEST_JUDGED = 8  # held-out records
HELD_OUT, MOST_HELD_OUT = 0.15, 10_000  # share of the distinct records, and at most


def prepare(
    out: Path,
    kind: Kind,
    dataset: Dataset,
    device: str,
    *,
    minutes: float | None = None,
    iterations: int | None = None,
    size: float | None = None,
    batch: int | None = None,
    accumulate: int = 1,
    seed: int = 0,
    held_out: int | None = None,
    processes: int = 1,
    told: Mapping[str, str] | None = None,
) -> Json:
    """Write a run folder that is ready to be trained; the data card, as it stands in it.

    What is ``told`` is kept in it: the command that makes the run again, for one.
    """
    if not 0 <= seed < 2**63:
        raise InputError(f"--seed: a whole number from 0 to 2^63 - 1, got {seed}")
    run.check_room(out)
    codec = dataset.codec
    train, rest, note = _split(dataset, held_out, seed)
    card = {
        "kind": kind.name,
        **note,
        "training records": len(train),
        "held-out records": len(rest),
        **understood(codec, dataset),
        **_doubts(kind, dataset, len(rest)),
        **(told or {}),
    }
    size = sensible_size(codec, device, train.numel()) if size is None else size
    plan = choose(codec, device, size, seed, batch, accumulate, processes)
    if iterations is not None:
        plan = of_iterations(plan, codec, device, iterations)
    else:
        data = TokenArray(train, codec.vocabulary)
        minutes = 10.0 if minutes is None else minutes
        plan, taken = fitted(plan, codec, data, device, minutes, processes)
        card |= _time(plan, minutes, taken)
    plan.check_size(codec)
    run.create(out, run.Config(kind, codec, plan), card, train, rest)
    return card


def _split(dataset: Dataset, held_out: int | None, seed: int) -> tuple[State, State, Json]:
    """Training records, those held out, and how many there were of which sort."""
    tokens, codec = dataset.encoded(), dataset.codec
    note = {"records": len(tokens)}
    if dataset.tokens is not None:
        once = len(first_occurrences(tokens))
        note |= {"distinct": once, "duplicates kept": len(tokens) - once}
        return *end_apart(tokens, held_out), note
    repeats = isinstance(codec.bare, TableCodec | ArrayCodec)
    train, rest, more = cut(tokens, held_out, seed, repeats, codec.bare.length)
    return train, rest, note | more


def _time(plan: Plan, minutes: float, taken: float) -> Json:
    """What to tell of minutes that are few."""
    steps = f"{plan.iterations} and {plan.second} steps"
    if taken > LATE * minutes:
        return {"time": f"about {taken:.1f} minutes: fewer than {steps} teach nothing"}
    if min(plan.iterations, plan.second) < FEW_STEPS:
        few = f"{minutes:g} minutes, enough for {steps}: these teach little, give it more"
        return {"time": few}
    return {}


def _doubts(kind: Kind, dataset: Dataset, held_out: int) -> Json:
    """What to tell a user who may not have meant it so."""
    found = {} if dataset.source is None else {"array": dataset.source}
    guessed = isinstance(kind, Table) and kind.header is None
    if guessed and isinstance(dataset.codec, TableCodec) and not dataset.codec.header:
        found["header"] = "none; if the first row names the columns, --header yes"
    if warning := kind.warning(dataset):
        found["warning"] = warning
    if held_out < FEWEST_JUDGED:
        few = f"{held_out} held-out records are too few to judge by: --held-out N"
        found["evaluation"] = f"{few}, from {FEWEST_JUDGED}"
    return found


def as_option(value: Any) -> str:
    """Of a command that is kept: all digits of a number, and no more."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)


def check_one_length(dataset: Dataset) -> None:
    """Refuse strings that would have to be filled up."""
    codec = dataset.codec.bare
    if (
        not isinstance(codec, TextCodec | SubwordCodec)
        or codec.pad is None
        or dataset.tokens is not None
    ):
        return
    lengths = map(codec.count, dataset.bare)
    first = next(lengths)
    number, length = next(((i, n) for i, n in enumerate(lengths, 2) if n != first), (0, 0))
    if not number and isinstance(codec, SubwordCodec):
        return
    if not number:
        raise InputError("the data changed while they were read")
    where = location_of(dataset.bare, number)
    raise InputError(f"{where} has {length} symbols, the first {first}; --pad allows it")


def cut(
    tokens: State, held_out: int | None, seed: int, repeats: bool, length: int | None = None
) -> tuple[State, State, Json]:
    """Training records, those held out, and what to tell about doubles.

    Of strings each is kept once, and none is on both sides, though its class may be another:
    ``length`` positions tell. Rows of a table and arrays are draws from a law in which some are
    likelier; their ``repeats`` stay, and what is held out is a draw from the same law.
    """
    once = first_occurrences(tokens)
    if len(once) < 2:
        raise DataError("the data have one distinct record; a generator needs more")
    doubles = len(tokens) - len(once)
    note = {"distinct": len(once), "duplicates kept" if repeats else "duplicates removed": doubles}
    rows, groups = (numpy.arange(len(tokens)) if repeats else once), None
    if not repeats and length is not None and length < tokens.shape[1]:
        bare = tokens.numpy()[once, :length]
        groups = numpy.unique(bare, axis=0, return_inverse=True)[1].reshape(-1)
    kinds = len(rows) if groups is None else int(groups.max()) + 1
    held_out = _share(kinds) if held_out is None else held_out
    check_held_out(held_out, kinds)
    apart = numpy.zeros(kinds, bool)
    apart[shuffled(kinds, seed)[:held_out]] = True
    # In random order: files are sorted, and halves of what is held out are compared.
    order = shuffled(len(rows), seed)
    there = apart[order] if groups is None else apart[groups[order]]
    return take_rows(tokens, rows[order[~there]]), take_rows(tokens, rows[order[there]]), note


def end_apart(tokens: State, held_out: int | None) -> tuple[State, State]:
    """Windows of one text, in its order: its end is held out, and what repeats stays."""
    held_out = _share(len(tokens)) if held_out is None else held_out
    if not 0 < held_out < len(tokens):
        raise InputError(f"{held_out} of {len(tokens)} windows cannot be held out")
    return tokens[:-held_out], tokens[-held_out:]


def _share(count: int) -> int:
    """How many of so many are held out where nobody says."""
    return max(1, min(MOST_HELD_OUT, int(HELD_OUT * count)))


def understood(codec: Codec, dataset: Dataset) -> Json:
    """What the data looks like, for the card."""
    if isinstance(codec, LabelledCodec):
        records, names = dataset.records
        inner = understood(codec.inner, Dataset(records, codec.inner))
        counts = Counter(names)
        return {**inner, "classes": {name: counts[name] for name in codec.classes}}
    if isinstance(codec, TextCodec):
        known = dataset.tokens is None
        lengths = Counter(map(codec.count, dataset.records) if known else [codec.length])
        shortest, middle, longest = min(lengths), _median(lengths), max(lengths)
        found = {
            "alphabet": str(codec.alphabet),
            "symbols": codec.vocabulary,
            "pad": codec.alphabet.pad,
            "lengths": {"least": shortest, "median": middle, "most": longest},
        }
        longer = sum(many for length, many in lengths.items() if length > longest // 2)
        if longer <= FEW * lengths.total():
            found["note"] = (
                f"{longer} records are more than half as long as the longest, {longest}, to "
                "which all are filled up; training is quicker without them"
            )
        return found
    if isinstance(codec, TableCodec):
        levels = {n: len(each) for n, each in zip(codec.names, codec.levels, strict=True)}
        return {"columns": levels} | ({} if codec.label is None else {"class": codec.label})
    if isinstance(codec, SubwordCodec):
        found = {"symbols": codec.vocabulary, "tokens at most": codec.length}
        some = list(itertools.islice(iter(dataset.records), LOOKED_AT))
        if lossy := sum(bool(codec.out_of_vocabulary(each)) for each in some):
            what = "records" if dataset.tokens is None else "lines at the beginning"
            text = f"of {lossy:,} of {len(some):,} {what} the tokenizer has no piece for some"
            found["note"] = f"{text}, which is lost"
        return found
    assert isinstance(codec, ArrayCodec)
    return {"shape": list(codec.shape), "symbols": codec.symbols}


def _median(counts: Counter[int]) -> int:
    ordered = sorted(counts)
    below = list(itertools.accumulate(counts[each] for each in ordered))
    return ordered[bisect.bisect(below, counts.total() // 2)]


def dataset_of(
    records: Any, strings: Kind | None = None, bins: int | None = None
) -> tuple[Kind, Dataset]:
    """Records given in Python: strings, rows, arrays, frames, or a dataset of tensors.

    ``strings``: of what kind they are, if records are strings; by default lines. ``bins``: values
    that columns of numbers are cut down to.
    """
    if isinstance(records, str | bytes | Path):
        one = "a file name" if isinstance(records, Path) else "one string"
        raise InputError(f"data: a list of records, not {one}; files and texts are for dmf train")
    if getattr(records, "columns", None) is not None:
        if strings is not None:
            raise InputError("data: a kind is for a list of strings; give one column of the frame")
        return _frame(records, bins)
    if isinstance(records, Mapping):
        raise InputError("data: a dict has no order of records; give a frame, or a list of rows")
    if isinstance(records, torch.utils.data.Dataset):
        records = _without_labels(records)
    elif not isinstance(records, numpy.ndarray | torch.Tensor):
        if not isinstance(records, Iterable):
            raise InputError(f"data: needs records, got {type(records).__name__}")
        records = list(records)
    if len(records) < 2:
        raise InputError(f"data: needs at least 2 records, got {len(records)}")
    if all(_is_row(each) for each in records) and strings is None:
        rows = [_cells(i, row) for i, row in enumerate(records, 1)]
        return Table(), _table([f"c{i + 1}" for i in range(len(rows[0]))], rows, bins)
    if bins is not None:
        raise InputError("data: bins are for rows of a table, or a frame")
    if all(isinstance(each, str) for each in records):
        kind = strings or Lines()
        return kind, kind.of(list(records))
    if strings is not None:
        raise InputError(f"data: a kind, '{strings.name}', is for a list of strings alone")
    if isinstance(records, list):
        _check_alike(records)
    return Array(), _array(records)


def _check_alike(records: list[Any]) -> None:
    """Refuse a list of records of several sorts, or of none."""
    words, rows = isinstance(records[0], str), _is_row(records[0])
    for number, each in enumerate(records, 1):
        odd = isinstance(each, str) != words or _is_row(each) != rows
        if odd or each is None or isinstance(each, Mapping | bytes):
            sort = "None" if each is None else f"{each!r:.40}"
            raise InputError(
                f"data: record {number} is {sort}; records are all strings, rows (lists of which "
                "some cells are strings) or arrays of whole numbers; a table may be a frame"
            )


def _frame(records: Any, bins: int | None) -> tuple[Kind, Dataset]:
    """Of pandas, which has itertuples, or polars, which has rows."""
    pandas = hasattr(records, "itertuples")
    rows = list(records.itertuples(index=False, name=None) if pandas else records.rows())
    names = [str(name) for name in records.columns]
    if len(set(names)) < len(names):
        raise InputError("data: two columns of the frame have one name")
    types = tuple(map(type_of, zip(*rows, strict=True)))
    cells = [_cells(i, row, types) for i, row in enumerate(rows, 1)]
    dataset = _table(names, cells, bins, types)
    assert isinstance(dataset.codec, TableCodec)
    codec = replace(dataset.codec, frame="pandas" if pandas else "polars")
    return Table(), replace(dataset, codec=codec)


def _without_labels(dataset: Any) -> list[Any]:
    """The records of a PyTorch dataset, whose items may be pairs of a record and its label."""
    many = isinstance(dataset, torch.utils.data.IterableDataset)
    items = list(dataset) if many else [dataset[i] for i in range(len(dataset))]
    return [each[0] if isinstance(each, tuple) else each for each in items]


def _is_row(record: Any) -> bool:
    """Cells of a table, of which some are words."""
    if isinstance(record, numpy.ndarray):
        return record.ndim == 1 and record.dtype.kind in "UO"
    return isinstance(record, list | tuple) and any(isinstance(cell, str) for cell in record)


def _cells(number: int, row: Sequence[Any], types: tuple[str, ...] = ()) -> list[str]:
    for place, cell in enumerate(row, 1):
        if is_missing(cell):
            raise InputError(
                f"data: row {number}, column {place}: a missing value; give it a level of its own"
            )
    return [as_text(*each) for each in zip(row, types or ("str",) * len(row), strict=True)]


def _table(
    names: list[str], rows: list[list[str]], bins: int | None, types: tuple[str, ...] = ()
) -> Dataset:
    if len(rows) < 2 or len({len(row) for row in rows}) > 1:
        raise InputError("data: a table needs at least 2 rows, all of one length")
    rows, cut = (rows, ()) if bins is None else bin_columns(rows, bins)
    return Dataset(rows, TableCodec.of(names, rows, types, cut))


def _array(records: Any) -> Dataset:
    try:
        if not isinstance(records, numpy.ndarray | torch.Tensor):
            records = [numpy.asarray(each) for each in records]
        array = numpy.asarray(records)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"data: records must have one shape ({error})") from None
    return Dataset(array, ArrayCodec.of(check_integers(array, "data")))
