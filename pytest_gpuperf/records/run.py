"""All that one session measured, test by test."""

from __future__ import annotations

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.correctness import Correctness, SanitizerResult
from pytest_gpuperf.records.counters import Profile
from pytest_gpuperf.records.environment import Environment
from pytest_gpuperf.records.timing import AgainstTiming, Timing, WarmUp
from pytest_gpuperf.records.trace import Trace

RUN_SCHEMA = 1
"""Version of the run file. A reader refuses a newer one and leaves the file as it is."""


class Measurement(Record, frozen=True, kw_only=True):
    """What one test measured under one label."""

    correctness: Correctness | None = None
    warm_up: WarmUp | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    trace: Trace | None = None
    against: AgainstTiming | None = None
    """Where `--gpuperf-against` was given."""


class TestRecord(Record, frozen=True, kw_only=True):
    """What one test measured."""

    __test__ = False  # pytest: not a test class

    nodeid: str
    measurements: dict[str, Measurement]
    """By label; a test that measures one callable has the one label `main`."""
    failure: str = ""
    """Type of the exception that ended the test; what such a test measured is never accepted as baseline."""
    tolerance_pct: float = 0.0
    """The test's own: by how much the time may exceed its baseline, in per cent; 0 where it says none."""
    sanitizer: SanitizerResult | None = None
    """None where it did not run under compute-sanitizer."""


class Run(Record, frozen=True, kw_only=True):
    """All that one session measured."""

    schema: int
    """`RUN_SCHEMA` of the writer."""
    id: str
    started_at: str
    """UTC, ISO 8601."""
    environment: Environment
    complete: bool = True
    """False: the session was interrupted."""
    counters_unavailable: str = ""
    """Why the whole session has no counters; empty where it has, or where none were asked for."""
    tests: tuple[TestRecord, ...] = ()
