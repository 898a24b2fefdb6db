"""Values that a baseline takes from runs: sessions, ranges and the lines that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pytest_gpuperf.baseline.entry import Entry, make_entry, only_new
from pytest_gpuperf.baseline.gather import Taken
from pytest_gpuperf.baseline.readings import sessions_and_range
from pytest_gpuperf.baseline.sessions import merged_time
from pytest_gpuperf.judge.counters import CounterComparison
from pytest_gpuperf.judge.times import BaselineComparison
from pytest_gpuperf.records import ClockModel, Trace
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TimeBaseline
from run_builders import profile, run, timing

if TYPE_CHECKING:
    from pytest_gpuperf.baseline.entry import Which

KNOWN = MeasurementBaseline(
    time=TimeBaseline(mode="hot", sessions=(Session(run="r", time_us=5.0),)),
    counters={"instructions": 100.0},
    counters_sessions=3,
    counters_range={"instructions": (90.0, 105.0)},
)
UNMOVED = BaselineComparison(CounterComparison())


@pytest.mark.parametrize(
    ("read", "known", "again", "sessions", "seen"),
    [
        ([100.0], None, False, None, None),
        ([100.0, 100.0], None, False, 2, None),
        ([110.0, 100.0], None, False, 2, {"instructions": [100, 110]}),
        ([100.0], KNOWN, False, 4, {"instructions": [90, 105]}),
        ([100.0], KNOWN, True, 3, {"instructions": [90, 105]}),
        ([120.0] * 4, KNOWN, True, 4, {"instructions": [90, 120]}),
        ([float("nan")], None, False, None, None),
    ],
)
def test_sessions_of_a_count_and_their_range(
    read: list[float],
    known: MeasurementBaseline | None,
    sessions: int | None,
    seen: dict[str, list[int]] | None,
    *,
    again: bool,
) -> None:
    readings = [profile({"instructions": value}) for value in read]
    found = sessions_and_range(["instructions", "dram_bytes"], readings, known, again=again)
    assert found == {"counters_sessions": sessions, "counters_range": seen}


def test_number_of_sessions_is_that_of_the_rarest_counter() -> None:
    readings = [
        profile({"instructions": 1.0, "local_spill_instructions": 0.0}),
        profile({"instructions": 1.0}),
    ]
    names = ["instructions", "local_spill_instructions"]
    assert sessions_and_range(names, readings, None, again=False)["counters_sessions"] is None
    assert sessions_and_range(names[:1], readings, None, again=False)["counters_sessions"] == 2


@pytest.mark.parametrize(
    ("which", "kinds"),
    [
        ("new", {"new"}),
        ("changed", {"new", "changed"}),
        ("all", {"new", "changed", "refreshed"}),
    ],
)
def test_update_takes_its_kinds(which: Which, kinds: set[str]) -> None:
    every = [Entry("t", "main", kind, ()) for kind in ("new", "changed", "refreshed", "refused")]
    assert {entry.kind for entry in every if entry.wanted(which)} == kinds


def taken(*times_us: float, counters: bool = False, trace: bool = False) -> Taken:
    return Taken(
        tuple((run(id=f"r{at}"), timing(us)) for at, us in enumerate(times_us)),
        profile({"instructions": 1.0}) if counters else None,
        trace=Trace(launches=1) if trace else None,
    )


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (taken(5.0), "time 5 µs (hot)"),
        (taken(4.0, 6.0), "time 5 µs (hot, mean of 2 sessions)"),
        (taken(counters=True), "counters"),
        (taken(trace=True), "trace"),
    ],
)
def test_new_measurement_says_what_is_new(values: Taken, line: str) -> None:
    entry = make_entry("t", "main", values, None, None, "1 session")
    assert (entry.kind, entry.lines, entry.sessions) == ("new", (line,), "")


def test_lines_of_a_known_measurement_show_the_change() -> None:
    entry = make_entry("t", "main", taken(5.5), KNOWN, UNMOVED, "1 session added")
    assert (entry.kind, entry.sessions) == ("refreshed", "1 session added")
    assert entry.lines == ("time 5 -> 5.50 µs (+10.0 %)", "1 session added")
    cold = replace(timing(5.5), mode="cold")
    entry = make_entry("t", "main", Taken(((run(), cold),)), KNOWN, UNMOVED, "")
    assert entry.lines == ("time 5 µs (hot) -> 5.50 µs (cold)",)
    other = replace(timing(5.5), source="cupti")
    entry = make_entry("t", "main", Taken(((run(), other),)), KNOWN, UNMOVED, "")
    assert entry.lines == ("time 5 µs (by events) -> 5.50 µs (by cupti)",)


@pytest.mark.parametrize(
    ("values", "known", "added", "kind"),
    [
        (taken(5.0), MeasurementBaseline(), "new: time", "new"),
        (taken(trace=True), MeasurementBaseline(), "new: trace", "new"),
        (taken(counters=True), MeasurementBaseline(), "new: counters", "new"),
        (
            taken(counters=True),
            MeasurementBaseline(counters={"kernels": 1.0}),
            "new: instructions",
            "changed",
        ),
    ],
)
def test_added_parts_are_named(values: Taken, known: MeasurementBaseline, added: str, kind: str) -> None:
    entry = make_entry("t", "main", values, known, UNMOVED, "")
    assert (entry.kind, entry.lines[-1]) == (kind, added)


def test_known_parts_are_not_new() -> None:
    found = only_new(taken(5.0, counters=True, trace=True), replace(KNOWN, trace={"launches": 1}))
    assert not found.has_values


def test_oldest_and_nineteen_newest_sessions_stay() -> None:
    runs = [run(id=f"{day:02}") for day in range(1, 22)]
    dates = {one.id: f"2026-11-{one.id}" for one in runs}
    merged = merged_time({}, [(one, timing()) for one in runs], replace=False, dates=dates)
    assert [session["run"] for session in merged["sessions"]] == [f"{day:02}" for day in (1, *range(3, 22))]


def test_session_has_the_clock_model_rounded() -> None:
    model = ClockModel(cycles=10000.4321, fixed_us=1.23456789, reference_mhz=1980.0, share_error=0.01234)
    mhz = (1980.0, 1970.0, 1990.0)
    blocks = tuple(1.23456789 + 10000.4321 / clock for clock in mhz)
    timed = replace(timing(blocks[0]), blocks_us=blocks, blocks_mhz=mhz, clock_model=model, host_us=12.3456)
    merged = merged_time({}, [(run(id="r"), timed)], replace=False, dates={})
    (session,) = merged["sessions"]
    assert merged["reference_mhz"] == 1980.0
    assert session["clock_model"] == {
        "cycles": 10000,
        "fixed_us": 1.2346,
        "reference_mhz": 1980.0,
        "share_error": 0.012,
    }
    assert (session["host_us"], session["sm_clock_mhz"]) == (12.3, 1980.0)
    assert session["normalised_us"] == pytest.approx(blocks[0], rel=1e-4)


def test_session_of_the_same_run_keeps_only_what_a_person_added() -> None:
    known = {"sessions": [{"run": "r", "time_us": 4.0, "host_us": 12.0, "checked_by": "me"}]}
    merged = merged_time(known, [(run(id="r"), timing(5.0))], replace=False, dates={})
    assert merged["sessions"] == [{"run": "r", "time_us": 5.0, "spread_pct": 0.1, "checked_by": "me"}]
    assert "reference_mhz" not in merged


def test_session_names_a_card_of_its_own() -> None:
    merged = merged_time({}, [(run(id="r"), timing())], replace=False, dates={}, cards={"r": "GPU-9"})
    assert merged["sessions"][0]["gpu_uuid"] == "GPU-9"
