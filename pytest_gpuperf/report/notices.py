"""Notes below the rows: missing counters, doubtful timings, missing baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.judge.counters import LEFT_OUT
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.timing import OTHER_CLIENT
from pytest_gpuperf.report.number_format import count, listed, not_captured
from pytest_gpuperf.report.rows import split_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.report.rows import Summary

SHOWN = 3
"""Maximum number of tests in a notice, and of reasons."""
WITHOUT_CUPTI = "without CUPTI (time by events, counters only by ncu, code of kernels unknown)"


def notices(summary: Summary) -> list[str]:
    """Return one line for each kind of notice, the most serious first."""
    results, replayed = summary.results, summary.replayed_from is not None
    if summary.counters_unavailable:
        lines = [f"no counters: {printable(summary.counters_unavailable)}"]
    else:
        lines = _grouped(results, "without counters", _unread)
    lines.extend(_grouped(results, WITHOUT_CUPTI, _held_by_others))
    lines.extend(_doubt(results, "with other processes on the GPU", _has_neighbours))
    reasons = sorted({reason for result in results for t in _timings(result) for reason in t.held_back})
    when = f"while the clocks were held back ({', '.join(reasons)})"
    lines.extend(_doubt(results, when, lambda timing: bool(timing.held_back)))
    lines.extend(_doubt(results, "before the time was steady", _unsteady))
    graphless = _grouped(results, "timed without a CUDA graph", _not_captured)
    several = _doubt(results, "without a CUDA graph, -v tells why", lambda timing: bool(not_captured(timing)))
    lines.extend(several if len(graphless) > 1 else graphless)
    lines.extend(_grouped(results, "timed without verified outputs", _not_verified))
    lines.extend(_read_otherwise(results))
    lines.extend(_grouped(results, "with a reference that tells little", _low_signals))
    lines.extend(_compiled(list(filter(_is_compiled, results)), updated=summary.updated))
    regressed = sum(result.status is Status.REGRESSED for result in results)
    if regressed > 1 and not (replayed or summary.updated):
        how = "pytest --gpuperf --gpuperf-update=changed NODEID only some"
        lines.append(f"{_tests(regressed)} regressed: gpuperf baseline accept takes over all, {how}")
    new = sum(result.status is Status.NEW and not _is_compiled(result) for result in results)
    if new and not summary.updated:
        how = (
            "gpuperf baseline accept RUN makes one (-v names RUN)"
            if replayed
            else "pytest --gpuperf --gpuperf-update=new, on this GPU, makes one"
        )
        lines.append(f"{_tests(new)} without a baseline: {how}")
    return lines


def _is_compiled(result: TestResult) -> bool:
    kinds = {measurement.is_static for measurement in result.record.measurements.values()}
    return kinds == {True}


def _compiled(results: Sequence[TestResult], *, updated: bool) -> list[str]:
    """Name the compilers, which in a replay are not those of the recording, and count missing baselines."""
    compilers = {
        str(measurement.profile.combined.get("compiler")).partition(",")[0]
        for result in results
        for measurement in result.record.measurements.values()
        if measurement.profile
    }
    if not compilers:
        return []
    lines = [printable(f"{_tests(len(results))} compiled, not run, by {' and '.join(sorted(compilers))}")]
    new = sum(result.status is Status.NEW for result in results)
    if new and not updated:
        how = "pytest --gpuperf --gpuperf-replay=never --gpuperf-update=changed makes one, without a GPU too"
        lines.append(f"{_tests(new)} compiled without a baseline of that compiler: {how}")
    return lines


def _doubt(results: Sequence[TestResult], when: str, applies: Callable[[Timing], bool]) -> list[str]:
    doubtful = [result for result in results if any(map(applies, _timings(result)))]
    return [printable(f"{_tests(len(doubtful))} timed {when}: {_names(doubtful)}")] if doubtful else []


def _read_otherwise(results: Sequence[TestResult]) -> list[str]:
    read = [
        result for result in results if any(finding.line.endswith(LEFT_OUT) for finding in result.findings)
    ]
    what = "with counters of another reader than in the baseline"
    return [printable(f"{_tests(len(read))} {what}: {LEFT_OUT}")] if read else []


def _drifts(results: Sequence[TestResult]) -> list[str]:
    """Name the causes that moved tests alike in turn, with how far, and the one command that renews them."""
    lines = []
    for cause, tests in _by_reason(results, lambda result: [result.drift]):
        moved = [test.times[one.label] for test in tests for one in test.findings if one.drift]
        changes = [abs(time.decision.change_pct) for time in moved]
        least, most = f"{min(changes):.0f}", f"{max(changes):.0f}"
        size = most if least == most else f"{least} to {most}"
        lines.append(printable(f"{_tests(len(tests))} moved by {size} %, {cause} renews them"))
    return lines


def undecided(results: Sequence[TestResult]) -> list[str]:
    """Return the open questions of a run, as the last lines: times that drifted, improved or are doubtful."""
    lines = _drifts(results)
    faster = [result for result in results if result.status is Status.IMPROVED]
    if faster:
        lines.append(f"{_tests(len(faster))} improved: until accepted, a loss of that size passes")
    suspects = [
        result
        for result in results
        if any(finding.status is Status.INCONCLUSIVE for finding in result.findings)
    ]
    slower = sum(result.loss_pct > 0 for result in suspects)
    if slower:
        replayed = any(one.replayed and any(time.suspect for time in one.times.values()) for one in suspects)
        hint = ": pytest --gpuperf on this model of GPU times old and new code in turn" if replayed else ""
        lines.append(f"{count(slower, 'slowdown')} not decided{hint}")
    if len(suspects) > slower:
        lines.append(f"{_tests(len(suspects) - slower)} not decided for other reasons")
    doubted = sum(bool(timing.doubts) for result in results for timing in _timings(result))
    if doubted:
        lines.append(f"{count(doubted, 'time')} doubted")
    return lines


def _timings(result: TestResult) -> Iterable[Timing]:
    return (m.timing for m in result.record.measurements.values() if m.timing)


def _has_neighbours(timing: Timing) -> bool:
    return timing.conditions is not None and timing.conditions.other_processes > 0


def _unsteady(timing: Timing) -> bool:
    return timing.warm_up is not None and not timing.warm_up.steady


def _unread(result: TestResult) -> Iterable[str]:
    profiles = (measurement.profile for measurement in result.record.measurements.values())
    return (one.unavailable for one in profiles if one and OTHER_CLIENT not in one.unavailable)


def _not_captured(result: TestResult) -> Iterable[str]:
    return map(": ".join, map(not_captured, _timings(result)))


def _grouped(
    results: Sequence[TestResult], what: str, reasons_of: Callable[[TestResult], Iterable[str]]
) -> list[str]:
    by_count = _by_reason(results, reasons_of)
    lines = [
        printable(f"{_tests(len(tests))} {what}: {_names(tests)}: {reason}")
        for reason, tests in by_count[:SHOWN]
    ]
    rest = {test.record.nodeid for _, tests in by_count[SHOWN:] for test in tests}
    return [*lines, f"{_tests(len(rest))} {what}, for other reasons"] if rest else lines


def _held_by_others(result: TestResult) -> Iterable[str]:
    for found in result.record.measurements.values():
        reasons = [found.timing.not_recorded, found.timing.not_compared] if found.timing else []
        reasons += [part.unavailable for part in (found.profile, found.code) if part is not None]
        yield from (reason.partition(";")[0] for reason in reasons if OTHER_CLIENT in reason)


def _not_verified(result: TestResult) -> Iterable[str]:
    return (one.verification.not_verified for one in _timings(result) if one.verification)


def _low_signals(result: TestResult) -> Iterable[str]:
    checks = (measurement.correctness for measurement in result.record.measurements.values())
    return (check.low_signal for check in checks if check is not None and check.passed)


def _by_reason(
    results: Sequence[TestResult], reasons_of: Callable[[TestResult], Iterable[str]]
) -> list[tuple[str, list[TestResult]]]:
    """Group tests by their reasons, the reason of most tests first."""
    tests_of: dict[str, list[TestResult]] = {}
    for result in results:
        for reason in dict.fromkeys(filter(None, reasons_of(result))):
            tests_of.setdefault(reason, []).append(result)
    return sorted(tests_of.items(), key=lambda entry: -len(entry[1]))


def _tests(number: int) -> str:
    return count(number, "test")


def _names(results: Sequence[TestResult]) -> str:
    _, names = split_names([result.record.nodeid for result in results])
    return listed(names, SHOWN)
