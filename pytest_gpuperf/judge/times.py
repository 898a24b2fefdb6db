"""Time of a measurement compared with its baseline, and the findings from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.judge.code import LOOK_AT_MACHINE, CodeComparison, compare_code
from pytest_gpuperf.judge.counters import CounterComparison
from pytest_gpuperf.judge.gate import TimeComparison, compare_restarts
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.records.baseline import MeasurementBaseline
from pytest_gpuperf.records.change import show_pair, show_signed, show_value
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.judge.gate import Gate
    from pytest_gpuperf.judge.result import Hints
    from pytest_gpuperf.records import Measurement, Timing, TimingMode
    from pytest_gpuperf.records.baseline import TimeBaseline
    from pytest_gpuperf.records.change import Change

MOVED_PCT = 1.0
"""Change of the raw time, in % beyond that of the normalised one, that shows that the machine has changed."""


class BaselineComparison(msgspec.Struct, frozen=True, gc=False):
    """A measurement compared with its baseline."""

    counters: CounterComparison
    time: TimeComparison | None = None
    """None if one side has no time of that mode and source."""
    not_compared: str = ""
    """Why the times were not compared; empty if they were, or if one side has none."""
    fell_back: bool = False
    """True if the reason is that the callable can no longer be captured: a regression."""
    other_source: bool = False
    """True if the reason is that the source of the baseline's time did not measure this one."""

    @property
    def slower(self) -> bool:
        """True if the time has regressed."""
        return self.time is not None and self.time.slower

    @property
    def faster(self) -> bool:
        """True if the time has improved."""
        return self.time is not None and self.time.faster

    @property
    def worse_exact(self) -> tuple[Change, ...]:
        """Changes of counters that are regressions: none if the time improved."""
        return () if self.faster else self.counters.worse_exact

    @property
    def moved(self) -> bool:
        """True if anything is beyond its tolerance; a time of another mode that was asked for is not."""
        found = self.counters
        return bool(self.slower or self.faster or self.fell_back or found.changes or found.kernels)


def compare_time(
    measurement: Measurement,
    baseline: MeasurementBaseline,
    counters: CounterComparison,
    time: TimeComparison | None,
) -> BaselineComparison:
    """Add the time to the counters of a measurement compared with its baseline.

    Args:
        measurement: The measured values.
        baseline: The expected values.
        counters: The counters compared with their baseline.
        time: The time compared with its baseline by a `Gate`; None if there is none to compare.
    """
    timing, known = measurement.timing, baseline.time
    if time is not None or timing is None or known is None:
        return BaselineComparison(counters, time)
    if timing.not_captured and known.mode in ("hot", "cold"):
        now = f"measured {timing.mode} (cannot be captured: {timing.not_captured})"
        reason = f"the time could not be compared: {now}, the baseline is {known.mode}"
        return BaselineComparison(counters, not_compared=reason, fell_back=True)
    if timing.not_captured and timing.not_recorded:
        reason = f"the time was taken {timing.mode} ({timing.not_recorded}): not compared"
        return BaselineComparison(counters, not_compared=reason, other_source=True)
    if timing.mode == known.mode:
        why = f" ({timing.not_recorded})" if timing.not_recorded else ""
        reason = f"the time is by {timing.source}{why}, the baseline's by {known.source}: not compared"
        return BaselineComparison(counters, not_compared=reason, other_source=True)
    reason = f"the time was taken {timing.mode}, the baseline's {known.mode}: not compared"
    return BaselineComparison(counters, not_compared=reason)


class TimeVerdict(msgspec.Struct, frozen=True, gc=False):
    """Verdict on the time of one measurement."""

    time: TimeComparison | None = None
    """None if it was compared with nothing."""
    moved: bool = False
    """True if the time has regressed or improved."""
    findings: tuple[Finding, ...] = ()


def judge_time(
    key: tuple[str, str],
    measurement: Measurement,
    baseline: MeasurementBaseline | None,
    counters: CounterComparison,
    gate: Gate | None,
    tolerance_pct: float,
    hints: Hints,
    earlier: Callable[[], Measurement | None] = lambda: None,
) -> TimeVerdict:
    """Judge a time by the restarts of old code in turn, or else by the sessions of its baseline.

    Args:
        key: Test and label.
        measurement: The measured values.
        baseline: The expected values; None if there are none.
        counters: The counters compared with their baseline.
        gate: Compares with the sessions; None for a test that was only compiled.
        tolerance_pct: Slowdown that is accepted, in %.
        hints: Commands to type next.
        earlier: Returns the measurement of the run before this one, which was another process.
    """
    settlement, timing, label = measurement.settlement, measurement.timing, key[1]
    against = settlement.against if settlement is not None else None
    findings: list[Finding] = []
    # Old code in turn needs no stored sessions, and is judged more sharply than by any of them.
    time = compare_restarts(against, tolerance_pct) if against is not None else None
    if settlement is not None and against is not None and time is None:
        line = f"not compared with {against.ref}: {settlement.reason}"
        findings.append(Finding(Status.INCONCLUSIVE, line, label))
    if baseline is None and time is None:
        return TimeVerdict(findings=tuple(findings))
    baseline = baseline or MeasurementBaseline()
    if timing is not None and gate is not None:
        time = time or gate.compare(key, timing, tolerance_pct)
    comparison = compare_time(measurement, baseline, counters, time)
    code = compare_code(measurement.code, baseline.code)
    moved = comparison.slower or comparison.faster
    doubted = moved and code.same and time is not None and not time.in_turn
    if doubted and time is not None and gate is not None:
        before = earlier()
        direction = time.decision.outcome
        moved = before is not None and _confirms(key, before, baseline, gate, tolerance_pct, direction)
    if timing is not None and time is not None and doubted and not moved:
        line = f"{time_line(time, timing.mode)}; {code.line}{LOOK_AT_MACHINE}"
        details = (*counters.details, hints.again, hints.closer)
        findings.append(Finding(Status.INCONCLUSIVE, line, label, details))
    elif timing is not None:
        findings += _time_findings(comparison, timing, baseline.time, label, hints, code)
    return TimeVerdict(comparison.time, moved, tuple(findings))


def _confirms(
    key: tuple[str, str],
    before: Measurement,
    baseline: MeasurementBaseline,
    gate: Gate,
    tolerance_pct: float,
    direction: Outcome,
) -> bool:
    """Return True if another process was slower, or faster, than the baseline too, with the same code."""
    timing = before.timing
    if timing is None or not compare_code(before.code, baseline.code).same:
        return False
    time = gate.compare(key, timing, tolerance_pct)
    return time is not None and time.decision.outcome is direction


def _time_findings(
    comparison: BaselineComparison,
    timing: Timing,
    baseline: TimeBaseline | None,
    label: str,
    hints: Hints,
    code: CodeComparison,
) -> Iterator[Finding]:
    if comparison.fell_back:
        details = (*comparison.counters.details, hints.accept)
        yield Finding(Status.REGRESSED, comparison.not_compared, label, details)
    elif comparison.other_source:
        details = (*comparison.counters.details, hints.accept)
        yield Finding(Status.INCONCLUSIVE, comparison.not_compared, label, details)
    elif comparison.not_compared:
        yield Finding(Status.NEW, f"{comparison.not_compared}; {hints.no_baseline}", label)
    elif comparison.time is not None:
        yield from _of_time(comparison.counters, comparison.time, timing.mode, label, hints, code)
    else:
        yield Finding(Status.NEW, f"the baseline has no time yet; {hints.no_baseline}", label)
    remarks = (_host(timing, baseline), _machine_moved(comparison), _autotuned_otherwise(timing, baseline))
    for remark in remarks:
        if remark:
            yield Finding(Status.PASS, remark, label)


def _of_time(
    counters: CounterComparison,
    time: TimeComparison,
    mode: TimingMode,
    label: str,
    hints: Hints,
    code: CodeComparison,
) -> Iterator[Finding]:
    if time.decision.outcome is Outcome.PASS:
        return
    details, line = (*counters.details, *code.differences), time_line(time, mode)
    if code.same and not time.in_turn:
        details = (*details, f"{code.line}{LOOK_AT_MACHINE}")
    closer = () if time.in_turn else (hints.closer,)
    if time.slower:
        if counters.explanation:
            line = f"{counters.explanation}: {line}"
        if counters.same_work and not code.same:
            details = (*details, "the kernels did the same work: look at the machine, too")
        yield Finding(Status.REGRESSED, line, label, (*details, *closer, hints.accept))
    elif time.faster:
        yield Finding(Status.IMPROVED, line, label, (*details, hints.accept))
    elif time.decision.outcome is Outcome.INCONCLUSIVE:
        more = () if time.in_turn else (hints.more_sessions,)
        yield Finding(Status.INCONCLUSIVE, line, label, (*details, *more, *closer))


def time_line(time: TimeComparison, mode: TimingMode) -> str:
    """Return `time_us 5.43 is 2.1 % slower than the baseline 5.32 (+1.2 to +3.0 %, 5 sessions, hot, …)`."""
    decision = time.decision
    # Logarithms and back leave a difference in the last digits.
    actual, expected = show_pair(float(f"{time.actual_us:.6g}"), float(f"{time.baseline_us:.6g}"))
    direction = "slower" if decision.change_pct >= 0 else "faster"
    baseline = f"the baseline {expected}" if not time.against else f"{expected} of {time.against}"
    verdict = ", too uncertain to be called" if decision.outcome is Outcome.INCONCLUSIVE else ""
    return (
        f"time_us {actual} is {abs(decision.change_pct):.1f} % {direction} than {baseline}{verdict} "
        f"({', '.join(_how(time, mode))})"
    )


def _how(time: TimeComparison, mode: TimingMode) -> list[str]:
    decision = time.decision
    replicate = "restart" if time.in_turn else "session"
    several = "" if decision.replicates == 1 else "s"
    parts = [
        f"{show_signed(decision.low_pct)} to {show_signed(decision.high_pct)} %",
        f"detects {decision.detectable_pct:.1f} % and more",
        f"{decision.replicates} {replicate}{several}",
        mode,
    ]
    if time.at_mhz:
        parts.append(f"at {time.at_mhz:.0f} MHz")
    elif decision.as_measured:
        parts.append(f"at {time.actual_mhz:.0f} instead of {time.baseline_mhz:.0f} MHz")
    if decision.new_card:
        parts.append("on a card that the baseline has not seen")
    return parts


def _machine_moved(comparison: BaselineComparison) -> str:
    """Return a remark if the raw time moved and the kernel did not; else an empty text."""
    time, counters = comparison.time, comparison.counters
    # In turn, both sides had the same machine.
    if time is None or not time.at_mhz or time.in_turn or time.decision.outcome is not Outcome.PASS:
        return ""
    if counters.work or counters.worse_exact or counters.kernels:
        return ""
    if abs(time.raw_change_pct) <= max(MOVED_PCT, abs(time.decision.change_pct) + MOVED_PCT):
        return ""
    work = ", instructions unchanged" if counters.same_work else ""
    clocks = f"at {time.actual_mhz:.0f} instead of {time.baseline_mhz:.0f} MHz"
    return (
        f"the machine moved, not the kernel: {show_signed(time.raw_change_pct)} % {clocks}, "
        f"{show_signed(time.decision.change_pct)} % at {time.at_mhz:.0f} MHz{work}"
    )


def _host(timing: Timing, baseline: TimeBaseline | None) -> str:
    """Return a remark on the time of the host with its noise; empty if it was not taken.

    Processes differ by more than the blocks of one of them, and nothing is concluded from them.
    """
    if not timing.host_us:
        return ""
    known = sorted(session.host_us for session in (baseline.sessions if baseline else ()) if session.host_us)
    sessions = ""
    if known:
        several = f"{show_value(known[0])} to {show_value(known[-1])} µs in {len(known)} sessions"
        sessions = "; " + (several if len(known) > 1 else f"{show_value(known[0])} µs in the baseline")
    noise = f"±{timing.host_spread_pct / 2:.0f} % within this process"
    return f"the host takes {show_value(timing.host_us)} µs a call ({noise}{sessions}), which is not judged"


def _autotuned_otherwise(timing: Timing, baseline: TimeBaseline | None) -> str:
    """Return a remark if an autotuner picked a new configuration; else an empty text."""
    sessions = [set(session.autotuned) for session in baseline.sessions] if baseline is not None else []
    new = [picked for picked in timing.autotuned if not any(picked in session for session in sessions)]
    if not new or not any(sessions):
        return ""
    return f"autotune picked {'; '.join(new)}; in the baseline {'; '.join(sorted(sessions[-1]))}"
