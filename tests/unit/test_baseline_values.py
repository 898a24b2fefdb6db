"""Values that a baseline takes from a run: sessions, and the lines that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from present import present
from pytest_gpuperf.baseline.accepted_measurement import Accepted, Effect, update
from pytest_gpuperf.baseline.sessions import HALF, merged_time
from pytest_gpuperf.judge.times import Origin
from pytest_gpuperf.records import ClockModel, Measurement, Trace
from pytest_gpuperf.records.baseline import MeasurementBaseline, RunNote, Session, TimeBaseline
from run_builders import at_clock, profile, timing

if TYPE_CHECKING:
    from pytest_gpuperf.baseline.accepted_measurement import Which
    from pytest_gpuperf.records import Timing

KNOWN = MeasurementBaseline(
    time=TimeBaseline(mode="hot", sessions=(Session(run="r", time_us=5.0),)), counters={"instructions": 100.0}
)
TIMED = Measurement(timing=timing(5.0))
COUNTED = Measurement(profile=profile({"instructions": 1.0}))
TRACED = Measurement(trace=Trace(launches=1))
REPLACED = "sessions 1 -> 1 (they were taken hot by events)"


def effect(measurement: Measurement, known: MeasurementBaseline, which: Which = "all") -> Effect | None:
    notes = {"r": RunNote(date="2026-11-20"), "new": RunNote(date="2026-11-21")}
    accepted = Accepted("new", Origin(runs=notes), "", frozenset({"new"}), 20.0)
    found = update(measurement, known, accepted, which)
    return Effect("t", "main", found[0], tuple(found[1])) if found is not None else None


@pytest.mark.parametrize(
    ("measurement", "known", "kind", "line"),
    [
        (TIMED, MeasurementBaseline(), "new", "time 5 µs (hot)"),
        (TRACED, MeasurementBaseline(), "new", "trace"),
        (COUNTED, MeasurementBaseline(), "new", "counters"),
        (COUNTED, MeasurementBaseline(counters={"waves": 1.0}), "changed", "new: instructions"),
        (Measurement(timing=timing(5.5)), KNOWN, "refreshed", "time_us 5 -> 5.50 (+10.0 %)"),
        (Measurement(timing=replace(timing(5.5), mode="cold")), KNOWN, "changed", REPLACED),
        (Measurement(timing=replace(timing(5.5), source="cupti")), KNOWN, "changed", REPLACED),
    ],
)
def test_entry_says_what_is_new_or_changed(
    measurement: Measurement, known: MeasurementBaseline, kind: str, line: str
) -> None:
    entry = present(effect(measurement, known))
    assert (entry.kind, line in entry.lines) == (kind, True)
    takers = {"new": ["new", "changed"], "changed": ["changed"]}.get(kind, [])
    assert [which for which in ("new", "changed") if effect(measurement, known, which)] == takers


def test_accepted_time_has_the_change_of_its_verdict() -> None:
    """As measured it is 15.5 %, at one clock 5 %."""
    entry = effect(
        Measurement(timing=at_clock(1800.0, 1.05)),
        replace(KNOWN, time=merged_time(None, "r", at_clock(2000.0), {})),
    )
    assert present(entry).lines[0] == "time_us 100 -> 105 (+5.0 %)"


def test_known_parts_are_not_new() -> None:
    measurement = replace(TIMED, profile=COUNTED.profile, trace=TRACED.trace)
    assert effect(measurement, replace(KNOWN, trace={"launches": 1}), "new") is None


def merged(*timings: Timing, **options: Any) -> TimeBaseline:
    known = None
    for number, one in enumerate(timings):
        known = merged_time(known, f"{number:02}", one, {}, **options)
    assert known is not None
    return known


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_sessions_are_few_sorted_and_of_different_runs(numbers: list[int]) -> None:
    dates = {f"r{number}": RunNote(date=f"2026-01-{number:02}") for number in range(1, 31)}
    known = None
    for number in numbers:
        known = merged_time(known, f"r{number}", timing(), dates)
        assert merged_time(known, known.sessions[-1].run, timing(), dates) == known
    assert known is not None
    kept = [int(one.run[1:]) for one in known.sessions]
    assert kept == sorted(set(kept))
    assert len(kept) == min(len(set(numbers)), 2 * HALF)
    assert {min(numbers), max(numbers)} <= set(kept)


def test_session_has_the_clock_model_rounded() -> None:
    model = ClockModel(cycles=10000.4321, fixed_us=1.23456789, reference_mhz=1980.0, share_error=0.01234)
    mhz = (1980.0, 1970.0, 1990.0)
    blocks = tuple(1.23456789 + 10000.4321 / clock for clock in mhz)
    timed = replace(timing(blocks[0]), blocks_us=blocks, blocks_mhz=mhz, clock_model=model)
    known = merged(timed, card="GPU-9")
    (session,) = known.sessions
    assert (known.reference_mhz, session.gpu_uuid) == (1980.0, "GPU-9")
    assert session.clock_model == ClockModel(
        cycles=10000, fixed_us=1.2346, reference_mhz=1980.0, share_error=0.012
    )
    assert (session.sm_clock_mhz, session.time_us, session.spread_pct) == (1980.0, 6.2853, 0.1)
    assert session.normalised_us == pytest.approx(blocks[0], rel=1e-4)
