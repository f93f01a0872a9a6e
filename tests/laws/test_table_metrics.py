"""Metrics of tables: real rows reach the floor, and each defect moves the score it should."""

import numpy
import pytest
from hypothesis import given, strategies as st
from scipy.stats import ks_2samp

from discrete_meanflow.metric import forest
from discrete_meanflow.metric.column_prediction import best_predicted, utility
from discrete_meanflow.metric.column_shapes import missing_rate, shape_distance
from discrete_meanflow.metric.pair_trends import pair_distances
from discrete_meanflow.metric.privacy import PrivacyTest, RowDistance
from discrete_meanflow.metric.table_comparison import TableComparison

NUMERIC = [True, True, False, False]  # of the columns below
NUMBER, NOISY, LEVEL, SIGN = range(4)


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    grow = forest.random_forest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest, "random_forest", lambda seed: grow(seed, 20))
        yield


def table(n, seed):
    """A normal number, the same with noise and holes, an independent level, the number's sign."""
    g = numpy.random.default_rng(seed)
    number = g.normal(size=n)
    noisy = number + 0.1 * g.normal(size=n)
    noisy[g.random(n) < 0.1] = numpy.nan
    return numpy.stack([number, noisy, g.integers(0, 4, n), number > 0], 1)


TRAIN, REAL, OTHER = table(1500, 0), table(600, 1), table(600, 2)


def changed(column, values):
    """The rows of ``OTHER`` with another column."""
    rows = OTHER.copy()
    rows[:, column] = values
    return rows


def shuffled(x):
    g = numpy.random.default_rng(3)
    return numpy.stack([g.permutation(column) for column in x.T], 1)


def scores(x):
    quality = TableComparison.of(REAL, x, NUMERIC, SIGN).scores
    privacy, _ = PrivacyTest(TRAIN, REAL, NUMERIC)(x)
    return quality | privacy


@pytest.fixture(scope="module")
def floor(few_trees):
    return scores(OTHER)


def test_real_rows_reach_the_floor(floor):
    assert floor["column shapes"] < 0.06
    assert floor["missing cells"] < 0.05
    assert abs(floor["C2ST AUC"] - 0.5) < 0.06
    assert floor["utility"] > 0.98
    assert abs(floor["membership AUC"] - 0.5) < 0.05
    assert floor["very close"] < 0.03
    distances = PrivacyTest(TRAIN, REAL, NUMERIC).held_out_distances
    assert floor["DCR median"] == pytest.approx(numpy.median(distances), rel=0.2)


def test_shuffled_columns_keep_their_shapes_and_lose_their_trends(floor):
    found, whole = scores(shuffled(OTHER)), TableComparison.of(OTHER, shuffled(OTHER), NUMERIC, 0)
    assert whole.shapes == (0, 0, 0, 0)
    assert whole.missing == (0, 0, 0, 0)
    assert whole.pairs[NUMBER, SIGN] > 0.4
    assert whole.pairs[LEVEL, SIGN] < 0.1
    assert found["pair trends"] > 2 * floor["pair trends"]
    assert found["C2ST AUC"] > 0.8
    assert found["utility"] < 0.7
    assert found["column shapes"] == pytest.approx(floor["column shapes"])


def test_copies_of_training_rows_are_found():
    found = scores(TRAIN)
    assert found["DCR median"] == found["DCR 5 %"] == 0
    assert found["very close"] == 1
    assert found["membership AUC"] > 0.95
    noise = 1e-3 * numpy.random.default_rng(0).normal(size=(len(TRAIN), 4)) * NUMERIC
    assert scores(TRAIN + noise)["membership AUC"] > 0.9
    half = PrivacyTest(TRAIN, REAL, NUMERIC)(numpy.concatenate([TRAIN[:300], OTHER[:300]]))[0]
    assert half["very close"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("value", [0.0, numpy.nan])
def test_constant_and_missing_columns_are_scored(column, value, floor):
    found = scores(changed(column, value))
    assert all(map(numpy.isfinite, found.values()))
    assert found["C2ST AUC"] > 0.6
    assert found["column shapes"] > floor["column shapes"] + 0.1
    comparison = TableComparison.of(REAL, changed(column, value), NUMERIC, column)
    assert comparison.shapes[column] == max(comparison.shapes)
    if numpy.isnan(value):
        assert comparison.missing[column] == 1 - missing_rate(REAL[:, column])
    assert numpy.isfinite(comparison.utility)
    same = REAL.copy()
    same[:, column] = value  # also in the real rows
    comparison = TableComparison.of(same, changed(column, value), NUMERIC, column)
    assert comparison.shapes[column] == comparison.missing[column] == 0
    assert all(map(numpy.isfinite, comparison.scores.values()))


@pytest.mark.parametrize("columns", [[NUMBER, NOISY], [LEVEL, SIGN], [NUMBER], [LEVEL]])
def test_tables_of_one_kind_and_of_one_column_are_scored(columns):
    numeric = [NUMERIC[i] for i in columns]
    train, real, other = (x[:, columns] for x in (TRAIN, REAL, OTHER))
    found = TableComparison.of(real, other, numeric, 0).scores
    privacy, distances = PrivacyTest(train, real, numeric)(other)
    assert all(map(numpy.isfinite, (found | privacy).values()))
    assert ("utility" in found) == ("pair trends" in found) == (len(columns) > 1)
    # Ranks that step at training rows would find these.
    assert abs(privacy["membership AUC"] - 0.5) < 0.05
    assert distances.max() <= len(columns)


CELLS = st.lists(st.one_of(st.integers(0, 5).map(float), st.just(numpy.nan)), min_size=1)


@given(CELLS, CELLS, st.booleans())
def test_shape_distances_are_distances(x, y, numeric):
    x, y = numpy.array(x), numpy.array(y)
    distance = shape_distance(x, y, numeric)
    assert 0 <= distance <= 1
    assert distance == shape_distance(y, x, numeric)
    assert shape_distance(x, x[::-1], numeric) == 0
    a, b = (z[~numpy.isnan(z)] for z in (x, y))
    if numeric and len(a) and len(b):
        assert distance == pytest.approx(ks_2samp(a, b).statistic)


ROWS = st.lists(st.tuples(*[st.integers(-4, 4) | st.just(numpy.nan)] * 4), min_size=3, max_size=3)


@given(ROWS)
def test_row_distances_are_distances(rows):
    rows, distance = numpy.array(rows, dtype=float), RowDistance(TRAIN, NUMERIC)
    (ab, bc, ac), (ba, _, _) = (
        [distance.closest(x[i : i + 1], x[j : j + 1])[0][0] for i, j in ((0, 1), (1, 2), (0, 2))]
        for x in (rows, rows[[1, 0, 2]])
    )
    assert ab == pytest.approx(ba)
    assert ac <= ab + bc + 1e-5
    assert 0 <= ab <= 4
    assert (distance.closest(rows, rows)[0] == 0).all()


def test_a_missing_number_is_apart_from_all_others():
    distance = RowDistance(TRAIN, NUMERIC)
    median = numpy.nanmedian(TRAIN[:, NOISY])
    rows = numpy.array([[0, cell, 0, 0] for cell in (numpy.nan, median, 100)])
    apart = [distance.closest(rows[:1], rows[i : i + 1])[0][0] for i in range(3)]
    assert apart == pytest.approx([0, 0.5, 1], abs=0.01)


def test_closest_rows_are_those_of_the_whole_table(monkeypatch):
    distance = RowDistance(TRAIN, NUMERIC)
    to_real, to_train = distance.closest(TRAIN, REAL)
    monkeypatch.setattr("discrete_meanflow.metric.privacy.CHUNK", 7 * len(REAL))
    chunked = distance.closest(TRAIN, REAL)
    assert (chunked[0] == to_real).all()
    assert (chunked[1] == to_train).all()
    assert distance.closest(TRAIN[5:6], REAL)[0][0] == pytest.approx(to_real[5], abs=1e-6)


def test_deciles_ignore_how_numbers_are_scaled():
    pairs = pair_distances(REAL, OTHER, NUMERIC)
    larger = [1e200, 1, 1, 1]
    assert pair_distances(REAL * larger, OTHER * larger, NUMERIC) == pairs
    assert list(pairs) == [(i, j) for i in range(4) for j in range(i + 1, 4)]


def test_a_missing_number_is_no_decile():
    number = OTHER[:, NUMBER]
    low = number < numpy.quantile(number, 0.1)
    holes = changed(NUMBER, numpy.where(low, numpy.nan, number))
    assert pair_distances(OTHER, holes, NUMERIC)[NUMBER, LEVEL] == pytest.approx(low.mean())


def test_utility_counts_what_can_be_learnt():
    assert utility(OTHER, REAL, NUMBER, True) > 0.9
    assert utility(OTHER * [1e250, 1, 1, 1], REAL * [1e250, 1, 1, 1], NUMBER, True) > 0.9
    assert utility(OTHER, REAL, LEVEL, False) < 0.45
    assert utility(changed(SIGN, 0), REAL, SIGN, False) == (REAL[:, SIGN] == 0).mean()
    many = numpy.stack([numpy.arange(600.0), numpy.arange(600.0)], 1)  # a level for each row
    assert 0 <= utility(many, many, 1, False) <= 1
    assert best_predicted(REAL, NUMERIC) in (NUMBER, SIGN)
    assert best_predicted(REAL[:, [LEVEL, NUMBER, NOISY]], [False, True, True]) != 0
