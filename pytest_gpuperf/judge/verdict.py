"""Verdict on one test: errors and wrong outputs, limits, counters, times; the worst finding first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.accuracy import compare_accuracy
from pytest_gpuperf.judge.autotuner_choices import choice_lines
from pytest_gpuperf.judge.counters import compare_counters, counter_findings, early_warning, other_compiler
from pytest_gpuperf.judge.limits import check_limits, parse_limits
from pytest_gpuperf.judge.result import Finding, Hints, Status, TestResult
from pytest_gpuperf.judge.time_lower_bound import impossible_time
from pytest_gpuperf.judge.times import OTHER_CALL, Origin, judge_time
from pytest_gpuperf.records import NO_GPU, GpuInfo, Measurement, TestRecord
from pytest_gpuperf.records.baseline import MeasurementBaseline, TestBaseline
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.kernel_code import compare_code
from pytest_gpuperf.records.sanitizer_error_texts import errors_of
from pytest_gpuperf.records.value_names import COMPILE, PEAK_MEMORY
from pytest_gpuperf.registry import registry
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.judge.result import TimeComparison

_RANK = {status: rank for rank, status in enumerate(Status)}


class Expected(msgspec.Struct, frozen=True, gc=False):
    """Baseline of a test in one file, and the means to compare a measurement with it."""

    baseline: TestBaseline | None = None
    """None if the test has none."""
    origin: Origin = Origin()
    """Where the measurements and the baseline are from."""
    tolerance_pct: float = 0.0
    """Slowdown that is accepted, in %."""
    hints: Hints = Hints()
    file: Path = Path("baselines")
    """The file that `baseline` is from."""
    gpu: GpuInfo = NO_GPU
    """GPU that measured, for the floor of its times."""

    @property
    def measurements(self) -> dict[str, MeasurementBaseline]:
        """The baseline of each label."""
        return self.baseline.measurements if self.baseline is not None else {}

    @property
    def limits(self) -> dict[str, str] | tuple[str, ...]:
        """Limits of the test in the file."""
        return self.baseline.limits if self.baseline is not None else ()


NO_BASELINE = Expected()


def judge(
    record: TestRecord,
    measured: Expected,
    compiled: Expected = NO_BASELINE,
    *,
    errors: Sequence[str] = (),
    strict: bool = False,
) -> TestResult:
    """Judge one test.

    Args:
        record: Its measurements and compiled kernels, and the limits that it states itself.
        measured: The baseline for measurements on this GPU.
        compiled: The baseline for kernels that were only compiled.
        errors: Mistakes that the user must fix before the test can be judged.
        strict: True if a time that cannot be called fails the test.
    """
    mistakes = [*(errors_of(record.sanitizer) if record.sanitizer else ()), *errors]
    findings = [Finding(Status.INVALID, mistake) for mistake in mistakes]
    times: dict[str, TimeComparison] = {}
    if wrong := list(_wrong(record)):
        # Times and counters of a kernel that computes something else say nothing.
        findings += wrong
    else:
        if record.failed and not mistakes:
            findings.append(Finding(Status.INVALID, f"the test was ended by {record.failure}"))
        parts = _parts(record, measured, compiled)
        broken = _broken_limits(record, parts)
        # A value that an error kept from being measured needs no second complaint.
        findings += [one for one in broken if not (findings and one.status is Status.INVALID)]
        for part, expected in parts:
            for label, measurement in part.items():
                time, found = _compare(label, measurement, expected)
                findings += found
                if time is not None:
                    times[label] = time
        if not (mistakes or record.failure or any(finding.status.fails for finding in findings)):
            findings += [one for part, expected in parts for one in _unmeasured(part, expected)]
    # The largest loss comes first among those of one kind.
    loss = {label: time.decision.change_pct for label, time in times.items()}
    findings.sort(key=lambda one: (_RANK[one.status], -loss.get(one.label, 0.0)))
    status = findings[0].status if findings else Status.PASS
    # A test that fails otherwise is not settled.
    settles = not (status.fails or record.failure)
    suspects = tuple(label for label, time in times.items() if time.suspect and settles)
    return TestResult(record, status, tuple(findings), times, strict, suspects)


def _parts(
    record: TestRecord, measured: Expected, compiled: Expected
) -> list[tuple[dict[str, Measurement], Expected]]:
    """Return the measured and the compiled part of a test with their baselines: the same without a GPU."""
    if measured.baseline is not None and measured.baseline is compiled.baseline:
        return [(record.measurements, compiled)]
    return list(zip(record.parts, (measured, compiled), strict=True))


def _broken_limits(
    record: TestRecord, parts: Sequence[tuple[dict[str, Measurement], Expected]]
) -> Iterator[Finding]:
    """Check the limits of the test, then those of each baseline file; explain the first of a label."""
    of_files = [(part, one) for part, one in parts if one.limits and (part or not record.measurements)]
    if not (record.limits or of_files):
        return
    known = {
        label: one
        for part, expected in parts
        for label, one in expected.measurements.items()
        if label in part and not other_compiler(part[label], one)
    }
    try:
        found = list(check_limits(parse_limits(record.limits), "of the test", record.measurements, known))
    except GpuperfError as error:
        found = [Finding(Status.INVALID, f"{error.found} in the record of the test")]
    for part, expected in of_files:
        found += check_limits(parse_limits(expected.limits), f"in {show_path(expected.file)}", part, known)
    done: set[str] = set()
    for finding in found:
        measurement = record.measurements.get(finding.label)
        explained = finding.status is Status.LIMIT and not finding.line.startswith((COMPILE, PEAK_MEMORY))
        if measurement is not None and finding.label not in done and explained:
            done.add(finding.label)
            lines = (line for explain in registry().explanations for line in explain(measurement))
            finding = replace(finding, details=(*finding.details, *lines))
        yield finding


def _compare(
    label: str, measurement: Measurement, expected: Expected
) -> tuple[TimeComparison | None, list[Finding]]:
    """Compare a measurement with its baseline."""
    baseline, timing = expected.measurements.get(label), measurement.timing
    known, errors = baseline or MeasurementBaseline(), measurement.accuracy
    if other := other_compiler(measurement, known):
        return None, [_complete(Finding(Status.NEW, other), label, expected.hints)]
    counters = compare_counters(measurement, known)
    time, judged = judge_time(measurement, known, expected.origin, expected.tolerance_pct)
    doubts = timing.doubts if timing is not None else ()
    settlement = measurement.settlement
    named = settlement.against if settlement is not None and settlement.names_code else None
    chosen = known.time if named is None else named
    choices = choice_lines(timing, chosen) if timing is not None and timing.autotuning.chosen else []
    findings = [
        *filter(None, [impossible_time(measurement, expected.gpu)]),
        *(Finding(Status.PASS, f"the time is doubted: {doubt}", doubt=True) for doubt in doubts),
        *(compare_accuracy(errors, known.accuracy) if errors and known.accuracy else ()),
        *counters.remarks,
    ]
    if time is None or time.outcome not in (Outcome.REGRESSED, Outcome.IMPROVED):
        findings += counter_findings(counters)
    if judged is None or judged.status is Status.PASS:
        findings += early_warning(counters)
    if judged is not None:
        if judged.status not in (Status.PASS, Status.NEW):
            code = compare_code(measurement.code, known.code if named is None else named.code)
            judged = replace(judged, details=(*code, *counters.details))
        if choices and time is not None:
            line, *details = f"{choices[0]}; {judged.line}", *choices[1:], *judged.details
            judged, choices = replace(judged, line=line, details=tuple(details)), []
        findings.append(judged)
    elif time is None and (measurement.has_values if baseline is None else timing is not None):
        what = "no baseline yet" if baseline is None else "the baseline has no time yet"
        findings.append(Finding(Status.NEW, what))
    if baseline is not None and choices:
        findings.append(Finding(Status.PASS, choices[0], details=tuple(choices[1:])))
    return time, [_complete(finding, label, expected.hints) for finding in findings]


def _complete(finding: Finding, label: str, hints: Hints) -> Finding:
    """Add the label, and the command to type next."""
    line, step = finding.line, finding.next_step
    if finding.status is Status.NEW:
        line = f"{line}; {hints.no_baseline}"
    elif line.startswith(OTHER_CALL):
        # The command is the only remedy, and some outputs show nothing but this line.
        line = "; ".join(filter(None, [line, hints.accept]))
    elif finding.drift or finding.status is not Status.PASS:
        step = step or hints.accept
    return replace(finding, label=label, line=line, next_step=step)


def _unmeasured(part: dict[str, Measurement], expected: Expected) -> Iterator[Finding]:
    """Find the parts of a baseline that a test did not measure: its call is gone, so nothing guards it."""
    for label, baseline in expected.measurements.items():
        found = part.get(label, Measurement())
        if gone := " and ".join(baseline.missing_in(found)):
            line = f"{gone} of {label!r} in {show_path(expected.file)}: not measured by this test"
            # A check of its own may tell no accuracy, and runs from before 2026-11-23 have none.
            status = Status.PASS if gone == "accuracy" and found.correctness is not None else Status.INVALID
            doubt = status is Status.PASS
            yield Finding(status, line, label, next_step=expected.hints.accept, doubt=doubt)


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
