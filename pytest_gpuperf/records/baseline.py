"""Baseline files as typed records.

A key that is not known is an error: a person who edits a file may have misspelt it.
"""

from __future__ import annotations

from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import (
    ClockModel,
    Fingerprint,
    Measurement,
    MetricValue,
    Record,
    Timing,
    TimingMode,
    TimingSource,
    Toolchain,
)
from pytest_gpuperf.records.kernel_code import LaunchedCode
from pytest_gpuperf.records.number_ranges import (
    Clock,
    Count,
    DateOrNone,
    Ratio,
    Schema,
    Seconds,
    Spread,
    Time,
    TimeOrZero,
    Tolerance,
)
from pytest_gpuperf.records.run import Accuracy
from pytest_gpuperf.records.value_names import PEAK_MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

BASELINE_SCHEMA = 1
"""Version of the baseline file. A reader refuses a newer one and leaves the file as it is."""
BY_NCU = "ncu/all"
"""`MeasurementBaseline.counters_by` of ncu as this plugin starts it."""


class BaselineGpu(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model of GPU that the file is for."""

    slug: str
    name: str = ""


class RunNote(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Origin of values of a baseline."""

    date: DateOrNone = ""
    """UTC, ISO 8601."""
    commit: str = ""
    dirty: bool | None = None
    gpu_uuid: str = ""
    toolchain: Toolchain = Toolchain()

    def measured(self, commit: str) -> bool:
        """Return True if the run measured a commit, with no other changes."""
        return self.commit == commit and self.dirty is False


class Session(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time of one test from one run, kept in a baseline."""

    run: str
    time_us: Time
    spread_pct: Spread = 0.0
    normalised_us: TimeOrZero = 0.0
    """At the `reference_mhz` of its `TimeBaseline`; 0 if the session has no clock model."""
    sm_clock_mhz: Clock = 0.0
    """Mean SM clock during the measurement, in MHz; 0 if unknown."""
    clock_model: ClockModel | None = None
    autotuned: tuple[str, ...] = ()
    """Configurations that autotuners had chosen, as `kernel: config`."""
    peak_memory_mb: Ratio | None = None
    """As in `Timing`."""
    gpu_uuid: str = ""
    """The card, if it is another one than in the note of its run."""


class TimeBaseline(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expected time of one callable: sessions of one mode and source."""

    mode: TimingMode
    source: TimingSource = "events"
    """Source of the times; those of other sources are not compared."""
    reference_mhz: Clock = 0.0
    """SM clock that the sessions' normalised times are brought to, set by the first; 0 if unknown."""
    sessions: Annotated[tuple[Session, ...], msgspec.Meta(min_length=1)]
    """Oldest first."""

    def __post_init__(self) -> None:
        """Refuse two sessions of one run, which a file may have."""
        if len({session.run for session in self.sessions}) < len(self.sessions):
            raise ValueError("a run has two sessions")

    @property
    def mean_us(self) -> float:
        """Mean over the sessions, in microseconds a call."""
        return sum(session.time_us for session in self.sessions) / len(self.sessions)


class MeasurementBaseline(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expected values of one measurement of a test."""

    time: TimeBaseline | None = None
    kernels: tuple[str, ...] = ()
    """Distinct names of the kernels profiled, in the order of their first launch."""
    counters: dict[str, MetricValue] = {}
    """Values of all kernels of a call as one, by short or raw name."""
    counters_run: str = ""
    counters_by: str = BY_NCU
    """Tool that read them and its control of the caches, as in `Profile.read_by`."""
    launches: str = ""
    """Launches that were read: `all`, `first`, `last` or an index; empty for compiled kernels."""
    regex: str = ""
    """Regex of the kernels that were read; empty for all of a call, and if `launches` is empty."""
    accuracy: Accuracy | None = None
    """Error of the output, and its unit."""
    code: LaunchedCode | None = None
    """Code of the kernels in the newest session of `time`; None if it is not known."""
    call: Fingerprint | None = None
    """The call of the newest session of `time`; None if it is not known."""
    trace: dict[str, Count] = {}
    """Values of a trace that are the same in every run: `launches`, `copies`, `synchronizations`."""

    @property
    def exact(self) -> dict[str, float]:
        """Values that are the same in every run of the same code: those of a trace, and memory."""
        newest = self.time.sessions[-1].peak_memory_mb if self.time is not None else None
        return {**self.trace} if newest is None else {**self.trace, PEAK_MEMORY: newest}

    def missing_in(self, found: Measurement) -> list[str]:
        """Return the parts that a test did not measure: nothing guards them any more."""
        # A profile without counters tells why the machine has none.
        parts = {
            "time": (self.time, found.timing),
            "counters": (self.counters, found.profile),
            "trace": (self.trace, found.trace),
            "accuracy": (self.accuracy, found.accuracy),
        }
        return [name for name, (before, now) in parts.items() if before and now is None]


class TestBaseline(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expected values of one test on one model of GPU."""

    __test__ = False  # pytest: not a test class

    limits: dict[str, str] | tuple[str, ...] = {}
    """Made by hand, kept by updates: `{"memory_throughput": ">= 60"}` or `["memory_throughput >= 60"]`."""
    tolerance_pct: Tolerance | None = None
    """Made by hand, kept by updates: replaces the tolerance of the test and of the session."""
    note: str = ""
    """Made by hand, kept by updates."""
    seconds: Seconds = 0.0
    """Duration of the test in the newest run that was accepted; 0 if unknown."""
    measurements: dict[str, MeasurementBaseline] = {}
    """By label."""


class Baseline(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Baseline file: expected values of one suite on one model of GPU."""

    schema: Schema
    gpu: BaselineGpu
    runs: dict[str, RunNote] = {}
    """By run id."""
    tests: dict[str, TestBaseline] = {}
    """By full node id, so that suites of one name in two folders share a file without a clash."""

    @property
    def times(self) -> list[TimeBaseline]:
        """Times of all measurements of all tests."""
        measurements = [found for test in self.tests.values() for found in test.measurements.values()]
        return [found.time for found in measurements if found.time is not None]


def card_of(session: Session, runs: Mapping[str, RunNote]) -> str:
    """Return the UUID of the card of a session, by the notes of the runs; empty if unknown."""
    return session.gpu_uuid or (runs[session.run].gpu_uuid if session.run in runs else "")


def same_quantity(one: Timing | TimeBaseline, other: Timing | TimeBaseline) -> bool:
    """Return True if two times can be compared: they have the same mode and source."""
    return (one.mode, one.source) == (other.mode, other.source)


@cache
def suite_of(nodeid: str) -> str:
    """Return the name of the baseline file of a test: the stem of its test file.

    Raises:
        GpuperfError: The node id names no file (a run file may come from anywhere).
    """
    file = nodeid.partition("::")[0]
    suite = PurePosixPath(file).stem
    odd = not suite or suite.startswith(".") or not suite.isprintable() or "\\" in suite
    if odd or file.encode(errors="ignore").decode() != file:  # bytes that no file of a run can hold
        found = f"the node id {nodeid!r} names no test file, or not in UTF-8"
        raise GpuperfError(found, expected="tests/test_x.py::test_y")
    return suite
