"""Verdict on one test: errors and wrong outputs, limits, counters, times; the worst finding first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.judge.accuracy import compare_accuracy
from pytest_gpuperf.judge.counters import compare_counters, counter_findings, counter_remarks
from pytest_gpuperf.judge.floor import impossible_time
from pytest_gpuperf.judge.limits import check_limits, parse_limits
from pytest_gpuperf.judge.origin import Origin
from pytest_gpuperf.judge.parts import same_compiler, split_limits, split_record, unmeasured
from pytest_gpuperf.judge.result import Finding, Hints, Status, TestVerdict
from pytest_gpuperf.judge.settlement import Judgement
from pytest_gpuperf.judge.times import judge_time, time_findings
from pytest_gpuperf.records import NO_GPU, GpuInfo, Measurement, TestRecord
from pytest_gpuperf.records.baseline import MeasurementBaseline, TestBaseline
from pytest_gpuperf.registry import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.judge.limits import Limit
    from pytest_gpuperf.judge.screen import TimeComparison

_RANK = {status: rank for rank, status in enumerate(Status)}


class Expected(msgspec.Struct, frozen=True, gc=False):
    """Baseline of a test, and the means to compare a measurement with it."""

    baseline: TestBaseline | None = None
    """None if the test has none."""
    origin: Origin = Origin()
    """Where the measurements and the baseline are from."""
    tolerance_pct: float = 0.0
    """Slowdown that is accepted, in %."""
    hints: Hints = Hints()
    file: str = "the baseline file"
    """Name of the file that `baseline` is from."""
    gpu: GpuInfo = NO_GPU
    """GPU that measured, for the floor of its times."""


def judge(
    record: TestRecord,
    *,
    limits: Sequence[Limit] = (),
    measured: Expected,
    compiled: Expected | None = None,
    errors: Sequence[str] = (),
    strict: bool = False,
) -> TestVerdict:
    """Judge one test.

    Args:
        record: Its measurements and compiled kernels.
        limits: The test's own, from its marker and `gpuperf.limit()`.
        measured: The baseline for measurements on this GPU.
        compiled: The baseline for kernels that were only compiled.
        errors: Mistakes that the user must fix before the test can be judged.
        strict: True if a time that cannot be called fails the test.
    """
    on_gpu, static = split_record(record)
    limits_on_gpu, limits_static = split_limits(limits, on_gpu, static)
    verdict = _Verdict()
    if on_gpu is not None:
        verdict.judge(on_gpu, limits_on_gpu, measured, errors)
    if static is not None:
        known = compiled or Expected()
        baseline, findings = same_compiler(static, known.baseline, known.hints.no_baseline)
        verdict.judge(static, limits_static, replace(known, baseline=baseline), () if on_gpu else errors)
        verdict.findings += findings
    # Without a GPU, both parts have the same baselines.
    parts = [] if compiled is not None and compiled.baseline is measured.baseline else [(on_gpu, measured)]
    for part, expected in (*parts, (static, compiled)):
        if expected is not None and not (record.failure or errors or verdict.fails):
            verdict.findings += _unmeasured(part, expected)
    # The largest loss comes first among those of one kind.
    findings = sorted(verdict.findings, key=lambda one: (_RANK[one.status], -verdict.loss_pct(one.label)))
    status = findings[0].status if findings else Status.PASS
    # A test that fails otherwise is not settled.
    suspects = () if status.fails or record.failure else tuple(verdict.suspects)
    return TestVerdict(status, tuple(findings), verdict.times, strict, suspects)


class _Verdict:
    """Findings of both parts of a test, as they come."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.times: dict[str, TimeComparison] = {}
        self.suspects: list[str] = []

    @property
    def fails(self) -> bool:
        """True if a finding so far fails the test."""
        return any(finding.status.fails for finding in self.findings)

    def loss_pct(self, label: str) -> float:
        """Return the slowdown of a label, in %; 0 without a time."""
        return self.times[label].decision.change_pct if label in self.times else 0.0

    def judge(
        self, record: TestRecord, limits: Sequence[Limit], expected: Expected, errors: Sequence[str]
    ) -> None:
        """Judge one part: limits, then the counters and the time of each label."""
        found = [Finding(Status.INVALID, error) for error in errors]
        wrong = list(_wrong(record))
        if wrong:
            # Times and counters of a kernel that computes something else say nothing.
            self.findings += found + wrong
            return
        if record.failure and not errors:
            found.append(Finding(Status.INVALID, f"the test was ended by {record.failure}"))
        known = {} if expected.baseline is None else expected.baseline.measurements
        sources = [(limit, "of the test") for limit in limits]
        if expected.baseline is not None:
            of_file = parse_limits(expected.baseline.limits)
            sources += [(limit, f"in {expected.file}") for limit in of_file]
        broken = list(check_limits(sources, record, known))
        # A value that an error kept from being measured needs no second complaint.
        found += [one for one in broken if not (found and one.status is Status.INVALID)]
        for label, measurement in record.measurements.items():
            found += self._compare(label, measurement, known.get(label), expected)
        self.findings += _explained(found, record)

    def _compare(
        self, label: str, measurement: Measurement, baseline: MeasurementBaseline | None, expected: Expected
    ) -> Iterator[Finding]:
        impossible = impossible_time(measurement, expected.gpu, label)
        if impossible is not None:
            yield impossible
        hints = expected.hints
        known = baseline or MeasurementBaseline()
        counters = compare_counters(measurement, known)
        judgement = judge_time(measurement, known, expected.origin, expected.tolerance_pct)
        if judgement.time is not None:
            self.times[label] = judgement.time
            if judgement.suspect:
                self.suspects.append(label)
        yield from compare_accuracy(measurement.accuracy, known.accuracy, label, hints.accept)
        yield from counter_remarks(counters, measurement, known, label)
        if not judgement.decided:
            yield from counter_findings(counters, label, hints.accept)
        if baseline is not None or judgement != Judgement():
            yield from time_findings(judgement, measurement, known, counters, label, hints)
        elif measurement.has_values:
            yield Finding(Status.NEW, f"no baseline yet; {hints.no_baseline}", label)


def _unmeasured(record: TestRecord | None, expected: Expected) -> Iterator[Finding]:
    """Find the parts of a baseline that a test did not measure: its call is gone, so nothing guards it."""
    known = expected.baseline.measurements if expected.baseline is not None else {}
    measured = record.measurements if record is not None else {}
    for label, baseline in known.items():
        if gone := unmeasured(baseline, measured.get(label, Measurement())):
            line = f"{' and '.join(gone)} of {label!r} in {expected.file}: not measured by this test"
            yield Finding(Status.INVALID, line, label, next_step=expected.hints.accept)


def _wrong(record: TestRecord) -> Iterator[Finding]:
    for label, measurement in record.measurements.items():
        correctness = measurement.correctness
        if correctness is not None and not correctness.passed:
            yield Finding(Status.WRONG, correctness.failure or "the output differs from the reference", label)
        if measurement.timing is not None and measurement.timing.refused:
            yield Finding(Status.INVALID, measurement.timing.refused, label)
        fuzz = measurement.fuzz
        if fuzz is not None and not fuzz.passed:
            yield Finding(Status.WRONG, fuzz.failure or f"the output is wrong for {fuzz.case}", label)


def _explained(findings: Sequence[Finding], record: TestRecord) -> Iterator[Finding]:
    """Add the diagnosis of its kernels to the first broken limit of each label."""
    done: set[str] = set()
    for finding in findings:
        measurement = record.measurements.get(finding.label)
        if measurement is None or finding.label in done or finding.status is not Status.LIMIT:
            yield finding
            continue
        done.add(finding.label)
        lines = (line for explain in registry().explanations for line in explain(measurement))
        yield replace(finding, details=(*finding.details, *lines))
