"""The verdicts of a run as one JSON object, for scripts and agents: `--gpuperf-json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf._version import __version__
from pytest_gpuperf.judge.result import Finding, Status, TimeComparison
from pytest_gpuperf.records import Environment, MetricValue, TimingMode
from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.number_ranges import Count, Positive, Ratio, Schema, Spread, Time
from pytest_gpuperf.report.brief import shortened
from pytest_gpuperf.report.forms.as_json import escaped
from pytest_gpuperf.report.overwrite_check import refuse_other_file
from pytest_gpuperf.report.rows import (
    counts_by_status,
    label_status,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Measurement
    from pytest_gpuperf.report.rows import Summary
    from pytest_gpuperf.session.run_report import End

VERDICTS_SCHEMA = 1
"""Version of the object."""


class JudgedMeasurement(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The measurements of a test under one label."""

    verdict: Status
    mode: TimingMode | None
    """Timing mode; None if it was not timed."""
    time_us: Time | None
    spread_pct: Spread | None
    """Interquartile range of the blocks at one place in memory, in % of their mean."""
    gb_per_s: Ratio | None
    """Declared bytes over the time, else those that a call copies; None if neither is known."""
    tflop_per_s: Ratio | None
    change: TimeComparison | None
    """None if the time was compared with nothing."""
    correct: bool | None
    """False if an output differed from its reference; None if none was compared."""
    counters: dict[str, MetricValue]
    """Counters of all kernels of the call as one, by short name, in the units of `gpuperf metrics`."""


class JudgedTest(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One test with its verdict."""

    nodeid: str
    line: Positive | None
    """Line of the test in its file; None if unknown."""
    verdict: Status
    """The worst of the test."""
    fails: bool
    expected_failure: bool
    """True if pytest expected the test to fail."""
    replayed: bool
    """True if nothing was launched: a recording was judged again."""
    environment: Environment | None
    """That of its recording; None if it is that of the run."""
    exception: str
    """Type of the exception that ended the test; empty if none did."""
    message: str
    """Reason of a failure, at most ten lines; empty if the test does not fail."""
    findings: tuple[Finding, ...]
    """The worst first."""
    measurements: dict[str, JudgedMeasurement]
    """By label; a test of one callable has only the label `main`."""


class UnjudgedFailure(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A test that failed without a verdict: it crashed, took too long, or raised before it measured."""

    nodeid: str
    message: str
    """At most ten lines."""


class Verdicts(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The verdicts of one execution of `pytest --gpuperf`."""

    schema: Schema
    """`VERDICTS_SCHEMA` of the writer."""
    gpuperf: str
    """Version of this package."""
    run: str
    """Id of the run that was written or replayed; empty if none was kept."""
    replayed: bool
    """True if a recording was judged again."""
    complete: bool
    """False if the execution was interrupted."""
    passed: bool
    """True if it is complete and pytest ended with 0: no test failed, and the run has no error."""
    environment: Environment
    counts: dict[Status, Count]
    """Number of tests of each verdict that occurs."""
    unjudged: tuple[UnjudgedFailure, ...]
    """Also tests that do not measure."""
    skipped: tuple[str, ...]
    """Tests of the fixture that have no verdict and did not fail."""
    tests: tuple[JudgedTest, ...]
    notices: tuple[str, ...]
    """Lines about the whole run; errors begin with `error`."""


def write_verdicts(path: Path, summary: Summary, end: End) -> None:
    """Write the verdicts of a run to the file that the user names.

    Raises:
        GpuperfError: The file exists, and this tool has not written it.
        OSError: The file cannot be written.
    """
    refuse_other_file(path)
    write_files({path: encode_verdicts(verdicts_of(summary, end))})


def verdicts_of(summary: Summary, end: End) -> Verdicts:
    """Return the verdicts of a run."""
    judged = {result.record.nodeid for result in summary.results}
    replayed, folder = summary.replayed_from, summary.folder
    run_id = folder.name if folder is not None else ""
    return Verdicts(
        schema=VERDICTS_SCHEMA,
        gpuperf=__version__,
        run=replayed.id if replayed is not None else run_id,
        replayed=replayed is not None,
        complete=end.complete,
        passed=end.complete and end.status == 0,
        environment=summary.environment,
        counts=counts_by_status(summary.results),
        unjudged=tuple(
            UnjudgedFailure(nodeid=nodeid, message=shortened(message))
            for nodeid, message in end.failed.items()
            if nodeid not in judged
        ),
        skipped=tuple(nodeid for nodeid in summary.lines if nodeid not in judged | end.failed.keys()),
        tests=tuple(_test(summary, result) for result in summary.results),
        notices=tuple(summary.notices),
    )


def encode_verdicts(verdicts: Verdicts) -> bytes:
    """Return the object as JSON; a number that is not finite is null."""
    return escaped(msgspec.json.encode(verdicts).decode() + "\n").encode()


def _test(summary: Summary, result: TestResult) -> JudgedTest:
    record = result.record
    run = summary.recorded.get(record.nodeid)
    return JudgedTest(
        nodeid=record.nodeid,
        line=summary.lines.get(record.nodeid),
        verdict=result.status,
        fails=result.fails,
        expected_failure=record.nodeid in summary.expected_failures,
        replayed=result.replayed,
        environment=run.environment if run and run.environment != summary.environment else None,
        exception=record.failure,
        message=shortened(result.message()) if result.fails else "",
        findings=result.findings,
        measurements={
            label: _measurement(result, label, measured) for label, measured in record.measurements.items()
        },
    )


def _measurement(result: TestResult, label: str, measured: Measurement) -> JudgedMeasurement:
    timing = measured.timing
    compared = measured.correctness is not None or measured.fuzz is not None
    return JudgedMeasurement(
        verdict=label_status(result, label),
        mode=timing.mode if timing else None,
        time_us=timing.time_us if timing else None,
        spread_pct=timing.spread_pct if timing else None,
        gb_per_s=timing.gb_per_s if timing else None,
        tflop_per_s=timing.tflop_per_s if timing else None,
        change=result.times.get(label),
        correct=not measured.is_wrong if compared else None,
        counters=measured.profile.combined if measured.profile else {},
    )
