"""Relations between the numbers of a file that must hold, or a slower kernel could pass.

The types of the records hold the range of each number by itself (`quantities`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.counters import WORDS, is_raw_name
from pytest_gpuperf.records.quantities import LEAST_MHZ, LEAST_US, MAX_BLOCK
from pytest_gpuperf.statistics.clock_model import normalise, normalise_blocks
from pytest_gpuperf.statistics.estimate import standard_error, trimmed_mean

if TYPE_CHECKING:
    from pytest_gpuperf.records import (
        AgainstTiming,
        ClockModel,
        Measurement,
        MetricValue,
        Run,
        Settlement,
        Timing,
    )
    from pytest_gpuperf.records.baseline import Baseline, TimeBaseline

Found: TypeAlias = Iterator[tuple[str, object, str]]
"""Place, value and expected value of each misfit; those after the first may follow from it."""


SCALED, ALIKE, APART = 3.0, 1.2, 100
"""Largest ratio of times that people may scale, of a normalised time (1.025 on H200s), of all sessions."""
_MOST = (
    (r"registers_per_thread|block_size", MAX_BLOCK),
    (r".*__.*pct_of_peak.*|(pipe|stall|sampled)\..*|.*_(throughput|active|hit_rate|occupancy|pct)", 1000),
    (r"(?!.*__).*", 1e21),
)
"""Largest value of counters by name, the first that matches; ncu reads parts of a % in different passes."""


def refuse_first(misfits: Found, shown: str, next_step: str) -> None:
    """Raise a `GpuperfError` for the first misfit of a file."""
    for place, value, expected in misfits:
        raise GpuperfError(f"{shown} has {value!r:.60} as {place}", expected=expected, next_step=next_step)


def in_run(run: Run) -> Found:
    """Find impossible values of a run."""
    seen: set[str] = set()
    for test in run.tests:
        if test.nodeid in seen:
            yield "nodeid", test.nodeid, "one record of each test"
        seen.add(test.nodeid)
        for label, measured in test.measurements.items():
            yield from _of(f"{test.nodeid} ({label})", _measurement(measured))


def in_baseline(baseline: Baseline) -> Found:
    """Find impossible values of a baseline."""
    for nodeid, test in baseline.tests.items():
        for label, known in test.measurements.items():
            owner = f"{nodeid} ({label})"
            yield from _of(owner, _counters(known.counters))
            yield from _of(owner, _times(known.time)) if known.time else ()


def in_time(
    time_us: float,
    normalised_us: float,
    clock_mhz: float,
    model: ClockModel | None,
    reference_mhz: float,
) -> Found:
    """Find impossible values of a stored time.

    Args:
        time_us: As measured.
        normalised_us: At `reference_mhz`; 0 if unknown.
        clock_mhz: SM clock of the measurement; 0 if unknown.
        model: How the time depends on the clock.
        reference_mhz: 0 if unknown.
    """
    yield from _clocks(model, clock_mhz)
    if normalised_us:
        known = model is not None and clock_mhz and reference_mhz
        found = normalise(time_us, clock_mhz, model, reference_mhz) if model and known else 0.0
        yield from _agrees("normalised_us", normalised_us, found, "time_us by clock and clock_model", ALIKE)
        by_it = model.time_us(reference_mhz) if model else 0.0
        yield from _agrees("time by clock_model", by_it, normalised_us, "normalised_us", SCALED)


def alike(one_us: float, other_us: float, most: float = ALIKE) -> bool:
    """Return True if two times differ at most by a factor."""
    return 0 < one_us <= most * other_us and other_us <= most * one_us


def impossible(name: str, value: MetricValue) -> str:
    """Return the expected value if that of a counter is impossible; empty if it is possible."""
    if isinstance(value, str) or name in WORDS:
        is_word = isinstance(value, str) and (name in WORDS or is_raw_name(name))
        return "" if is_word else "a word" if name in WORDS else "a number"
    low, high = _bounds(name)
    return "" if low <= value <= high else f"a number from {low:g} to {high:g}"


@lru_cache(maxsize=4096)
def _bounds(name: str) -> tuple[float, float]:
    return next(((0, most) for names, most in _MOST if re.fullmatch(names, name)), (-1e30, 1e30))


def _of(owner: str, found: Found) -> Found:
    return ((f"{place} of {owner}", value, expected) for place, value, expected in found)


def _measurement(measured: Measurement) -> Found:
    yield from _timing(measured.timing) if measured.timing else ()
    yield from _counters(measured.profile.combined) if measured.profile else ()
    yield from _settlement(measured.settlement) if measured.settlement else ()
    if (trace := measured.trace) and trace.launches != (calls := sum(one.calls for one in trace.kernels)):
        yield "trace.launches", trace.launches, f"{calls}, the calls of its kernels"


def _timing(timing: Timing) -> Found:
    model, blocks, clocks, time_us = timing.clock_model, timing.blocks_us, timing.blocks_mhz, timing.time_us
    if blocks:
        yield from _agrees("timing.time_us", time_us, trimmed_mean(blocks), "by blocks_us", SCALED)
    if len(blocks) >= 6 and standard_error(blocks) > time_us:
        yield "timing.blocks_us", blocks, "a standard error below time_us"
    single = timing.single_call
    if timing.mode == "kernels" and single is not None and single.busy_us is not None:
        yield from _agrees("timing.single_call.busy_us", single.busy_us, time_us, "time_us", SCALED)
    yield from _clocks(model, *clocks)
    if clocks and len(clocks) != len(blocks):
        yield "timing.blocks_mhz", clocks, f"{len(blocks)} clocks, one for each block"
    normalised = 0.0
    if model is not None and timing.sm_clock_mhz:
        normalised = trimmed_mean(normalise_blocks(blocks, clocks, model))
        by_it = model.time_us(model.reference_mhz)
        yield from _agrees("time by timing.clock_model", by_it, normalised, "by blocks_us", SCALED)
    if found := timing.normalised_us:
        yield from _agrees("timing.normalised_us", found, normalised, "blocks_us at reference_mhz", SCALED)


def _times(times: TimeBaseline) -> Found:
    yield from _clocks(None, times.reference_mhz)
    middle_us = median(session.time_us for session in times.sessions)
    runs = [session.run for session in times.sessions]
    if len(set(runs)) < len(runs):
        yield "time.sessions", runs, "one session of each run"
    for session in times.sessions:
        yield from _agrees("time_us", session.time_us, middle_us, "the median of all sessions", APART)
        model, clock_mhz = session.clock_model, session.sm_clock_mhz
        found = in_time(session.time_us, session.normalised_us, clock_mhz, model, times.reference_mhz)
        yield from _of(f"session {session.run}", found)


def _clocks(model: ClockModel | None, *clocks: float) -> Found:
    if model is not None and model.time_us(model.reference_mhz) < LEAST_US:
        yield "clock_model", model, "cycles and fixed_us that make a time above 0"
    for mhz in clocks:
        if 0 < mhz < LEAST_MHZ:
            yield "an SM clock", mhz, f"a number of MHz, at least {LEAST_MHZ}, or 0"


def _agrees(place: str, value: float, other: float, expected: str, most: float) -> Found:
    if not alike(value, other, most):
        yield place, value, f"about {other:g}: {expected}"


def _counters(values: dict[str, MetricValue]) -> Found:
    for name, value in values.items():
        if expected := impossible(name, value):
            yield f"counter {name}", value, expected


def _settlement(settlement: Settlement) -> Found:
    times, clocks = settlement.fresh_us, settlement.fresh_mhz
    if len(times) != len(clocks):
        yield "settlement.fresh_mhz", clocks, f"{len(times)} clocks, one for each of fresh_us"
    yield from _against(settlement.against) if settlement.against else ()


def _against(against: AgainstTiming) -> Found:
    ratios, raw = against.log_ratios, against.raw_log_ratios
    if not {len(raw), len(against.new_first)} <= {0, len(ratios)}:
        yield "settlement.against.raw_log_ratios", raw, f"{len(ratios)} values here and in new_first, or none"
    mean = math.log(max(against.new_us, LEAST_US) / max(against.old_us, LEAST_US))
    if ratios and not min(ratios) - 1.1 <= mean <= max(ratios) + 1.1:
        yield "settlement.against.log_ratios", ratios, f"about {mean:g}: that of new_us / old_us"
