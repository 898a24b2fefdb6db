"""The spread between sessions, estimated from few of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuperf.statistics.decision import Thresholds
from pytest_gpuperf.statistics.variance import LogTime, Variance, add, moderate, pool

T = Thresholds()


def sessions(*times_us: float, card: str = "GPU-1") -> list[LogTime]:
    return [LogTime(math.log(time_us), card) for time_us in times_us]


def sd_pct(variance: Variance) -> float:
    return 100 * math.sqrt(variance.value)


def suite(rng: np.random.Generator, sds_pct: np.ndarray, count: int) -> dict[int, list[LogTime]]:
    """Return sessions of tests of 50 µs with a known spread."""
    logs = math.log(50) + rng.standard_normal((len(sds_pct), count)) * sds_pct[:, None] / 100
    return {key: [LogTime(float(log), "GPU-1") for log in row] for key, row in enumerate(logs)}


def test_with_a_single_session_the_guess_alone_counts() -> None:
    variance = moderate({"k": sessions(50.0)}, T)["k"]
    assert sd_pct(variance) == pytest.approx(0.25)
    assert variance.df == 3


def test_guess_for_a_short_kernel_is_in_microseconds() -> None:
    assert sd_pct(moderate({"k": sessions(1.25)}, T)["k"]) == pytest.approx(1.6)


def test_sessions_on_different_cards_are_not_replicates() -> None:
    variance = moderate({"k": [*sessions(50.0), *sessions(53.0, card="GPU-2")]}, T)["k"]
    assert sd_pct(variance) == pytest.approx(0.25)


def test_difference_between_cards_is_not_in_their_spread() -> None:
    first, second = sessions(50.0, 50.1, 50.2), sessions(53.0, 53.1, card="GPU-2")
    # The same sessions, with the second card scaled to the level of the first.
    level = sessions(*(50.0 * time_us / 53.0 for time_us in (53.0, 53.1)), card="GPU-2")
    apart = moderate({"k": [*first, *second]}, T)["k"]
    assert apart.value == pytest.approx(moderate({"k": [*first, *level]}, T)["k"].value)
    assert apart.df == 3 + 3


@pytest.mark.parametrize(("time_us", "guess"), [(50.0, 0.0025), (1.0, 0.02)])
def test_replicates_are_blended_with_the_guess_by_degrees_of_freedom(time_us: float, guess: float) -> None:
    times_us = (time_us, 1.002 * time_us, time_us / 1.002)
    own = np.var(np.log(times_us), ddof=1)
    variance = moderate({"k": sessions(*times_us)}, T)["k"]
    assert variance.value == pytest.approx((3 * (0.6 * guess) ** 2 + 2 * own) / 5)
    assert variance.df == 5


def test_very_noisy_test_keeps_half_of_its_variance() -> None:
    quiet = {key: sessions(50.0, 50.0 + 0.01 * key, 50.05) for key in range(1, 20)}
    loud = (40.0, 50.0, 60.0)
    variance = moderate({**quiet, 0: sessions(*loud)}, T)[0]
    assert variance.value == pytest.approx(np.var(np.log(loud), ddof=1) / 2)


def test_many_sessions_of_a_test_outweigh_the_guess() -> None:
    baselines = suite(np.random.default_rng(1), np.full(40, 0.1), 20)
    for key, variance in moderate(baselines, T).items():
        own = np.std([session.log_time for session in baselines[key]], ddof=1)
        assert 0.1 * own < math.sqrt(variance.value) < 0.0018


@pytest.mark.parametrize(("sds_pct", "prior_df"), [((0.2, 0.2), 6), ((0.02, 5.0), 2)])
def test_the_suite_weighs_two_to_six_degrees_of_freedom(
    sds_pct: tuple[float, float], prior_df: float
) -> None:
    """Check for six if all tests vary alike, and two if they have little in common."""
    baselines = suite(np.random.default_rng(2), np.geomspace(*sds_pct, 200), 4)
    assert moderate(baselines, T)[0].df == pytest.approx(3 + prior_df + 3)


def test_prior_of_the_suite_is_found_again() -> None:
    """Draw variances from Smyth's model: a scaled inverse chi-square with 4 degrees of freedom."""
    rng = np.random.default_rng(3)
    sds_pct = 0.3 * np.sqrt(4 / rng.chisquare(4, 4000))
    baselines = suite(rng, sds_pct, 4)
    variance = moderate(baselines, T)[0]
    prior_df = variance.df - 3 - 3
    assert prior_df == pytest.approx(4, abs=0.4)
    own = np.var([session.log_time for session in baselines[0]], ddof=1)
    prior = (variance.value * variance.df - 3 * 0.0015**2 - 3 * own) / prior_df
    assert math.sqrt(prior) == pytest.approx(0.003, rel=0.05)


def test_new_test_is_at_least_as_noisy_as_guessed() -> None:
    quiet = suite(np.random.default_rng(4), np.full(30, 0.05), 6)
    variance = moderate({**quiet, "new": sessions(50.0)}, T)["new"]
    assert sd_pct(variance) == pytest.approx(0.25)
    assert variance.df == 3


def test_new_test_may_be_as_noisy_as_the_suite() -> None:
    loud = suite(np.random.default_rng(4), np.full(30, 2.0), 6)
    assert 1.0 < sd_pct(moderate({**loud, "new": sessions(50.0)}, T)["new"]) < 2.0


def test_agreeing_sessions_do_not_make_a_suite_noiseless() -> None:
    same = {key: sessions(50.0, 50.0) for key in range(10)}
    assert sd_pct(moderate(same, T)[0]) == pytest.approx(0.15 * math.sqrt(3 / (3 + 6 + 1)), rel=0.02)


def test_one_test_of_agreeing_sessions_leaves_the_prior() -> None:
    alike = suite(np.random.default_rng(5), np.full(60, 0.25), 2)
    assert moderate({**alike, "same": sessions(50.0, 50.0)}, T)[0].df == moderate(alike, T)[0].df == 3 + 6 + 1


def test_tests_without_a_session_have_no_variance() -> None:
    assert moderate({"k": []}, T) == {}


def test_a_pool_is_weighted_by_degrees_of_freedom() -> None:
    assert pool([Variance(1.0, 1), Variance(4.0, 2)]) == Variance(3.0, 3)


def test_added_variances_have_the_degrees_of_freedom_of_welchs_test() -> None:
    first, second = [1.0, 1.2, 0.9, 1.1], [2.0, 2.9, 1.1]
    parts = [Variance(float(np.var(x, ddof=1)) / len(x), len(x) - 1) for x in (first, second)]
    welch = stats.ttest_ind(first, second, equal_var=False)
    total = add(parts)
    assert total.df == pytest.approx(welch.df)
    assert (np.mean(first) - np.mean(second)) / math.sqrt(total.value) == pytest.approx(welch.statistic)


@given(
    st.dictionaries(
        st.integers(0, 30), st.lists(st.floats(0.5, 1e6), min_size=1, max_size=6), min_size=1, max_size=12
    )
)
def test_variance_is_finite_and_at_least_half_its_own(times: dict[int, list[float]]) -> None:
    for key, variance in moderate({key: sessions(*each) for key, each in times.items()}, T).items():
        own = np.var(np.log(times[key]), ddof=1) if len(times[key]) > 1 else 0.0
        assert own / 2 * (1 - 1e-9) <= variance.value < math.inf
        assert variance.value > 0
        assert 3 <= variance.df <= 3 + 6 + 5
