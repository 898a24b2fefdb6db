"""The verdict on one test: correctness, limits and baseline, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.verdict.compare import compare
from pytest_gpuperf.verdict.limits import check_limit, parse_limits
from pytest_gpuperf.verdict.result import Finding, Status, TestVerdict, show_pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.baseline.schema import MeasurementBaseline, TestBaseline
    from pytest_gpuperf.records import Measurement, MetricValue, TestRecord
    from pytest_gpuperf.verdict.compare import Comparison
    from pytest_gpuperf.verdict.limits import Limit
    from pytest_gpuperf.verdict.result import Change

SHOWN_CHANGES = 8
"""Changed counters below a regression; reports show the rest."""

_RANK = {status: rank for rank, status in enumerate(Status)}


def judge(
    record: TestRecord,
    *,
    limits: Sequence[Limit],
    baseline: TestBaseline | None,
    tolerance_pct: float,
    errors: Sequence[str] = (),
    accept_hint: str,
    no_baseline_hint: str,
    baseline_file: str = "the baseline file",
) -> TestVerdict:
    """Judge what one test measured.

    Args:
        record: What it measured.
        limits: The test's own, from its marker and `gpuperf.limit()`.
        baseline: What is expected of it on this GPU; None where nothing is known.
        tolerance_pct: By how much a time may exceed its baseline, in per cent.
        errors: What the user must mend before the test can be judged.
        accept_hint: What to type when a regression is meant; shown below it.
        no_baseline_hint: What to type to make a baseline; shown where there is none.
        baseline_file: What to call the file that `baseline` is from.
    """
    findings = [Finding(Status.INVALID, error) for error in errors]
    wrong = [
        Finding(
            Status.WRONG, measurement.correctness.failure or "the output differs from the reference", label
        )
        for label, measurement in record.measurements.items()
        if measurement.correctness is not None and not measurement.correctness.passed
    ]
    if wrong:
        # Times and counters of a kernel that computes something else say nothing.
        return _verdict([*findings, *wrong])
    if record.failure and not errors:
        findings.append(Finding(Status.INVALID, f"the test was ended by {record.failure}"))
    ended = bool(findings)
    expected = {} if baseline is None else baseline.measurements
    own = [(limit, "of the test") for limit in limits]
    if baseline is not None:
        own += [(limit, f"in {baseline_file}") for limit in parse_limits(baseline.limits)]
    for limit, source in own:
        found = list(_check(limit, source, record, expected))
        # What an error kept from being measured needs no second complaint.
        findings += [one for one in found if not (ended and one.status is Status.INVALID)]

    times: dict[str, float] = {}
    counters: dict[str, tuple[Change, ...]] = {}
    for label, measurement in record.measurements.items():
        known = expected.get(label)
        if known is None:
            if measurement.timing is not None or (measurement.profile and measurement.profile.combined):
                findings.append(Finding(Status.UNBASELINED, f"no baseline yet; {no_baseline_hint}", label))
            continue
        comparison = compare(measurement, known, tolerance_pct)
        if comparison.time is not None and comparison.time.change_pct is not None:
            times[label] = comparison.time.change_pct
        if comparison.counters:
            counters[label] = comparison.counters
        findings += _findings(comparison, measurement, label, accept_hint, no_baseline_hint)
    missing = ", ".join(label for label in expected if label not in record.measurements)
    if missing:
        findings.append(Finding(Status.PASS, f"{missing} is in {baseline_file} and was not measured"))
    return _verdict(findings, times, counters)


def _verdict(
    findings: list[Finding],
    times: dict[str, float] | None = None,
    counters: dict[str, tuple[Change, ...]] | None = None,
) -> TestVerdict:
    findings.sort(key=lambda finding: _RANK[finding.status])
    status = findings[0].status if findings else Status.PASS
    return TestVerdict(status, tuple(findings), times or {}, counters or {})


def _check(
    limit: Limit, source: str, record: TestRecord, expected: dict[str, MeasurementBaseline]
) -> Iterator[Finding]:
    measured = record.measurements
    labels = [label for label in measured if limit.is_for(label)]
    # A test that only times one of its callables has a limit on counters for the others.
    able = [label for label in labels if _has_part(limit, measured[label])] or labels[:1]
    if not able:
        done = f"compiled nothing for {limit.arch}" if limit.arch and measured else "measured nothing"
        yield Finding(Status.INVALID, f"the limit {limit} {source} cannot be judged: the test {done}")
    for label in able:
        outcome = check_limit(
            limit, measured[label], source=source, baseline=_expected_value(limit.name, expected.get(label))
        )
        if outcome.line:
            yield Finding(outcome.status, outcome.line, label)


def _has_part(limit: Limit, measurement: Measurement) -> bool:
    return (measurement.timing if limit.needs_time else measurement.profile) is not None


def _expected_value(name: str, baseline: MeasurementBaseline | None) -> MetricValue | None:
    if baseline is None:
        return None
    if name == "time_us":
        return baseline.time.mean_us if baseline.time is not None else None
    return baseline.counters.get(name)


def _findings(
    comparison: Comparison, measurement: Measurement, label: str, accept_hint: str, no_baseline_hint: str
) -> Iterator[Finding]:
    details = _details(comparison)
    if comparison.kernels and not comparison.slower and not comparison.faster:
        yield Finding(Status.PASS, "other kernels run, so exact counters are not judged", label, details)
    if comparison.worse_exact and not comparison.slower:
        first, *others = comparison.worse_exact
        actual, expected = show_pair(first.actual, first.baseline)
        more = f", and {len(others)} more" if others else ""
        line = f"{first.metric} {actual} is worse than the baseline {expected} (no tolerance){more}"
        yield Finding(Status.REGRESSED, line, label, (*details, accept_hint))
    time = comparison.time
    if time is not None and time.change_pct is not None and measurement.timing is not None:
        actual, expected = show_pair(time.actual, time.baseline)
        how = f"(tolerance {comparison.time_tolerance_pct:g} %, {measurement.timing.mode})"
        line = f"time_us {actual} is {abs(time.change_pct):.1f} %"
        if comparison.slower:
            below = (*details, accept_hint)
            yield Finding(Status.REGRESSED, f"{line} slower than the baseline {expected} {how}", label, below)
        elif comparison.faster:
            yield Finding(
                Status.IMPROVED, f"{line} faster than the baseline {expected} {how}", label, details
            )
    elif comparison.fell_back:
        yield Finding(Status.REGRESSED, comparison.not_compared, label, (*details, accept_hint))
    elif comparison.not_compared:
        yield Finding(Status.UNBASELINED, f"{comparison.not_compared}; {no_baseline_hint}", label)
    elif measurement.timing is not None:
        yield Finding(Status.UNBASELINED, f"the baseline has no time yet; {no_baseline_hint}", label)


def _details(comparison: Comparison) -> tuple[str, ...]:
    exact = {change.metric for change in comparison.worse_exact}
    changes = sorted(comparison.counters, key=lambda change: change.metric not in exact)
    details = [str(change) for change in changes[:SHOWN_CHANGES]]
    if len(changes) > SHOWN_CHANGES:
        details.append(f"and {len(changes) - SHOWN_CHANGES} more counters")
    if comparison.kernels:
        details.append(comparison.kernels)
    return tuple(details)
