"""The verdict on one test: correctness, limits and baseline, the worst first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.compare import compare
from pytest_gpuperf.judge.explain import explain_lines
from pytest_gpuperf.judge.limits import check_limit, parse_limits
from pytest_gpuperf.judge.paired_time import compare_paired
from pytest_gpuperf.judge.result import Finding, Status, TestVerdict
from pytest_gpuperf.judge.wording import (
    autotuned_otherwise,
    explanation,
    machine_moved,
    tensor_contradiction,
    time_line,
)
from pytest_gpuperf.records.baseline import MeasurementBaseline
from pytest_gpuperf.records.change import show_pair
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.judge.compare import Comparison
    from pytest_gpuperf.judge.gate import Gate, TimeComparison
    from pytest_gpuperf.judge.limits import Limit
    from pytest_gpuperf.records import Measurement, MetricValue, TestRecord, TimingMode
    from pytest_gpuperf.records.baseline import TestBaseline
    from pytest_gpuperf.records.change import Change

EXPLAINED = (Status.REGRESSED, Status.LIMIT)
"""What the diagnosis is shown below."""
SHOWN_CHANGES = 8
"""Changed counters below a regression; reports show the rest."""


@dataclass(frozen=True)
class Hints:
    """What to type next, as it is shown below a finding."""

    accept: str = ""
    """Where a change is meant."""
    accept_pin: str = ""
    """Where a change since the pinned sessions is meant."""
    no_baseline: str = ""
    """To make a baseline."""
    closer: str = ""
    """To have old and new code measured in turn."""
    more_sessions: str = ""
    """To make smaller changes visible."""


_RANK = {status: rank for rank, status in enumerate(Status)}


def judge(
    record: TestRecord,
    *,
    limits: Sequence[Limit],
    baseline: TestBaseline | None,
    gate: Gate,
    tolerance_pct: float,
    errors: Sequence[str] = (),
    hints: Hints,
    strict: bool = False,
    baseline_file: str = "the baseline file",
) -> TestVerdict:
    """Judge what one test measured.

    Args:
        record: What it measured.
        limits: The test's own, from its marker and `gpuperf.limit()`.
        baseline: What is expected of it on this GPU; None where nothing is known.
        gate: Judges its times.
        tolerance_pct: A slowdown up to this is accepted, in per cent; 0 leaves it to statistics.
        errors: What the user must mend before the test can be judged.
        hints: What to type next.
        strict: Whether a time that cannot be called fails the test.
        baseline_file: What to call the file that `baseline` is from.
    """
    findings = [Finding(Status.INVALID, error) for error in errors]
    wrong = list(_wrong(record))
    if wrong:
        # Times and counters of a kernel that computes something else say nothing.
        return _verdict([*findings, *wrong])
    if record.failure and not errors:
        findings.append(Finding(Status.INVALID, f"the test was ended by {record.failure}"))
    expected = {} if baseline is None else baseline.measurements
    own = [(limit, "of the test") for limit in limits]
    if baseline is not None:
        own += [(limit, f"in {baseline_file}") for limit in parse_limits(baseline.limits)]
    broken = [finding for limit, source in own for finding in _check(limit, source, record, expected)]
    # What an error kept from being measured needs no second complaint.
    findings += [one for one in broken if not (findings and one.status is Status.INVALID)]

    times: dict[str, TimeComparison] = {}
    counters: dict[str, tuple[Change, ...]] = {}
    for label, measurement in record.measurements.items():
        findings += _contradicted(measurement, label)
        in_turn = compare_paired(measurement.against, tolerance_pct) if measurement.against else None
        findings += _not_in_turn(measurement, in_turn, label)
        # Old code in turn needs no stored sessions.
        known = expected.get(label, None if in_turn is None else MeasurementBaseline())
        if known is None:
            findings += _without_baseline(measurement, label, hints)
            continue
        key, timing = (record.nodeid, label), measurement.timing
        stored = gate.compare(key, timing, tolerance_pct) if timing else None
        pinned = gate.compare_pinned(key, timing, tolerance_pct) if timing else None
        # A pair is judged more sharply than by any stored session.
        comparison = compare(measurement, known, in_turn or stored)
        if comparison.time is not None:
            times[label] = comparison.time
        if comparison.counters:
            counters[label] = comparison.counters
        findings += _not_measured(measurement, known, label)
        findings += _findings(comparison, measurement, label, hints)
        findings += _picked_otherwise(measurement, known, label)
        if pinned and not comparison.slower:
            findings += _crept(pinned, measurement, label, hints)
    missing = ", ".join(label for label in expected if label not in record.measurements)
    if missing:
        findings.append(Finding(Status.PASS, f"{missing} is in {baseline_file} and was not measured"))
    return _verdict(list(_explained(findings, record)), times, counters, strict=strict)


def _wrong(record: TestRecord) -> Iterator[Finding]:
    for label, measurement in record.measurements.items():
        correctness = measurement.correctness
        if correctness is not None and not correctness.passed:
            yield Finding(Status.WRONG, correctness.failure or "the output differs from the reference", label)


def _explained(findings: Sequence[Finding], record: TestRecord) -> Iterator[Finding]:
    """The findings, the first failure of each label with what bounds its kernels."""
    done: set[str] = set()
    for finding in sorted(findings, key=lambda finding: _RANK[finding.status]):
        measurement = record.measurements.get(finding.label)
        if measurement is None or finding.label in done or finding.status not in EXPLAINED:
            yield finding
            continue
        done.add(finding.label)
        yield replace(finding, details=(*finding.details, *explain_lines(measurement)))


def _verdict(
    findings: list[Finding],
    times: dict[str, TimeComparison] | None = None,
    counters: dict[str, tuple[Change, ...]] | None = None,
    *,
    strict: bool = False,
) -> TestVerdict:
    findings.sort(key=lambda finding: _RANK[finding.status])
    status = findings[0].status if findings else Status.PASS
    return TestVerdict(status, tuple(findings), times or {}, counters or {}, strict)


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
    return getattr(measurement, limit.part) is not None


def _expected_value(name: str, baseline: MeasurementBaseline | None) -> MetricValue | None:
    if baseline is None:
        return None
    if name == "time_us":
        return baseline.time.mean_us if baseline.time is not None else None
    return baseline.trace.get(name, baseline.counters.get(name))


def _findings(
    comparison: Comparison, measurement: Measurement, label: str, hints: Hints
) -> Iterator[Finding]:
    details = _details(comparison)
    moved = comparison.slower or comparison.faster
    if comparison.chosen_otherwise:
        yield Finding(Status.PASS, f"{comparison.chosen_otherwise}: not compared", label)
    if comparison.read_otherwise:
        yield Finding(Status.PASS, f"{comparison.read_otherwise}: only exact ones are judged", label)
    if comparison.kernels and not moved:
        yield Finding(Status.PASS, "other kernels run, so exact counters are not judged", label, details)
    if comparison.worse_exact and not comparison.slower:
        first, *others = comparison.worse_exact
        actual, expected = show_pair(first.actual, first.baseline)
        more = f", and {len(others)} more" if others else ""
        line = f"{first.metric} {actual} is worse than the baseline {expected} (no tolerance){more}"
        yield Finding(Status.REGRESSED, line, label, (*details, hints.accept))
    if comparison.fell_back:
        yield Finding(Status.REGRESSED, comparison.not_compared, label, (*details, hints.accept))
    elif comparison.other_source:
        yield Finding(Status.INCONCLUSIVE, comparison.not_compared, label, (*details, hints.accept))
    elif comparison.not_compared:
        yield Finding(Status.NEW, f"{comparison.not_compared}; {hints.no_baseline}", label)
    elif comparison.time is not None and measurement.timing is not None:
        yield from _of_time(comparison, comparison.time, measurement.timing.mode, label, hints)
    elif measurement.timing is not None:
        yield Finding(Status.NEW, f"the baseline has no time yet; {hints.no_baseline}", label)
    remark = machine_moved(comparison)
    if remark:
        yield Finding(Status.PASS, remark, label)
    more_work = [change for change in comparison.work if change.worse]
    if more_work and not moved:
        yield Finding(Status.PASS, f"{more_work[0]} at the same time: an early warning", label)


def _of_time(
    comparison: Comparison, time: TimeComparison, mode: TimingMode, label: str, hints: Hints
) -> Iterator[Finding]:
    details = _details(comparison)
    line = time_line(time, mode)
    closer = () if time.in_turn else (hints.closer,)
    if time.slower:
        because = explanation(comparison)
        if because is not None:
            line = f"{because}: {line}"
        if comparison.same_work:
            details = (*details, "the kernels did the same work: look at the machine, too")
        yield Finding(Status.REGRESSED, line, label, (*details, *closer, hints.accept))
    elif time.faster:
        yield Finding(Status.IMPROVED, line, label, (*details, hints.accept))
    elif time.decision.outcome is Outcome.INCONCLUSIVE:
        more = () if time.in_turn else (hints.more_sessions,)
        yield Finding(Status.INCONCLUSIVE, line, label, (*details, *more, *closer))


def _contradicted(measurement: Measurement, label: str) -> Iterator[Finding]:
    contradiction = tensor_contradiction(measurement)
    if contradiction:
        yield Finding(Status.PASS, contradiction, label)


def _not_in_turn(measurement: Measurement, in_turn: TimeComparison | None, label: str) -> Iterator[Finding]:
    """Why there is no old code to compare with, or what broke while there was."""
    paired = measurement.against
    if paired is not None and (in_turn is None or paired.broken):
        status = Status.INVALID if paired.broken else Status.PASS
        yield Finding(status, f"not compared with {paired.ref}: {paired.reason}", label)


def _without_baseline(measurement: Measurement, label: str, hints: Hints) -> Iterator[Finding]:
    counted = measurement.profile is not None and bool(measurement.profile.combined)
    if counted or measurement.timing is not None or measurement.trace is not None:
        yield Finding(Status.NEW, f"no baseline yet; {hints.no_baseline}", label)


def _picked_otherwise(measurement: Measurement, known: MeasurementBaseline, label: str) -> Iterator[Finding]:
    timing = measurement.timing
    other = autotuned_otherwise(timing, known.time) if timing and known.time else ""
    if other:
        yield Finding(Status.PASS, other, label)


def _crept(pinned: TimeComparison, measurement: Measurement, label: str, hints: Hints) -> Iterator[Finding]:
    """Slower than the pinned sessions, where the newer ones show nothing."""
    if pinned.slower and measurement.timing is not None:
        line = f"{time_line(pinned, measurement.timing.mode)}: small losses have added up"
        yield Finding(Status.REGRESSED, line, label, (hints.accept_pin,))


def _not_measured(measurement: Measurement, known: MeasurementBaseline, label: str) -> Iterator[Finding]:
    profile = measurement.profile
    if profile is None or profile.unavailable or not profile.preset:
        return
    missing = len(known.counters.keys() - profile.combined.keys())
    if missing:
        line = f"{missing} counters of the baseline were not measured (preset {profile.preset})"
        yield Finding(Status.PASS, line, label)


def _details(comparison: Comparison) -> tuple[str, ...]:
    exact = {change.metric for change in comparison.worse_exact}
    changes = sorted(comparison.counters, key=lambda change: change.metric not in exact)
    details = [str(change) for change in changes[:SHOWN_CHANGES]]
    if len(changes) > SHOWN_CHANGES:
        details.append(f"and {len(changes) - SHOWN_CHANGES} more counters")
    if comparison.kernels:
        details.append(comparison.kernels)
    return tuple(details)
