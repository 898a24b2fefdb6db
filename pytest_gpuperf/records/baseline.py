"""What a baseline file says, as typed records.

These types are for reading. A writer changes the JSON object itself, so that whatever a person added
to the file stays in it.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import (
    ClockModel,
    MetricValue,
    Record,
    Timing,
    TimingMode,
    TimingSource,
    Toolchain,
)

BASELINE_SCHEMA = 1
"""Version of the baseline file. A reader refuses a newer one and leaves the file as it is."""


class BaselineGpu(Record, frozen=True, kw_only=True):
    """The model of GPU that the file is for."""

    slug: str
    name: str = ""


class RunNote(Record, frozen=True, kw_only=True):
    """Where values of a baseline came from."""

    date: str = ""
    """UTC, ISO 8601."""
    commit: str = ""
    dirty: bool | None = None
    gpu_uuid: str = ""
    toolchain: Toolchain = Toolchain()


class Session(Record, frozen=True, kw_only=True):
    """The time that one run measured."""

    run: str
    time_us: Annotated[float, msgspec.Meta(gt=0)]
    spread_pct: float = 0.0
    normalised_us: float = 0.0
    """At the `reference_mhz` of its `TimeBaseline`; 0 where the session has no clock model."""
    sm_clock_mhz: float = 0.0
    """Mean SM clock while it was measured; 0 where unknown."""
    clock_model: ClockModel | None = None
    autotuned: tuple[str, ...] = ()
    """Configurations that the autotuners had picked, as `kernel: config`."""


class Times(Record, frozen=True, kw_only=True):
    """Times of one callable, all taken in one mode by one instrument."""

    mode: TimingMode
    source: TimingSource = "events"
    """Times of another instrument are not compared."""
    reference_mhz: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """SM clock that the sessions' normalised times are brought to, set by the first; 0 where unknown."""
    sessions: Annotated[tuple[Session, ...], msgspec.Meta(min_length=1)]
    """Oldest first."""

    @property
    def mean_us(self) -> float:
        """Mean over the sessions, in microseconds a call."""
        return sum(session.time_us for session in self.sessions) / len(self.sessions)


class Pin(Times, frozen=True, kw_only=True):
    """The sessions that a time had when someone pinned them, untouched by updates."""

    name: str = ""
    """A release, mostly; empty where none was given."""
    date: str = ""
    """When it was pinned: UTC, ISO 8601."""

    def __str__(self) -> str:
        """`v1.2 of 2026-11-20`."""
        return f"{self.name} of {self.date[:10]}" if self.name else self.date[:10]


class TimeBaseline(Times, frozen=True, kw_only=True):
    """What is expected of the time of one callable."""

    pinned: Pin | None = None
    """What it is compared with besides, so that small losses do not add up unseen."""


class MeasurementBaseline(Record, frozen=True, kw_only=True):
    """What is expected of one measurement of a test."""

    time: TimeBaseline | None = None
    kernels: tuple[str, ...] = ()
    """Distinct names of the kernels profiled, in the order of their first launch."""
    counters: dict[str, MetricValue] = {}
    """All kernels of a call as one, by short or raw name."""
    counters_run: str = ""
    counters_by: str = "ncu/all"
    """Who read them and what was done to the caches, as `Profile.read_by` says it."""
    counters_sessions: Annotated[int, msgspec.Meta(ge=1)] = 1
    """How many sessions of the same code have read them in this way; of `counters` are the newest values."""
    counters_range: dict[str, tuple[float, float]] = {}
    """The least and the most that those sessions saw of a near-exact counter that was not the same in all."""
    launches: str = ""
    """Which launches they are of: `all`, `first`, `last` or an index; empty in files of before it was kept,
    and of what a compiler knows."""
    regex: str = ""
    """Of which kernels; empty for all of a call, and where `launches` is empty."""
    trace: dict[str, int] = {}
    """Figures of a trace that are the same in every run: `launches`, `copies`, `synchronizations`."""


class TestBaseline(Record, frozen=True, kw_only=True):
    """What is expected of one test on one model of GPU."""

    __test__ = False  # pytest: not a test class

    limits: dict[str, str] | tuple[str, ...] = {}
    """Made by hand, kept by updates: `{"memory_throughput": ">= 60"}` or `["memory_throughput >= 60"]`."""
    tolerance_pct: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Made by hand, kept by updates: replaces the tolerance of the test and of the session."""
    note: str = ""
    """Made by hand, kept by updates."""
    measurements: dict[str, MeasurementBaseline] = {}
    """By label."""


class Baseline(Record, frozen=True, kw_only=True):
    """One baseline file: what one suite is expected to do on one model of GPU."""

    schema: int
    gpu: BaselineGpu
    runs: dict[str, RunNote] = {}
    """By run id."""
    tests: dict[str, TestBaseline] = {}
    """By full node id, so that suites of one name in two folders share a file without a clash."""

    @property
    def times(self) -> list[TimeBaseline]:
        """Those of all measurements of all tests."""
        measurements = [found for test in self.tests.values() for found in test.measurements.values()]
        return [found.time for found in measurements if found.time is not None]


def same_quantity(one: Timing | Times, other: Timing | Times) -> bool:
    """Whether two times can be compared: taken in one mode, by one instrument."""
    return (one.mode, one.source) == (other.mode, other.source)


def suite_of(nodeid: str) -> str:
    """The name of the baseline file a test belongs to: the stem of its test file.

    Raises:
        GpuperfError: The node id names no file (a run file may come from anywhere).
    """
    suite = PurePosixPath(nodeid.partition("::")[0]).stem
    if not suite or suite.startswith(".") or not suite.isprintable() or "\\" in suite:
        raise GpuperfError(f"the node id {nodeid!r} names no test file", expected="tests/test_x.py::test_y")
    return suite
