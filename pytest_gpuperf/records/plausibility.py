"""Relations between the numbers of a file without which it cannot be judged.

The types of the records hold the range of each number by itself (`quantities`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.counters import WORDS, is_raw_name
from pytest_gpuperf.records.quantities import LEAST_MHZ, LEAST_US, MAX_BLOCK

if TYPE_CHECKING:
    from pytest_gpuperf.records import ClockModel, Measurement, MetricValue, Run, Settlement
    from pytest_gpuperf.records.baseline import Baseline, TimeBaseline

Found: TypeAlias = Iterator[tuple[str, object, str]]
"""Place, value and expected value of each misfit; those after the first may follow from it."""


ALIKE = 1.2
"""Largest ratio of a normalised time to that at the mean clock (1.025 on H200s)."""
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
    if (timing := measured.timing) is not None:
        yield from _clocks(timing.clock_model, *timing.blocks_mhz)
    yield from _counters(measured.profile.combined) if measured.profile else ()
    yield from _settlement(measured.settlement) if measured.settlement else ()


def _times(times: TimeBaseline) -> Found:
    yield from _clocks(None, times.reference_mhz)
    runs = [session.run for session in times.sessions]
    if len(set(runs)) < len(runs):
        yield "time.sessions", runs, "one session of each run"
    for session in times.sessions:
        yield from _of(f"session {session.run}", _clocks(session.clock_model, session.sm_clock_mhz))


def _clocks(model: ClockModel | None, *clocks: float) -> Found:
    if model is not None and model.time_us(model.reference_mhz) < LEAST_US:
        yield "clock_model", model, "cycles and fixed_us that make a time above 0"
    for mhz in clocks:
        if 0 < mhz < LEAST_MHZ:
            yield "an SM clock", mhz, f"a number of MHz, at least {LEAST_MHZ}, or 0"


def _counters(values: dict[str, MetricValue]) -> Found:
    for name, value in values.items():
        if expected := impossible(name, value):
            yield f"counter {name}", value, expected


def _settlement(settlement: Settlement) -> Found:
    times, clocks, against = settlement.fresh_us, settlement.fresh_mhz, settlement.against
    if len(times) != len(clocks):
        yield "settlement.fresh_mhz", clocks, f"{len(times)} clocks, one for each of fresh_us"
    if against is not None:
        restarts, raw = len(against.log_ratios), against.raw_log_ratios
        if not {len(raw), len(against.new_first)} <= {0, restarts}:
            expected = f"{restarts} values here and in new_first, or none"
            yield "settlement.against.raw_log_ratios", raw, expected
