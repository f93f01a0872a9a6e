"""Columns of tables: cells to tokens and back."""

import json
from collections import Counter
from datetime import date, datetime, timedelta

import numpy
import pytest
from hypothesis import given, strategies as st

from discrete_meanflow.io.table.bin_tree import BRANCHES, bin_tree, exact_depth
from discrete_meanflow.io.table.choose_column import choose_columns
from discrete_meanflow.io.table.rows import Cells, Rows
from discrete_meanflow.io.table.table_codec import TableCodec

COUNTS = st.lists(st.integers(1, 1000), min_size=1, max_size=300)
G = numpy.random.default_rng(0)
N = 6000
CELLS = {
    "few words": G.choice(["red", "green", "blue"], N).tolist(),
    "many words": [f"w{i}" for i in G.zipf(1.3, N) % 5000],
    "few numbers": [str(i) for i in G.integers(0, 20, N)],
    "ages": [str(i) for i in G.integers(17, 95, N)],
    "prices": [f"{x:.2f}" for x in G.lognormal(3, 1, N)],
    "floats": [str(x) for x in G.normal(size=N)],
    "gains": [str(int(x)) for x in numpy.where(G.random(N) < 0.9, 0, G.lognormal(8, 2, N))],
    "hundreds": [str(100 * i) for i in G.integers(-10_000, 10_000, N)],
    "holes": ["" if G.random() < 0.2 else str(i) for i in G.integers(0, 5000, N)],
    "holes in words": ["" if G.random() < 0.2 else f"w{i}" for i in G.integers(0, 500, N)],
    "a question mark": ["?" if G.random() < 0.2 else str(i) for i in G.integers(0, 500, N)],
    "dates": [str(date(2000, 1, 1) + timedelta(int(i))) for i in G.integers(0, 9000, N)],
    "minutes": [
        (datetime(2013, 1, 1) + timedelta(minutes=int(i))).strftime("%Y-%m-%dT%H:%M")
        for i in G.integers(0, 500_000, N)
    ],
    "old moments": [f"{y:04}-06-01 12:00:00" for y in G.integers(800, 1200, N)],
    "times": [f"{i // 60:02d}:{i % 60:02d}" for i in G.integers(0, 1440, N)],
}
COLUMNS = {name: choose_columns([name], [[c] for c in cells])[0] for name, cells in CELLS.items()}
NUMBERS = [name for name, column in COLUMNS.items() if column.kind == "number"]


@given(st.lists(st.sampled_from("abcde"), min_size=1), st.data())
def test_cells_are_those_that_are_stored(cells, data):
    stored = Cells.of(cells)
    assert stored == cells == stored.present()
    assert sorted(stored.levels) == sorted(set(cells))
    rows = data.draw(st.slices(len(cells)))
    part = Cells(stored.levels, stored.codes[rows])
    assert part == cells[rows] == stored[rows] == part.present()
    assert part.counts() == Counter(cells[rows])
    assert set(part.present().levels) == set(cells[rows])
    wanted = data.draw(st.sampled_from("abcde"))
    row = part.first_row(wanted.__eq__)
    assert row == (cells[rows].index(wanted) + 1 if wanted in cells[rows] else None)
    merged = Cells.merged([x if x != "a" else "b" for x in stored.levels], stored.codes)
    assert merged == [x if x != "a" else "b" for x in cells]
    assert len(set(merged.levels)) == len(merged.levels)
    table = [[cell, cell * 2] for cell in cells]
    assert Rows.of(table) == table
    assert [*Rows.of(table)] == [Rows.of(table)[i] for i in range(len(table))] == table


@given(COUNTS, st.integers(1, 3))
def test_leaves_of_a_tree_are_runs_in_order(counts, depth):
    leaves = bin_tree(counts, depth)
    assert [leaf.first for leaf in leaves[1:]] == [leaf.last for leaf in leaves[:-1]]
    assert (leaves[0].first, leaves[-1].last) == (0, len(counts))
    paths = [leaf.path for leaf in leaves]
    assert paths == sorted(set(paths))
    assert all(0 <= token < BRANCHES for path in paths for token in path)
    if depth >= exact_depth(len(counts)):
        assert len(leaves) == len(counts)


@given(COUNTS)
def test_runs_are_not_much_more_frequent_than_others(counts):
    """Unless they are one value."""
    total = sum(counts)
    for leaf in bin_tree(counts, 1) if len(counts) > BRANCHES else ():
        mass = sum(counts[leaf.first : leaf.last])
        assert leaf.last - leaf.first == 1 or mass <= 0.15 * total


@pytest.mark.parametrize("name", COLUMNS)
def test_tokens_of_cells_decode_to_the_same_tokens(name):
    column, cells = COLUMNS[name], CELLS[name]
    tokens = column.encode(cells)
    assert tokens.shape == (N, column.depth)
    assert (tokens < column.sizes).all()
    again = column.decode(tokens, numpy.random.default_rng(1))
    assert (column.encode(again) == tokens).all()
    if column.kind == "levels":
        assert again == cells


@pytest.mark.parametrize("name", COLUMNS)
def test_every_path_decodes_to_a_cell_of_the_column(name):
    column, rng = COLUMNS[name], numpy.random.default_rng(0)
    paths = rng.integers(0, max(column.sizes) + 2, (500, column.depth))
    assert all(column.written(cell) == cell for cell in column.decode(paths, rng))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_keep_range_spacing_law_and_spikes(name):
    column, cells, rng = COLUMNS[name], CELLS[name], numpy.random.default_rng(0)
    drawn = column.decode(column.encode(cells), rng)
    parse, words = column.format.parse, set(column.words)
    real, made = (sorted(parse(c) for c in x if c not in words) for x in (cells, drawn))
    assert len(real) == len(made)
    assert real[0] <= made[0] <= made[-1] <= real[-1]
    grid = numpy.concatenate([[real[0] - 1], numpy.quantile(real, numpy.linspace(0, 1, 200))])
    laws = (numpy.searchsorted(x, grid, side="right") / len(x) for x in (real, made))
    assert numpy.abs(numpy.subtract(*laws)).max() < 0.01
    assert column.format.spacing == type(column.format).of(set(drawn) - words).spacing or (
        not column.format.spacing
    )
    count, (most, times) = Counter(drawn), Counter(cells).most_common(1)[0]
    if times > N / 10:
        assert count[most] == times


def test_kinds_of_columns_follow_from_the_cells():
    kinds = {name: (column.kind, column.type, column.depth) for name, column in COLUMNS.items()}
    assert kinds == {
        "few words": ("levels", "str", 1), "many words": ("levels", "str", 2),
        "few numbers": ("levels", "int", 1), "ages": ("number", "int", 2),
        "prices": ("number", "float", 2), "floats": ("number", "float", 2),
        "gains": ("number", "int", 2), "hundreds": ("number", "int", 2),
        "holes": ("number", "int", 2), "holes in words": ("levels", "str", 2),
        "a question mark": ("number", "str", 2), "dates": ("number", "date", 2),
        "minutes": ("number", "datetime", 2), "times": ("number", "time", 2),
        "old moments": ("number", "datetime", 2),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["holes", "holes in words"])
def test_missing_cells_have_a_first_token_of_their_own(name):
    column, cells = COLUMNS[name], CELLS[name]
    first = column.encode(cells)[:, 0]
    missing = numpy.array([cell == "" for cell in cells])
    assert (first[missing] == column.missing_token).all()
    assert (first[~missing] != column.missing_token).all()


def test_a_table_of_all_columns_is_read_again_from_json():
    codec = TableCodec(tuple(COLUMNS.values()))
    description = json.loads(json.dumps(codec.describe()))
    again = TableCodec.from_json(description)
    assert again == codec
    rows = [list(row) for row in zip(*CELLS.values(), strict=True)][:50]
    tokens = codec.encode(rows)
    assert again.decode(tokens) == codec.decode(tokens)
    assert len(codec.layout.positions) == len(codec.layout.symbols) == codec.length
    prices = description["columns"][list(COLUMNS).index("prices")]
    for damage in ({"paths": [[0, 1]]}, {"knots": []}, {"kind": "levels"}):
        column = {**prices, **damage}
        with pytest.raises((ValueError, KeyError)):
            TableCodec.from_json({**description, "columns": [column]})
