"""Results of the benchmark, as in its JSON file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from benchmarks import results_file
from pytest_gpuperf.records import Environment, Record, TimingSource

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 3
Condition: TypeAlias = Literal["hot", "cold"]
"""Caches as the previous call left them, or L2 flushed before each call."""


class Ours(Record, frozen=True, kw_only=True):
    """Time of one kernel in one mode in one process, by `Timer.time`."""

    time_us: float = 0.0
    source: TimingSource = "events"
    events_us: float = 0.0
    cupti_us: float = 0.0
    sm_clock_mhz: float = 0.0
    """Median over the blocks; 0 if unknown."""
    seconds: float = 0.0
    """Wall-clock time of the measurement, with warm-up."""
    failure: str = ""
    """Reason for a missing time."""


class Truth(Record, frozen=True, kw_only=True):
    """True duration of a kernel, from CUPTI's activity records by torch.profiler."""

    hot_us: float
    cold_us: float


class Process(Record, frozen=True, kw_only=True):
    """Results of one fresh process, all on the same memory."""

    ours: dict[str, dict[str, Ours]]
    """Times by kernel and mode."""
    truth: dict[str, Truth] = {}
    """True durations by kernel."""


class Placement(Record, frozen=True, kw_only=True):
    """Times of a kernel in one condition in one process."""

    same_us: tuple[float, ...]
    """Repetitions on the same memory."""
    other_us: tuple[float, ...]
    """Times on different memory."""


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the benchmark."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment | None = None
    """None if no child reported it."""
    max_sm_clock_mhz: int = 0
    """0 if NVML does not report it."""
    tools: dict[str, str] = {}
    """Versions of the other tools."""
    processes: tuple[Process, ...] = ()
    placement: dict[str, dict[Condition, Placement]] = {}
    """Times by kernel and condition."""
    others: dict[str, dict[str, float]] = {}
    """Microseconds a call, by tool and kernel."""
    failures: dict[str, str] = {}
    """Children that failed, with their last line; their measurements are kept."""
    seconds: dict[str, float] = {}
    """Wall-clock time of each child."""


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)
