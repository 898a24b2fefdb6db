"""Numbers of a file that contradict each other, or that no GPU can have measured.

The types of the records hold the range of each number by itself (`quantities`).
"""

from __future__ import annotations

import math
from datetime import date, datetime
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pytest_gpuperf.records.counter_ranges import impossible, simple_bounds
from pytest_gpuperf.records.misfit import Misfit
from pytest_gpuperf.records.quantities import CLOCK, CLOCK_MODEL, MAX_BLOCK, TIME
from pytest_gpuperf.statistics.clock_model import normalise, normalise_blocks
from pytest_gpuperf.statistics.estimate import trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_gpuperf.records import (
        AgainstTiming,
        ClockModel,
        Correctness,
        Measurement,
        MetricValue,
        Profile,
        Run,
        TestRecord,
        Timing,
    )
    from pytest_gpuperf.records.baseline import Baseline, MeasurementBaseline, Session, Times
    from pytest_gpuperf.records.history import HistoryLine
    from pytest_gpuperf.records.misfit import Place

Found: TypeAlias = "Iterator[Misfit]"

FIRST_YEAR, LAST_YEAR = 1970, 2100
"""Years of a date; a computer without a clock starts in the first one."""
MOST_SCALED = 3.0
"""Largest ratio of two times of one measurement that belong together. Equal ones may differ: people scale the
times of a recording to see a verdict, and leave the other values."""
ALIKE = 1.2
"""Largest ratio of a stored session's normalised time and its mean time brought to that clock. It was at most
1.025 on H200s; clocks that swing while a kernel is timed make it larger."""
SAME_AS_TIME: Mapping[str, Sequence[str]] = {"events": ("events_us",), "cupti": ("cupti_us", "gpu_busy_us")}
"""Fields that are `time_us` again, or 0, by the source of a timing."""
MOST_APART = 100
"""Largest ratio of the time of a session and the median of all sessions, which are of the same code."""


def in_run(run: Run) -> Found:
    """Find impossible values of a run; those after the first may follow from it."""
    yield from in_head(run)
    yield from in_tests(run.tests)


def in_head(run: Run) -> Found:
    """Find impossible values of a run outside of its tests."""
    yield from _date(run.started_at, ("started_at",))


def in_tests(tests: Iterable[TestRecord]) -> Found:
    """Find impossible values of the tests of a run."""
    seen: set[str] = set()
    for test in tests:
        if test.nodeid in seen:
            yield Misfit(test.nodeid, ("nodeid",), "one record of each test")
        seen.add(test.nodeid)
        for label, measured in test.measurements.items():
            yield from _measurement(measured, ("tests", test.nodeid, "measurements", label))


def in_baseline(baseline: Baseline) -> Found:
    """Find impossible values of a baseline; those after the first may follow from it."""
    for run_id, note in baseline.runs.items():
        yield from _date(note.date, ("runs", run_id, "date"), empty=True)
    for nodeid, test in baseline.tests.items():
        for label, known in test.measurements.items():
            place: Place = ("tests", nodeid, "measurements", label)
            yield from _counters(known.counters, (*place, "counters"))
            yield from _counter_ranges(known, (*place, "counters_range"))
            if known.time is not None:
                yield from _times(known.time, (*place, "time"))
                if known.time.pinned is not None:
                    yield from _date(known.time.pinned.date, (*place, "time", "pinned", "date"), empty=True)
                    yield from _times(known.time.pinned, (*place, "time", "pinned"))


def in_history(line: HistoryLine) -> Found:
    """Find impossible values of a line of the history; those after the first may follow from it."""
    yield from _date(line.date, ("date",))
    yield from _date(line.commit_date, ("commit_date",), empty=True)
    yield from _clock(line.sm_clock_mhz, ("sm_clock_mhz",))
    model, found = line.clock_model, line.normalised_us
    if model is not None:
        yield from _model(model, ("clock_model",))
    if found:
        known = model is not None and line.sm_clock_mhz
        normalised = normalise(line.time_us, line.sm_clock_mhz, model) if model and known else 0.0
        expected = "time_us at the reference_mhz of clock_model, by sm_clock_mhz"
        yield from _agrees(found, normalised, ALIKE, ("normalised_us",), expected)


def _date(text: str, place: Place, *, empty: bool = False) -> Found:
    if not (empty and not text):
        try:
            day = date.fromisoformat(text) if len(text) == 10 else msgspec.convert(text, datetime)
            possible = FIRST_YEAR <= day.year <= LAST_YEAR
        except (ValueError, msgspec.ValidationError):
            possible = False
        if not possible:
            years = f"between {FIRST_YEAR} and {LAST_YEAR}"
            yield Misfit(text, place, f"a date {years} such as 2026-11-20T17:30:12Z")


def _measurement(measured: Measurement, place: Place) -> Found:
    if measured.correctness is not None:
        yield from _correctness(measured.correctness, (*place, "correctness"))
    if measured.fuzz is not None and measured.fuzz.passed != (not measured.fuzz.found_after):
        yield Misfit(measured.fuzz.found_after, (*place, "fuzz", "found_after"), "0 if and only if it passed")
    if measured.timing is not None:
        yield from _timing(measured.timing, (*place, "timing"))
    if measured.profile is not None:
        yield from _profile(measured.profile, (*place, "profile"))
    if measured.against is not None:
        yield from _against(measured.against, (*place, "against"))


def _correctness(correctness: Correctness, place: Place) -> Found:
    for name in ("max_abs_diff", "max_rel_diff"):
        # NaN and infinity are true differences.
        if (difference := getattr(correctness, name)) < 0:
            yield Misfit(difference, (*place, name), "a number, at least 0")
    if correctness.mismatched > correctness.elements:
        yield Misfit(
            correctness.mismatched, (*place, "mismatched"), f"at most {correctness.elements} elements"
        )


def _timing(timing: Timing, place: Place) -> Found:
    model, clocks, blocks = timing.clock_model, timing.blocks_mhz, timing.blocks_us
    if blocks:
        yield from _agrees(
            timing.time_us, trimmed_mean(blocks), MOST_SCALED, (*place, "time_us"), "by blocks_us"
        )
    for name in SAME_AS_TIME.get(timing.source, ()):
        if found := getattr(timing, name):
            yield from _agrees(found, timing.time_us, MOST_SCALED, (*place, name), "time_us")
    for at, mhz in enumerate(clocks):
        if 0 < mhz < CLOCK.low:
            yield Misfit(mhz, (*place, "blocks_mhz", at), str(CLOCK))
    if clocks and len(clocks) != len(blocks):
        yield Misfit(list(clocks), (*place, "blocks_mhz"), f"{len(blocks)} clocks, one for each block")
    normalised = 0.0
    if model is not None:
        yield from _model(model, (*place, "clock_model"))
        if timing.sm_clock_mhz:
            normalised = trimmed_mean(normalise_blocks(blocks, clocks, model))
            if not TIME.holds(normalised):
                expected = "blocks that take a time above 0 at the clock of their model"
                yield Misfit(list(blocks), (*place, "blocks_us"), expected)
            yield from _fits(model, normalised, model.reference_mhz, (*place, "clock_model"))
    if timing.normalised_us:
        expected = "blocks_us at reference_mhz"
        yield from _agrees(timing.normalised_us, normalised, MOST_SCALED, (*place, "normalised_us"), expected)


def _times(times: Times, place: Place) -> Found:
    yield from _clock(times.reference_mhz, (*place, "reference_mhz"))
    runs = set()
    middle_us = median(session.time_us for session in times.sessions)
    for at, session in enumerate(times.sessions):
        if session.run in runs:
            yield Misfit(session.run, (*place, "sessions", at, "run"), "one session of each run")
        runs.add(session.run)
        if not middle_us / MOST_APART <= session.time_us <= middle_us * MOST_APART:
            expected = f"about {middle_us:g} µs, as in the other sessions of the same code"
            yield Misfit(session.time_us, (*place, "sessions", at, "time_us"), expected)
        yield from _session(session, times.reference_mhz, (*place, "sessions", at))


def _session(session: Session, reference_mhz: float, place: Place) -> Found:
    model, clock, found = session.clock_model, session.sm_clock_mhz, session.normalised_us
    yield from _clock(clock, (*place, "sm_clock_mhz"))
    if model is not None:
        yield from _model(model, (*place, "clock_model"))
    if found:
        known = model and clock and reference_mhz
        normalised = normalise(session.time_us, clock, model, reference_mhz) if model and known else 0.0
        expected = "time_us at reference_mhz, by sm_clock_mhz and clock_model"
        yield from _agrees(found, normalised, ALIKE, (*place, "normalised_us"), expected)
        if model is not None:
            yield from _fits(model, found, reference_mhz, (*place, "clock_model"))


def _model(model: ClockModel, place: Place) -> Found:
    for name, known in CLOCK_MODEL.items():
        value = getattr(model, name)
        if not known.holds(value):
            yield Misfit(value, (*place, name), str(known))
            return
    if not TIME.holds(model.time_us(model.reference_mhz)):
        values = {"cycles": model.cycles, "fixed_us": model.fixed_us}
        yield Misfit(values, place, "cycles and fixed_us that make a time above 0")


def _fits(model: ClockModel, time_us: float, mhz: float, place: Place) -> Found:
    """Find a clock model that does not fit the time it was made from."""
    if not alike(model.time_us(mhz), time_us, MOST_SCALED):
        values = {"cycles": model.cycles, "fixed_us": model.fixed_us}
        yield Misfit(values, place, f"cycles and fixed_us that make about {time_us:g} µs at {mhz:g} MHz")


def alike(one_us: float, other_us: float, most: float = ALIKE) -> bool:
    """Return True if two times differ at most by a factor."""
    return 0 < one_us <= most * other_us and other_us <= most * one_us


def _agrees(value: float, other: float, most: float, place: Place, expected: str) -> Found:
    if not alike(value, other, most):
        yield Misfit(value, place, f"about {other:g}: {expected}")


def _clock(mhz: float, place: Place) -> Found:
    if not CLOCK.holds(mhz):
        yield Misfit(mhz, place, str(CLOCK))


def _profile(profile: Profile, place: Place) -> Found:
    yield from _counters(profile.combined, (*place, "combined"))
    for at, kernel in enumerate(profile.kernels):
        # The values of a single launch are those of the call, which have been checked.
        if not kernel.metrics.items() <= profile.combined.items():
            yield from _counters(kernel.metrics, (*place, "kernels", at, "metrics"))
        if math.prod(kernel.block) > MAX_BLOCK:
            expected = f"a block of at most {MAX_BLOCK} threads"
            yield Misfit(list(kernel.block), (*place, "kernels", at, "block"), expected)


def _counters(values: Mapping[str, MetricValue], place: Place) -> Found:
    for name, value in values.items():
        low, high, whole = simple_bounds(name)
        if not isinstance(value, str) and low <= value <= high and not (whole and value % 1):
            continue
        if expected := impossible(name, value):
            yield Misfit(value, (*place, name), expected)


def _counter_ranges(known: MeasurementBaseline, place: Place) -> Found:
    for name, (low, high) in known.counters_range.items():
        yield from _counters({name: low}, place)
        yield from _counters({name: high}, place)
        value = known.counters.get(name, low)
        if isinstance(value, str) or not low <= value <= high:
            yield Misfit([low, high], (*place, name), f"a range with the value {value}, the lower end first")


def _against(against: AgainstTiming, place: Place) -> Found:
    ratios = against.log_ratios
    for name in ("raw_log_ratios", "new_first"):
        values = getattr(against, name)
        if values and len(values) != len(ratios):
            yield Misfit(list(values), (*place, name), f"{len(ratios)} values, one of each restart, or none")
    for name in ("old_mhz", "new_mhz"):
        yield from _clock(getattr(against, name), (*place, name))
    for name in ("old_us", "new_us"):
        value = getattr(against, name)
        if not TIME.holds(value) and (value or ratios):
            yield Misfit(value, (*place, name), str(TIME))
            return
    if ratios:
        mean = math.log(against.new_us / against.old_us)
        every = (*ratios, *against.raw_log_ratios)
        slack = math.log(MOST_SCALED)
        if not min(every) - slack <= mean <= max(every) + slack:
            expected = f"logarithms about that of new_us / old_us, {mean:g}"
            yield Misfit(list(ratios), (*place, "log_ratios"), expected)
