"""The screen of a time by stored sessions, its classes, and limits by the spread between processes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from present import present
from pytest_gpuperf.baseline.sessions import HALF
from pytest_gpuperf.judge.limits import check_limit, parse_limit
from pytest_gpuperf.judge.result import Status, TimeComparison
from pytest_gpuperf.judge.times import Origin, process_spread_pct, screen
from pytest_gpuperf.records import ClockModel, Conditions, Measurement, Timing, Toolchain
from pytest_gpuperf.records.baseline import RunNote, Session, TimeBaseline
from pytest_gpuperf.statistics.decision import Outcome
from pytest_gpuperf.statistics.sequential import LOSS_PCT
from pytest_gpuperf.statistics.thresholds import MACHINE_PCT, NOISY_PCT, SCREEN_PCT
from run_builders import origin_of, timing

CHANGES = st.floats(-40, 60)
ROUNDING = 1e-9
"""Distance from the border of the screen below which the last digit of a number decides."""


def known(*times_us: float, mhz: float = 1980.0) -> TimeBaseline:
    sessions = tuple(Session(run=f"r{at}", time_us=us, sm_clock_mhz=mhz) for at, us in enumerate(times_us))
    return TimeBaseline(mode="hot", sessions=sessions)


def of(*runs: str, **values: Any) -> Origin:
    return origin_of(*(runs or [f"r{at}" for at in range(20)]), **values)


def screened(now: Timing, before: TimeBaseline, origin: Origin | None = None, **more: Any) -> TimeComparison:
    return present(screen(now, before, origin or of(), **more))


def half_pct(time: TimeComparison) -> float:
    """Return the slowdown from the middle of the interval to its end, in %."""
    ends = (time.decision.low_pct, time.decision.high_pct)
    low, high = (math.log1p(end / 100) for end in ends)
    return 100 * math.expm1((high - low) / 2)


@given(CHANGES)
def test_time_outside_the_screen_is_a_suspect(change_pct: float) -> None:
    apart = abs(math.log1p(change_pct / 100)) - math.log1p(SCREEN_PCT / 100)
    assume(abs(apart) > ROUNDING)
    time = screened(timing(100 * (1 + change_pct / 100)), known(100.0))
    inside = apart < 0
    assert (time.decision.outcome is Outcome.PASS) is inside
    assert time.decision.change_pct == pytest.approx(change_pct, abs=1e-6)


@given(CHANGES, st.floats(0.1, 1e6), st.integers(1, 20))
def test_all_times_and_directions_have_one_screen(change_pct: float, time_us: float, count: int) -> None:
    width_pct = 100 * math.expm1(math.log1p(SCREEN_PCT / 100) * math.sqrt((1 + 1 / count) / 2))
    assume(abs(abs(change_pct) - width_pct) > 100 * ROUNDING)
    sessions = known(*[time_us] * count)
    slower, faster = (
        screened(timing(time_us * math.exp(sign * change_pct / 100)), sessions) for sign in (1, -1)
    )
    assert half_pct(slower) == pytest.approx(half_pct(faster))
    assert slower.decision.outcome is faster.decision.outcome
    assert half_pct(slower) == pytest.approx(width_pct, rel=1e-6)


@given(st.lists(st.floats(0, 1), max_size=2 * HALF - 1), st.floats(-5, 5))
def test_small_losses_add_up_against_the_oldest_session(steps: list[float], change_pct: float) -> None:
    change = math.log1p(change_pct / 100)
    time = screened(timing(100 * math.exp(change)), known(100.0, *(100 + step for step in steps)))
    beyond = abs(change) > math.log1p(SCREEN_PCT / 100) + ROUNDING
    assert not (beyond and time.outcome is Outcome.PASS)


@pytest.mark.parametrize(("tolerance", "outcome"), [(4.9, Outcome.INCONCLUSIVE), (5.1, Outcome.PASS)])
def test_slowdown_within_the_tolerance_is_no_suspect(tolerance: float, outcome: Outcome) -> None:
    assert screened(timing(105.0), known(100.0), tolerance_pct=tolerance).decision.outcome is outcome
    assert screened(timing(95.0), known(100.0), tolerance_pct=9).decision.outcome is Outcome.INCONCLUSIVE


def at_clock(mhz: float, most: int = 1980) -> Timing:
    return replace(timing(100.0), blocks_mhz=(mhz,), conditions=Conditions(max_sm_clock_mhz=most))


@pytest.mark.parametrize(
    ("now", "before", "origin", "width"),
    [
        (at_clock(1980), known(100.0), of(), SCREEN_PCT),
        (at_clock(1500), known(100.0, mhz=1500), of(), NOISY_PCT),
        (at_clock(1980), known(100.0), of(card="GPU-2"), LOSS_PCT),
        (at_clock(1500), known(100.0, mhz=1500), of(card="GPU-2"), NOISY_PCT),
        (at_clock(1500, 0), known(100.0, mhz=1500), of(), SCREEN_PCT),
        (at_clock(0), known(100.0), of(), NOISY_PCT),
        (at_clock(1980), known(100.0, mhz=0), of(), NOISY_PCT),
        (at_clock(0), known(100.0, mhz=0), of(), NOISY_PCT),
        (replace(at_clock(1980), mode="kernels"), replace(known(100.0), mode="kernels"), of(), NOISY_PCT),
    ],
    ids=[
        "full clock",
        "below",
        "new card",
        "both",
        "highest unknown",
        "clock unknown",
        "baseline's unknown",
        "no clock known",
        "waits for the GPU",
    ],
)
def test_noise_widens_the_screen(now: Timing, before: TimeBaseline, origin: Origin, width: float) -> None:
    time = screened(now, before, origin)
    assert half_pct(time) == pytest.approx(width)
    assert time.decision.new_card is (origin.card == "GPU-2")


def test_clock_that_is_not_known_may_have_been_the_highest() -> None:
    unknown, highest = (half_pct(screened(at_clock(1400), known(100.0, mhz=mhz))) for mhz in (0, 1980))
    assert unknown == highest > 20


@pytest.mark.parametrize(
    ("card", "slowdown_pct", "outcome"),
    [("GPU-1", 24.9, Outcome.PASS), ("GPU-1", 25.1, Outcome.INCONCLUSIVE), ("GPU-2", 49.9, Outcome.PASS)],
)
def test_host_times_have_the_widest_screen(card: str, slowdown_pct: float, outcome: Outcome) -> None:
    before = replace(known(100.0), mode="host", source="host")
    now = replace(timing(100 + slowdown_pct, "host"), source="host")
    assert screened(now, before, of(card=card)).outcome is outcome
    assert MACHINE_PCT == 25


@pytest.mark.parametrize(("blocks", "wider"), [(1, False), (10, True)])
def test_error_of_the_time_itself_widens_the_screen(blocks: int, *, wider: bool) -> None:
    times_us = tuple(100.0 + 20 * (-1) ** at for at in range(blocks))
    noisy = replace(timing(100.0), blocks_us=times_us, blocks_mhz=(1980.0,) * blocks)
    assert (half_pct(screened(noisy, known(100.0))) > 2 * SCREEN_PCT) is wider
    assert (process_spread_pct(noisy) > 2 * SCREEN_PCT) is wider


def noisy(*blocks_us: float, mhz: float = 1980.0) -> Timing:
    return replace(timing(110.0), blocks_us=blocks_us * 10, blocks_mhz=(mhz,) * len(blocks_us) * 10)


@pytest.mark.parametrize(
    ("now", "tolerance_pct", "outcome"),
    [
        (noisy(143.0, 77.0), 0, Outcome.INCONCLUSIVE),
        (noisy(110.0, mhz=1700), 0, Outcome.INCONCLUSIVE),
        (noisy(143.0, 77.0), 12, Outcome.INCONCLUSIVE),
        (noisy(112.0, 108.0), 12, Outcome.PASS),
    ],
    ids=["blocks differ", "effect of the clock unknown", "more than the tolerance", "less"],
)
def test_no_time_passes_by_its_large_error(now: Timing, tolerance_pct: float, outcome: Outcome) -> None:
    assert screened(now, known(100.0), tolerance_pct=tolerance_pct).outcome is outcome


def test_times_of_another_mode_or_source_are_not_compared() -> None:
    assert screen(timing(1.0, "queued"), known(1.0), of()) is None
    assert screen(replace(timing(1.0), source="cupti"), known(1.0), of()) is None


MODEL = ClockModel(cycles=200.0, fixed_us=0.4, reference_mhz=1000.0)
"""A time of 0.6 µs at 1000 MHz."""
STORED = Session(run="r0", time_us=0.5, normalised_us=0.6, sm_clock_mhz=2000.0, clock_model=MODEL)


def clocked(stored: Session, now: Timing) -> TimeComparison:
    return screened(now, TimeBaseline(mode="hot", reference_mhz=1000.0, sessions=(stored,)))


def test_times_are_compared_at_one_clock_if_both_have_a_model() -> None:
    now = replace(timing(0.5), clock_model=MODEL, blocks_mhz=(2000.0,))
    assert clocked(STORED, now).at_mhz == 1000
    # The model of the stored session will do.
    assert clocked(STORED, replace(now, clock_model=None)).at_mhz == 1000
    assert clocked(replace(STORED, normalised_us=0.0), now).at_mhz == 0
    assert clocked(STORED, replace(now, blocks_us=(-0.5,))).at_mhz == 0  # as cold blocks may be


def test_sessions_of_the_same_card_driver_and_plugin_count() -> None:
    old, new = Toolchain(driver="580", gpuperf="1"), Toolchain(driver="590", gpuperf="1")
    runs = {
        "r0": RunNote(gpu_uuid="A", toolchain=old),
        "r1": RunNote(gpu_uuid="A", toolchain=new),
        "r2": RunNote(gpu_uuid="B", toolchain=new),
    }
    before = known(100.0, 100.1, 100.2)
    counted = {
        (card, driver): screened(timing(100.0), before, Origin(card, replace(new, driver=driver), runs))
        for card, driver in [("A", "580"), ("A", "590"), ("A", "600"), ("B", "580"), ("C", "590")]
    }
    assert {key: round(time.baseline_us, 3) for key, time in counted.items()} == {
        ("A", "580"): 100.0,
        ("A", "590"): 100.1,
        ("A", "600"): 100.05,
        ("B", "580"): 100.2,
        ("C", "590"): 100.125,
    }


@pytest.mark.parametrize(
    ("limit", "time_us", "status"),
    [
        ("time_us <= 100", 100.4, Status.INCONCLUSIVE),
        ("time_us <= 100", 100.6, Status.LIMIT),
        ("time_us <= 100", 99.9, Status.PASS),
        ("gb_per_s >= 1", 1003.0, Status.INCONCLUSIVE),
        ("gb_per_s >= 1", 1010.0, Status.LIMIT),
        ("spread_pct <= 0.09", 100.0, Status.LIMIT),
    ],
)
def test_limit_on_a_time_fails_beyond_spread_of_processes(limit: str, time_us: float, status: Status) -> None:
    now = Measurement(timing=timing(time_us, bytes=1_000_000))
    assert check_limit(parse_limit(limit), now).status is status


@pytest.mark.parametrize(("time_us", "status"), [(124.9, Status.INCONCLUSIVE), (125.1, Status.LIMIT)])
def test_limit_on_a_host_time_fails_beyond_25_percent(time_us: float, status: Status) -> None:
    now = Measurement(timing=timing(time_us, "host"))
    assert check_limit(parse_limit("time_us <= 100"), now).status is status
