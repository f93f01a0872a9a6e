"""Ranges, sets and constraints: the law of accepted rows, and what cannot be satisfied."""

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.model import rejection
from discrete_meanflow.model.conditions import read_conditions
from discrete_meanflow.model.options import SampleOptions
from discrete_meanflow.model.rejection import Rejection
from statistics_of_draws import passes_chi_square

# A joint law of three columns, whose tokens are the places of their levels.
LAW = torch.rand(4, 3, 4, generator=torch.Generator().manual_seed(0)) ** 3
LAW /= LAW.sum()
NAMES, LEVELS = ("a", "k", "b"), (("1", "2", "3", ""), ("x", "y", "z"), ("1", "2", "3", "4"))
STATES = torch.cartesian_prod(*(torch.arange(len(levels)) for levels in LEVELS))
CELLS = [[levels[i] for levels, i in zip(LEVELS, s, strict=True)] for s in STATES.tolist()]
CODEC = TableCodec.of(NAMES, CELLS)


def exact(seed):
    """Draws of the law given observed positions, as a perfect model makes them."""
    g = torch.Generator().manual_seed(seed)

    def draw(tokens, observed):
        fits = ((tokens[:, None] == STATES) | ~observed[:, None]).all(-1)
        weights = LAW.flatten() * fits
        return STATES[torch.multinomial(weights, 1, generator=g)[:, 0]]

    return draw, g


def sampling(n=4000, infill=(), patterns=None, constraints=(), seed=0, train=STATES):
    codec = CODEC.with_constraints(constraints)
    requirements = codec.requirements(lambda: train)
    conditions = read_conditions(codec, SampleOptions(n, infill=infill), patterns, requirements)
    draw, g = exact(seed)
    return Rejection(draw, codec, conditions, g)


def rows_of(sampled):
    blocks = list(sampled)
    return [row for rows, _ in blocks for row in rows], torch.cat([tokens for _, tokens in blocks])


def law_given(holds):
    law = LAW.flatten() * torch.tensor([bool(holds(*row)) for row in CELLS])
    return law / law.sum()


def number(tokens):
    return (tokens * torch.tensor([12, 4, 1])).sum(-1)


def at_most(a, b):
    return not a or not b or int(a) <= int(b)


@pytest.mark.parametrize(
    ("infill", "constraints", "holds"),
    [
        (("a>=2",), (), lambda a, k, b: a and int(a) >= 2),
        (("k=x|z,b>1,<4",), (), lambda a, k, b: k != "y" and 1 < int(b) < 4),
        ((), ("a<=b",), lambda a, k, b: at_most(a, b)),
        (
            ({"a": ["1", None]}, "k=z"),
            ("b>a",),
            lambda a, k, b: k == "z" and (not a or (a == "1" and int(b) > 1)),
        ),
    ],
)
def test_accepted_rows_have_the_law_of_the_model_given_the_conditions(infill, constraints, holds):
    sampled = sampling(infill=infill, constraints=constraints)
    rows, tokens = rows_of(sampled)
    assert len(rows) == len(tokens) == 4000
    assert rows == CODEC.decode(tokens)
    assert passes_chi_square(number(tokens), law_given(holds))
    assert not sampled.from_pool
    assert rows_of(sampling(infill=infill, constraints=constraints))[0] == rows


def test_rows_given_rare_cells_have_the_same_law(monkeypatch):
    """Each row alone has it: rows of one pattern share the cells of a pool."""
    monkeypatch.setattr(rejection, "RARE", 0.9)
    monkeypatch.setattr(rejection, "POOL", 2)
    patterns = ["a>=2,k=x|y"] * 3000
    sampled = sampling(9, patterns=patterns)
    rows, tokens = rows_of(sampled)
    assert len(rows) == 27_000
    assert len(sampled.from_pool) > 2900
    assert "restricted cells" in sampled.note
    law = law_given(lambda a, k, b: a in ("2", "3") and k != "z")
    assert passes_chi_square(number(tokens[8::9]), law)
    rows, _ = rows_of(sampling(9, patterns=patterns[:100], constraints=("a<=b",)))
    assert all(at_most(row[0], row[2]) and row[0] in "23" for row in rows)


def test_each_pattern_has_its_own_conditions():
    patterns = [{"a": ">=2"}, {"k": "x"}, {}, {"a": "1", "b": "<3"}]
    rows, _ = rows_of(sampling(500, patterns=patterns, constraints=("a<=b",)))
    assert all(at_most(row[0], row[2]) for row in rows)
    parts = [rows[i : i + 500] for i in range(0, 2000, 500)]
    assert {row[0] for row in parts[0]} == {"2", "3"}
    assert {row[1] for row in parts[1]} == {"x"}
    assert {row[1] for row in parts[2]} == {"x", "y", "z"}
    assert {(row[0], row[2]) for row in parts[3]} == {("1", "1"), ("1", "2")}


def test_combinations_and_unique_cells_always_hold():
    train = STATES[(STATES[:, 0] + STATES[:, 1]) % 3 == 0]
    known = {(row[0], row[1]) for row in CODEC.decode(train)}
    rows, _ = rows_of(sampling(1000, constraints=("together(a,k)",), train=train))
    assert {(row[0], row[1]) for row in rows} == known
    rows, _ = rows_of(sampling(4, constraints=("unique(b)",)))
    assert sorted(row[2] for row in rows) == ["1", "2", "3", "4"]
    rows, _ = rows_of(sampling(50, constraints=("unique(a)",)))  # missing cells may repeat
    assert sum(bool(row[0]) for row in rows) == 3


def test_contradictions_are_one_line_that_names_the_column():
    for asked, message in {
        ("a>=9",): "infill: a>=9: no value satisfies this; column a has",
        ("a>=3", "a<2"): "infill: a>=3,a<2: no value satisfies this",
        ("k=x|y", "k=z"): "k=x|y does not hold for the known 'z'",
        ("a=3,b=2",): "a<=b does not hold for the known '3', '2'",
        ("k=x,a=3",): r"together\(a,k\) does not hold for the known '3', 'x'",
        ("k>=2",): "infill: column k has no '>=2'",
        ("b>=q",): "infill: column b has numbers, 'q' is none",
    }.items():
        for many in (False, True):
            patterns = [{}, ",".join(asked)] if many else None
            train = STATES[STATES[:, 0] != 2]  # a is never 3
            with pytest.raises(InputError, match=message) as caught:
                sampling(
                    infill=() if many else asked,
                    patterns=patterns,
                    constraints=("a<=b", "together(a,k)"),
                    train=train,
                )
            assert str(caught.value).startswith("conditions, row 2: ") == many
            assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="5 rows, but column b has 4 values"):
        sampling(5, constraints=("unique(b)",))
    with pytest.raises(InputError, match=r"conditions, row 2: unique\(b\) does not allow '1' twi"):
        sampling(1, patterns=[{"b": 1}, {"b": 1}], constraints=("unique(b)",))
