"""What a reader must know besides the rows: missing counters, doubtful timings, missing baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.report.rows import printable, split_names
from pytest_gpuperf.verdict.result import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.verdict.result import TestResult

SHOWN = 3
"""Tests that a notice names, and reasons for missing counters, before it says how many more there are."""


def notices(results: Sequence[TestResult], counters_unavailable: str, *, replayed: bool) -> list[str]:
    """One line for each kind of thing to know, the most serious first."""
    lines = [f"no counters: {printable(counters_unavailable)}"] if counters_unavailable else []
    if not counters_unavailable:
        lines.extend(_missing_profiles(results))
    lines.extend(
        _doubt(results, "with other processes on the GPU", lambda timing: _other_processes(timing) > 0)
    )
    reasons = sorted(
        {reason for result in results for timing in _timings(result) for reason in _throttled(timing)}
    )
    lines.extend(
        _doubt(
            results, f"while the clocks were held back ({', '.join(reasons)})", lambda t: bool(_throttled(t))
        )
    )
    lines.extend(_doubt(results, "before the time was steady", _unsteady))
    new = sum(result.verdict.status is Status.UNBASELINED for result in results)
    if new:
        how = (
            "gpuperf baseline accept RUN takes what that run measured"
            if replayed
            else "pytest --gpuperf --gpuperf-update=new, on this GPU, makes one"
        )
        lines.append(f"{_tests(new)} without a baseline: {how}")
    return lines


def _doubt(results: Sequence[TestResult], when: str, applies: Callable[[Timing], bool]) -> list[str]:
    doubtful = [result for result in results if any(map(applies, _timings(result)))]
    return [printable(f"{_tests(len(doubtful))} timed {when}: {_names(doubtful)}")] if doubtful else []


def _timings(result: TestResult) -> Iterable[Timing]:
    return (m.timing for m in result.record.measurements.values() if m.timing)


def _other_processes(timing: Timing) -> int:
    return timing.conditions.other_processes if timing.conditions else 0


def _throttled(timing: Timing) -> tuple[str, ...]:
    return timing.conditions.throttle_reasons if timing.conditions else ()


def _unsteady(timing: Timing) -> bool:
    return timing.warm_up is not None and not timing.warm_up.steady


def _missing_profiles(results: Sequence[TestResult]) -> list[str]:
    tests_of: dict[str, list[TestResult]] = {}
    for result in results:
        profiles = [m.profile for m in result.record.measurements.values() if m.profile]
        for reason in {profile.unavailable for profile in profiles if profile.unavailable}:
            tests_of.setdefault(reason, []).append(result)
    by_count = sorted(tests_of.items(), key=lambda entry: -len(entry[1]))
    lines = [printable(f"no counters for {_names(tests)}: {reason}") for reason, tests in by_count[:SHOWN]]
    rest = sum(len(tests) for _, tests in by_count[SHOWN:])
    return [*lines, f"no counters for {_tests(rest)} more, for other reasons"] if rest else lines


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count:,} tests"


def _names(results: Sequence[TestResult]) -> str:
    _, names = split_names([result.record.nodeid for result in results])
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")
