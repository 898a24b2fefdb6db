"""Times at other clocks, and by other sources, than those of their sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from present import present
from pytest_gpuperf.judge.times import screen
from pytest_gpuperf.records import OtherTime, Timing
from pytest_gpuperf.records.baseline import Session, TimeBaseline
from pytest_gpuperf.statistics.decision import Outcome, trimmed_mean
from run_builders import MODEL, at_clock, origin_of, timing

if TYPE_CHECKING:
    from pytest_gpuperf.judge.result import TimeComparison


def session(number: int, mhz: float = 2000.0) -> Session:
    return Session(
        run=f"r{number}",
        time_us=MODEL.time_us(mhz),
        normalised_us=MODEL.time_us(2000),
        sm_clock_mhz=mhz,
        clock_model=MODEL,
    )


def compared(now: Timing, sessions: tuple[Session, ...], reference_mhz: float = 2000.0) -> TimeComparison:
    times = TimeBaseline(mode="hot", reference_mhz=reference_mhz, sessions=sessions)
    return present(screen(now, times, origin_of(*(one.run for one in sessions))))


FIVE = tuple(session(number) for number in range(5))


def test_power_limited_time_is_compared_at_the_baseline_clock() -> None:
    found = compared(at_clock(1400), FIVE)
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)
    assert (found.decision.outcome, found.at_mhz) == (Outcome.PASS, 2000)


def test_a_slowdown_is_found_through_another_clock() -> None:
    found = compared(at_clock(1400, slower=1.05), FIVE)
    assert found.decision.outcome is Outcome.INCONCLUSIVE
    assert found.decision.change_pct == pytest.approx(5, abs=0.01)


def over_clocks(*mhz: float, slower: float = 1.0) -> Timing:
    """Return a timing with one block at each clock."""
    blocks = tuple(slower * MODEL.time_us(clock) for clock in mhz)
    time_us = trimmed_mean(blocks)
    return replace(timing(time_us), blocks_us=blocks, blocks_mhz=mhz, clock_model=MODEL)


def test_the_value_of_another_source_is_compared_as_measured() -> None:
    # The clock had recovered before CUPTI's blocks.
    now = replace(at_clock(1400), other=OtherTime(time_us=MODEL.time_us(2000)))
    stored = tuple(replace(one, clock_model=None, normalised_us=0.0) for one in FIVE)
    times = TimeBaseline(mode="hot", source="cupti", sessions=stored)
    found = present(screen(now, times, origin_of(*(one.run for one in stored))))
    assert (found.at_mhz, found.actual_mhz) == (0, 0)
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)


# The slow blocks are a quarter of the clocks, but the time leaves them out.
WANDERING = (*(1000.0,) * 5, *(1320.0,) * 15)


def test_blocks_at_many_clocks_are_each_normalised() -> None:
    found = compared(over_clocks(*WANDERING), FIVE)
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)
    found = compared(over_clocks(*WANDERING, slower=1.02), FIVE)
    assert found.decision.change_pct == pytest.approx(2, abs=0.01)
    assert found.decision.outcome is Outcome.INCONCLUSIVE


def test_sessions_without_a_clock_do_not_count() -> None:
    unknown = Session(run="r9", time_us=90.0)
    assert compared(at_clock(1400), (unknown, *FIVE)).decision.replicates == 5
    assert compared(timing(91.0), (unknown,)).decision.replicates == 1


def test_older_session_model_replaces_a_missing_one() -> None:
    newest = replace(session(9, mhz=1500), clock_model=None)
    found = compared(replace(at_clock(1400), clock_model=None), (*FIVE, newest))
    assert found.decision.change_pct == pytest.approx(0, abs=0.01)
