"""Steps in the history of a time."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuperf.features.history.change_points import HistoryPoint, Noise, find_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.change_points import Step


def history(
    levels: Sequence[float], *, cards: str = "a", sd: float = 0.001, seed: int = 1
) -> list[HistoryPoint]:
    """Points of a test whose time has these relative levels, on cards in turn that differ by 2 %."""
    rng = random.Random(seed)
    offsets = {card: 1 + 0.02 * at for at, card in enumerate(sorted(set(cards)))}
    return [
        HistoryPoint(100 * level * offsets[card] * (1 + rng.gauss(0, sd)), card)
        for at, level in enumerate(levels)
        for card in cards[at % len(cards)]
    ]


def steps(points: Sequence[HistoryPoint]) -> tuple[Step, ...]:
    return find_steps(points, Noise())


def test_unchanged_history_has_no_change() -> None:
    assert steps(history([1.0] * 40)) == ()


@pytest.mark.parametrize("factor", [1.01, 0.99])
@pytest.mark.parametrize("cards", ["a", "abc"])
def test_step_is_found_with_its_commit_and_size(factor: float, cards: str) -> None:
    (change,) = steps(history([1.0] * 15 + [factor] * 15, cards=cards))
    assert (change.before, change.after) == (14, 15)
    assert change.low < factor < change.high
    assert change.high - change.low < 0.004


def test_change_of_cards_is_not_a_step() -> None:
    assert steps(history([1.0] * 40, cards="a" * 20 + "b" * 20)) == ()


def test_step_too_large_for_a_change_of_cards_is_found() -> None:
    (change,) = steps(history([1.0] * 20 + [1.5] * 20, cards="a" * 20 + "b" * 20))
    assert (change.before, change.after) == (19, 20)


def test_small_losses_together_are_found() -> None:
    creep = [1 + 0.005 * at for at in range(7)]
    found = steps(history([1.0] * 15 + creep[1:] + [creep[-1]] * 15))
    assert 14 <= found[0].before <= found[-1].after <= 21
    assert math.prod(change.ratio for change in found) == pytest.approx(1.03, abs=0.005)


def test_step_up_and_down_are_two_changes() -> None:
    changes = steps(history([1.0] * 15 + [1.02] * 15 + [1.0] * 15))
    assert [(change.before, change.after) for change in changes] == [(14, 15), (29, 30)]
    assert [change.ratio > 1 for change in changes] == [True, False]


def test_loss_that_was_fixed_soon_is_found() -> None:
    changes = steps(history([1.0] * 20 + [1.06] * 6 + [1.0] * 20))
    assert [(change.before, change.after) for change in changes] == [(19, 20), (25, 26)]


def test_one_slow_session_is_not_a_change() -> None:
    assert steps(history([1.0] * 15 + [1.05] + [1.0] * 15)) == ()


def test_change_within_the_indifference_zone_is_not_reported() -> None:
    assert steps(history([1.0] * 50 + [1.002] * 50, sd=0.0002)) == ()


def test_noisy_step_has_a_wide_commit_range() -> None:
    (change,) = steps(history([1.0] * 40 + [1.03] * 40, sd=0.02, seed=6))
    assert change.after - change.before > 1
    assert change.before <= 39 < 40 <= change.after


def test_known_error_widens_the_interval() -> None:
    levels = [1.0] * 15 + [1.03] * 15
    points = history(levels)
    (certain,) = steps(points)
    (uncertain,) = steps([point._replace(sd=0.01) for point in points])
    assert uncertain.high - uncertain.low > 2 * (certain.high - certain.low)


def at_clocks(levels: Sequence[float], share: float, seed: int = 1) -> list[HistoryPoint]:
    """Points at clocks that differ by up to 2 %, of a test of which this share follows the clock."""
    clocks = random.Random(seed)
    mhz = [clocks.choice([1980.0, 1965.0, 1940.0]) for _ in levels]
    slower = [1 + share * (1980 / each - 1) for each in mhz]
    points = history([level * factor for level, factor in zip(levels, slower, strict=True)], sd=0.0003)
    return [point._replace(mhz=each) for point, each in zip(points, mhz, strict=True)]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_known_clock_shows_a_step_three_commits_later(share: float) -> None:
    points = at_clocks([1.0] * 12 + [1.01] * 3, share)
    (change,) = steps(points)
    assert (change.before, change.after) == (11, 12)
    assert change.low < 1.01 < change.high


def test_step_is_not_found_that_soon_without_the_clock() -> None:
    points = at_clocks([1.0] * 12 + [1.01] * 3, share=1.0)
    assert steps([point._replace(mhz=0.0) for point in points]) == ()


def test_unknown_clock_of_some_points_hides_no_step() -> None:
    points = at_clocks([1.0] * 15 + [1.02] * 15, share=0.0)
    some = [point._replace(mhz=0.0) if at % 3 else point for at, point in enumerate(points)]
    (change,) = steps(some)
    assert (change.before, change.after) == (14, 15)


def test_step_at_another_clock_is_found_if_the_clock_cannot_explain_it() -> None:
    levels = [1.0] * 15 + [1.05] * 15
    points = [point._replace(mhz=1980.0 if at < 15 else 1960.0) for at, point in enumerate(history(levels))]
    (change,) = steps(points)
    assert change.low < 1.05 < change.high


TIMES = st.floats(1e-3, 1e9)
CLOCKS = st.just(0.0) | st.floats(1, 1e5)
POINTS = st.lists(
    st.builds(HistoryPoint, TIMES, st.sampled_from("abc"), st.floats(0, 0.5), CLOCKS), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(POINTS, st.sampled_from([1e-4, 0.1]))
def test_changes_of_any_history_are_in_order_and_within_it(points: list[HistoryPoint], level: float) -> None:
    changes = find_steps(points, Noise(), level=level)
    assert all(0 <= change.before < change.after < len(points) for change in changes)
    assert all(change.low <= change.ratio <= change.high for change in changes)
    assert [change.before for change in changes] == sorted(change.before for change in changes)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_time_that_follows_the_clock_has_no_change(share: float) -> None:
    points = at_clocks([1.0] * 30, share)
    slow = [point for point in points if point.mhz < 1960]
    assert steps([*(point for point in points if point.mhz > 1960), *slow]) == ()
