"""Laws of the code of bins and places inside them."""

import numpy
from hypothesis import given, strategies as st

from discrete_meanflow.io.table.reflected_code import ReflectedCode

COUNTS = st.lists(st.integers(1, 64), min_size=1, max_size=12).map(numpy.array)


def every_place(counts):
    bins = numpy.repeat(numpy.arange(len(counts)), counts)
    return bins, numpy.concatenate([numpy.arange(n) for n in counts])


@given(COUNTS)
def test_symbols_stand_for_their_places(counts):
    code = ReflectedCode(counts)
    bins, places = every_place(counts)
    symbols = code.symbols(bins, places)
    assert ((symbols >= 0) & (symbols < code.width)).all()
    assert (code.places(bins, symbols) == places).all()


@given(COUNTS)
def test_every_symbol_stands_for_a_place(counts):
    code = ReflectedCode(counts)
    bins = numpy.repeat(numpy.arange(len(counts)), code.width)
    places = code.places(bins, numpy.tile(numpy.arange(code.width), len(counts)))
    assert ((places >= 0) & (places < counts[bins])).all()


@given(COUNTS)
def test_neighbours_are_near(counts):
    """Within a bin symbols are as far apart as they must be; between bins, half as far."""
    code = ReflectedCode(counts)
    bins, places = every_place(counts)
    symbols = code.symbols(bins, places)
    reach = code.width / (2 * counts[bins])  # half the symbols that stand for a place
    assert (abs(numpy.diff(symbols)) <= reach[1:] + reach[:-1] + 1).all()
    crossing = numpy.diff(bins) == 1
    steps = abs(numpy.diff(symbols))[crossing]
    assert (steps <= abs(reach[1:] - reach[:-1])[crossing] + 2).all()
