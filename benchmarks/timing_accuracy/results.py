"""What a run of the benchmark has found, as its JSON file holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from benchmarks import results_file
from pytest_gpuperf.records import Environment, Record, TimingFigure

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 3
Condition: TypeAlias = Literal["hot", "cold"]
"""Caches as the call before left them, or L2 flushed before each call."""


class Ours(Record, frozen=True, kw_only=True):
    """One kernel in one mode in one process, by `Timer.time`."""

    time_us: float = 0.0
    figure: TimingFigure = "events"
    events_us: float = 0.0
    cupti_us: float = 0.0
    sm_clock_mhz: float = 0.0
    """Median over the blocks; 0 where unknown."""
    seconds: float = 0.0
    """Wall-clock time that it took, warm-up included."""
    failure: str = ""
    """Why there is no time."""


class Truth(Record, frozen=True, kw_only=True):
    """A kernel's own duration: CUPTI's activity records, read by torch.profiler."""

    hot_us: float
    cold_us: float


class Process(Record, frozen=True, kw_only=True):
    """What one fresh process has found, all on the same memory."""

    ours: dict[str, dict[str, Ours]]
    """By kernel and mode."""
    truth: dict[str, Truth] = {}
    """By kernel."""


class Placement(Record, frozen=True, kw_only=True):
    """A kernel in one condition in one process."""

    same_us: tuple[float, ...]
    """Timed again and again on the same memory."""
    other_us: tuple[float, ...]
    """Timed on other memory each time."""


class Results(Record, frozen=True, kw_only=True):
    """All of a run."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment | None = None
    """None where no child came so far as to look."""
    max_sm_clock_mhz: int = 0
    """0 where NVML does not tell."""
    tools: dict[str, str] = {}
    """Versions of the other tools."""
    processes: tuple[Process, ...] = ()
    placement: dict[str, dict[Condition, Placement]] = {}
    """By kernel and condition."""
    others: dict[str, dict[str, float]] = {}
    """Microseconds a call by tool and kernel."""
    failures: dict[str, str] = {}
    """Children that failed, with what they said last; what they had measured by then is kept."""
    seconds: dict[str, float] = {}
    """Wall-clock time of each child."""


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)
