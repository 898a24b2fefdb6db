"""Verdict on one test: errors and wrong outputs, limits, counters, times; the worst finding first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.judge.accuracy import compare_accuracy
from pytest_gpuperf.judge.counters import compare_counters
from pytest_gpuperf.judge.explain import explain_lines
from pytest_gpuperf.judge.floor import impossible_time
from pytest_gpuperf.judge.gate import Gate, TimeComparison
from pytest_gpuperf.judge.limits import check_limits, parse_limits
from pytest_gpuperf.judge.parts import same_compiler, split_limits, split_record
from pytest_gpuperf.judge.result import Finding, Hints, Status, TestVerdict
from pytest_gpuperf.judge.times import judge_time
from pytest_gpuperf.records import NO_GPU, GpuInfo, Measurement, TestRecord
from pytest_gpuperf.records.baseline import MeasurementBaseline, TestBaseline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.judge.limits import Limit

EXPLAINED = (Status.REGRESSED, Status.LIMIT)
"""Findings that have the diagnosis below them."""
_RANK = {status: rank for rank, status in enumerate(Status)}


class Expected(msgspec.Struct, frozen=True, gc=False):
    """Baseline of a test, and the means to compare a measurement with it."""

    baseline: TestBaseline | None = None
    """None if the test has none."""
    gate: Gate | None = None
    """Judges times; None for a test that was only compiled."""
    tolerance_pct: float = 0.0
    """Slowdown that is accepted, in %; 0 leaves it to statistics."""
    hints: Hints = Hints()
    file: str = "the baseline file"
    """Name of the file that `baseline` is from."""
    gpu: GpuInfo = NO_GPU
    """GPU that measured, for the floor of its times."""
    earlier: Callable[[str], Measurement | None] = lambda _: None
    """Returns the measurement with a label from the run before this one."""


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
    findings = sorted(verdict.findings, key=lambda finding: _RANK[finding.status])
    status = findings[0].status if findings else Status.PASS
    return TestVerdict(status, tuple(findings), verdict.times, strict)


class _Verdict:
    """Findings of both parts of a test, as they come."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.times: dict[str, TimeComparison] = {}

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
            found += self._compare((record.nodeid, label), measurement, known.get(label), expected)
        missing = ", ".join(label for label in known if label not in record.measurements)
        if missing:
            found.append(Finding(Status.PASS, f"{missing} is in {expected.file} and was not measured"))
        self.findings += _explained(found, record)

    def _compare(
        self,
        key: tuple[str, str],
        measurement: Measurement,
        baseline: MeasurementBaseline | None,
        expected: Expected,
    ) -> Iterator[Finding]:
        _, label = key
        impossible = impossible_time(measurement, expected.gpu, label)
        if impossible is not None:
            yield impossible
        hints = expected.hints
        known = baseline or MeasurementBaseline()
        counters = compare_counters(measurement, known, label, hints.accept)
        judged = judge_time(
            key,
            measurement,
            baseline,
            counters,
            expected.gate,
            expected.tolerance_pct,
            hints,
            partial(expected.earlier, label),
        )
        if judged.time is not None:
            self.times[label] = judged.time
        accuracy = measurement.correctness.accuracy if measurement.correctness is not None else None
        yield from compare_accuracy(accuracy, known.accuracy, label, hints.accept)
        yield from counters.remarks
        if not judged.moved:
            yield from counters.findings
        yield from judged.findings
        if measurement.not_timed:
            yield Finding(Status.PASS, measurement.not_timed, label)
        if baseline is None and judged.time is None and _is_comparable(measurement):
            yield Finding(Status.NEW, f"no baseline yet; {hints.no_baseline}", label)


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


def _is_comparable(measurement: Measurement) -> bool:
    counted = measurement.profile is not None and bool(measurement.profile.combined)
    checked = measurement.correctness
    others = (measurement.timing, measurement.trace, checked.accuracy if checked is not None else None)
    return counted or any(part is not None for part in others)


def _explained(findings: Sequence[Finding], record: TestRecord) -> Iterator[Finding]:
    """Add the diagnosis of its kernels to the worst failure of each label."""
    done: set[str] = set()
    for finding in sorted(findings, key=lambda finding: _RANK[finding.status]):
        measurement = record.measurements.get(finding.label)
        if measurement is None or finding.label in done or finding.status not in EXPLAINED:
            yield finding
            continue
        done.add(finding.label)
        yield replace(finding, details=(*finding.details, *explain_lines(measurement)))
