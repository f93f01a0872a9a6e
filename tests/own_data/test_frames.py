"""Frames keep the types of their columns: frame -> tokens -> frame."""

import datetime
import json
from decimal import Decimal

import numpy
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies as st

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.from_python import dataset_from_python
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.io.table.table_kind import Table

MOMENTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
SECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=0))
WORDS = st.text("abcß, '\"1", min_size=1, max_size=4).map(str.strip).filter(bool)


def integers(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def floats(width):
    return st.floats(-1e6, 1e6, width=width)


ZONE = "datetime64[ns, Europe/Berlin]"
DECIMALS = st.integers(-(10**9), 10**9).map(lambda x: Decimal(x) / 100)
PANDAS = {
    "int8": integers(8), "int32": integers(32), "int64": integers(50), "uint8": st.integers(0, 255),
    "Int64": integers(50), "UInt16": st.integers(0, 2**16 - 1), "float32": floats(32),
    "float64": floats(64), "Float64": floats(64), "bool": st.booleans(), "boolean": st.booleans(),
    "object": WORDS, "str": WORDS, "string": WORDS, "datetime64[s]": SECONDS,
    "datetime64[ns]": MOMENTS, "datetime64[us]": MOMENTS, ZONE: MOMENTS,
}  # fmt: skip
WHOLE = ("int8", "int32", "int64", "uint8", "bool")  # have no missing values in pandas
POLARS = {
    polars.Int8: integers(8), polars.Int64: integers(50), polars.UInt32: st.integers(0, 2**32 - 1),
    polars.Float32: floats(32), polars.Float64: floats(64), polars.Boolean: st.booleans(),
    polars.String: WORDS, polars.Categorical: WORDS, polars.Date: st.dates(),
    polars.Time: st.times(), polars.Decimal(12, 2): DECIMALS, polars.Datetime("ms"): SECONDS,
    polars.Datetime("us", "Europe/Berlin"): MOMENTS, polars.Datetime("ns"): MOMENTS,
}  # fmt: skip
ARROW = {
    pyarrow.int8(): integers(8), pyarrow.int64(): integers(50), pyarrow.float32(): floats(32),
    pyarrow.float64(): floats(64), pyarrow.bool_(): st.booleans(), pyarrow.string(): WORDS,
    pyarrow.large_string(): WORDS, pyarrow.date32(): st.dates(), pyarrow.time64("us"): st.times(),
    pyarrow.decimal128(12, 2): DECIMALS, pyarrow.timestamp("ms"): SECONDS,
    pyarrow.timestamp("us"): MOMENTS, pyarrow.timestamp("ns", "Europe/Berlin"): MOMENTS,
}  # fmt: skip


def cells(draw, values, missing=True):
    """A column of four to eight values of which at most 64 are distinct, so all are exact."""
    column = draw(st.lists(st.none() | values if missing else values, min_size=4, max_size=8))
    return [*column, draw(values)]


def same_length(columns):
    shortest = min(map(len, columns.values()))
    return {name: column[-shortest:] for name, column in columns.items()}


def table(draw, types, whole=()):
    names = draw(st.lists(st.sampled_from(list(types)), min_size=1, max_size=4))
    columns = {f"c{i}": (name, cells(draw, types[name], name not in whole)) for i, name in
               enumerate(names)}  # fmt: skip
    rows = same_length({name: column for name, (_, column) in columns.items()})
    return {name: (columns[name][0], column) for name, column in rows.items()}


def round_trip(frame):
    """The frame that tokens of a frame decode to, with a codec that is read from JSON."""
    dataset = dataset_from_python(frame)[1]
    codec = TableCodec.from_json(json.loads(json.dumps(dataset.codec.describe())))
    return codec.as_given(codec.decode(dataset.encoded()))


def pandas_column(dtype, column):
    if dtype == ZONE:
        return pandas.Series(column, dtype="datetime64[ns]").dt.tz_localize("UTC").astype(dtype)
    return pandas.Series(column, dtype=dtype)


@settings(max_examples=40)
@given(st.data())
def test_pandas_frames_come_back_with_equal_types_and_values(data):
    columns = table(data.draw, PANDAS, WHOLE)
    frame = pandas.DataFrame({name: pandas_column(*column) for name, column in columns.items()})
    frame["row"] = pandas.Categorical([i % 3 for i in range(len(frame))], [3, 2, 1, 0], True)
    pandas.testing.assert_frame_equal(round_trip(frame), frame)


@settings(max_examples=40)
@given(st.data())
def test_polars_frames_come_back_with_equal_types_and_values(data):
    columns = table(data.draw, POLARS)
    series = {name: polars_column(*column) for name, column in columns.items()}
    frame = polars.DataFrame(series)
    sizes = polars.Series(["M" if i % 2 else "L" for i in range(len(frame))])
    frame = frame.with_columns(size=sizes.cast(polars.Enum(["XS", "S", "M", "L"])))
    again = round_trip(frame)
    assert again.schema == frame.schema
    assert again.equals(frame)


def polars_column(dtype, column):
    zone = getattr(dtype, "time_zone", None)
    if zone is None:
        return polars.Series(column, dtype=dtype)
    moments = polars.Series(column, dtype=polars.Datetime(dtype.time_unit))
    return moments.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)


@settings(max_examples=40)
@given(st.data())
def test_arrow_tables_come_back_with_equal_types_and_values(tmp_path_factory, data):
    """In memory and through Parquet files, which have dictionaries with indices of 32 bits."""
    columns = table(data.draw, ARROW)
    arrays = {name: pyarrow.array(x, kind) for name, (kind, x) in columns.items()}
    codes = pyarrow.array([i % 2 + 1 for i in range(len(arrays["c0"]))], pyarrow.int32())
    categories = pyarrow.array(["XS", "S", "M", "L"])
    arrays["size"] = pyarrow.DictionaryArray.from_arrays(codes, categories, ordered=True)
    frame = pyarrow.table(arrays)
    assert round_trip(frame).equals(frame)
    folder = tmp_path_factory.mktemp("parquet")
    pyarrow.parquet.write_table(frame, folder / "a.parquet")
    dataset = Table().read(folder / "a.parquet")
    with Table().writer(folder / "b.parquet", dataset.codec, len(frame)) as write:
        write(dataset.codec.decode(dataset.encoded()))
    written, read = (pyarrow.parquet.read_table(folder / f"{x}.parquet") for x in "ba")
    assert written.schema.equals(read.schema)
    assert written.equals(read)


def test_many_numbers_keep_their_types():
    """Bins have several numbers, which need not come back."""
    g = numpy.random.default_rng(0)
    day = numpy.datetime64("2020-01-01", "s")
    frame = pandas.DataFrame({
        "a": g.integers(0, 10**6, 9000).astype("int32"), "b": g.normal(size=9000).astype("float32"),
        "c": day + g.integers(0, 10**8, 9000),
        "d": pandas.array(g.integers(0, 9999, 9000), "Int16"),
    })  # fmt: skip
    frame.loc[:9, "d"] = None
    again = round_trip(frame)
    assert list(again.dtypes) == list(frame.dtypes)
    assert again["d"].isna().sum() == 10
    assert (again["a"] - frame["a"]).abs().max() < 2000
    back = round_trip(pyarrow.table({"x": pyarrow.array(g.normal(size=9000).round(2)).cast(
        pyarrow.decimal128(9, 2), safe=False), "y": ["u", "v"] * 4500}))  # fmt: skip
    assert back.schema.field("x").type == pyarrow.decimal128(9, 2)


def test_the_index_of_pandas_is_dropped(tmp_path):
    frame = pandas.DataFrame({"a": [1, 2, 1], "b": ["x", "y", "x"]}, index=[5, 7, 9])
    assert round_trip(frame).index.tolist() == [0, 1, 2]
    frame.to_parquet(tmp_path / "a.parquet")
    assert Table().read(tmp_path / "a.parquet").codec.names == ("a", "b")


D = datetime.date(2024, 1, 1)
BAD_PANDAS = [
    ({"a": [1, "x"]}, "column a: row 2 is of type str, rows above are of type int; convert"),
    ({"a": ["x", None, 1.5]}, "column a: row 3 is of type float"),
    ({"a": ["x", ["y"]]}, "column a: row 2 is of type list; convert"),
    ({"a": [{}, {"x": 1}]}, "column a: row 1 is of type dict"),
    ({"a": [b"x", b"y"]}, "column a: row 1 is of type bytes"),
    ({"a": [D, datetime.datetime(2024, 1, 1)]}, "column a: row 2 is of type datetime"),
    ({"a": pandas.to_timedelta([1, 2])}, r"column a: has type timedelta64\[ns\]; convert"),
    ({"a": pandas.cut([1, 2, 3], 2)}, r"column a: has type interval"),
    ({"a": [1j, 2j]}, "column a: has type complex128"),
    ({"a": [1.0, numpy.inf]}, "column a, row 2: inf is too large"),
    ({"a": [1, 2**63]}, "column a, row 2: 9223372036854775808 is too large"),
    ({"a": [1, 10**400]}, "column a, row 2: 1000.* is too large"),
    ({"a": [1.0, 1e301]}, "column a, row 2: 1e[+]301 is too large"),
    ({"a": ["x", "y\0"]}, "column a, row 2: contains a NUL character; remove it"),
    ({"a": pandas.Series(["x", "\ud800"], dtype=object)}, "column a, row 2: contains a lone surr"),
    ({"a": ["x", "y" * 10**6]}, "column a, row 2: has 1,000,000 characters, the limit is"),
    ({"a": [None, None], "b": [1, 2]}, "column a is empty; --drop 'a'"),
    ({"a": [1, 1], "b": ["x", "x"]}, "every column is constant"),
    ({"": [1, 2]}, "column 1 has no name"),
    ({"a\0": [1, 2]}, "the name of column 1 contains a NUL"),
    ({"1": [1, 2], 1: [1, 2]}, "two columns are named '1'; rename one"),
    ({}, "the table has no columns"),
    ({"a": []}, "at least 2 rows, it has 0"),
    ({("a", "b"): [1, 2]}, "several levels; give each one name"),
    ({"a": numpy.array([0, 1], "datetime64[ns]")}, "column a: row 2 has nanoseconds; round"),
    ({"a": numpy.array([0, 10**12], "datetime64[s]")}, "column a: row 2 has a year beyond 9999"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "message"), BAD_PANDAS)
def test_a_bad_frame_gives_an_error_of_one_line(columns, message):
    with pytest.raises(InputError, match=message) as raised:
        dataset_from_python(pandas.DataFrame(columns))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pyarrow.array([[1], [2]]), "column a: has type list<item: int64>; convert"),
        (pyarrow.array([b"x", b"y"]), "column a: has type binary"),
        (pyarrow.array([1, 2], pyarrow.duration("s")), "column a: has type duration"),
        (pyarrow.array([0, 9_000_000], pyarrow.date32()), "column a: row 2 has a year"),
        (pyarrow.array([0, 10**18], pyarrow.timestamp("us")), "column a: row 2 has a year"),
        (pyarrow.array([0, None, 1], pyarrow.timestamp("ns")), "column a: row 3 has nanoseconds"),
        (pyarrow.nulls(2), "column a is empty"),
    ],
)
def test_a_bad_parquet_column_gives_an_error_of_one_line(column, message, tmp_path):
    frame = pyarrow.table({"a": column})
    with pytest.raises(InputError, match=message):
        dataset_from_python(frame)
    if "duration" not in message:  # which Parquet does not have
        pyarrow.parquet.write_table(frame, tmp_path / "a.parquet")
        with pytest.raises(InputError, match="column a"):
            Table().read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (polars.LazyFrame({"a": [1, 2]}), "a lazy frame has no rows; pass frame.collect"),
        (polars.DataFrame({"a": [[1], [2]]}), "column a: has type List"),
        (polars.DataFrame({"a": [datetime.timedelta(1)] * 2}), "column a: has type Duration"),
        (polars.DataFrame({"a": [float("inf"), 1.0]}), "column a, row 1: inf is too large"),
        ([["x", b"y"], ["z", b"u"]], "column c2: row 1 is of type bytes"),
        ([["x", "y"], ["z"]], "data: row 2 has 1 cells, not 2"),
        (type("Frame", (), {"columns": ()})(), "is no frame of pandas, polars, pyarrow"),
    ],
)
def test_other_bad_records_give_an_error_of_one_line(frame, message):
    with pytest.raises(InputError, match=message):
        dataset_from_python(frame)


def test_filled_cells_that_do_not_fit_their_type_are_reported():
    codec = dataset_from_python(pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}))[1].codec
    assert codec.as_given([["3.0", "x"]])["a"].tolist() == [3]
    with pytest.raises(InputError, match="column a: cannot be int64"):
        codec.as_given([["odd", "x"]])


def test_wrong_dates_may_be_levels(tmp_path):
    (tmp_path / "a.csv").write_text("d,x\n2024-02-30,1\n2024-02-29,2\n2024-02-29,1\n")
    with pytest.raises(InputError, match=r"column d, row 1: .* is no date; .* --columns d=levels"):
        Table().read(tmp_path / "a.csv")
    codec = Table(column_kinds={"d": "levels"}).read(tmp_path / "a.csv").codec
    assert codec.columns[0].levels == ("2024-02-29", "2024-02-30")
