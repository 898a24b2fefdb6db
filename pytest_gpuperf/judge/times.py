"""Time of a measurement compared with its baseline, and the findings from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.judge.code import compare_code
from pytest_gpuperf.judge.counters import CounterComparison
from pytest_gpuperf.judge.result import Finding, Status, Suspect
from pytest_gpuperf.judge.screen import TimeComparison, screen
from pytest_gpuperf.judge.settlement import Judgement, compare_restarts, judge_suspect
from pytest_gpuperf.records.baseline import MeasurementBaseline
from pytest_gpuperf.records.change import show_pair, show_signed, show_value
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.judge.code import CodeComparison
    from pytest_gpuperf.judge.origin import Origin
    from pytest_gpuperf.judge.result import Hints
    from pytest_gpuperf.records import Measurement, Timing, TimingMode
    from pytest_gpuperf.records.baseline import TimeBaseline
    from pytest_gpuperf.records.change import Change

MOVED_PCT = 1.0
"""Change of the raw time, in % beyond that of the normalised one, that shows that the machine has changed."""
_STATUS = {
    Outcome.REGRESSED: Status.REGRESSED,
    Outcome.IMPROVED: Status.IMPROVED,
    Outcome.INCONCLUSIVE: Status.INCONCLUSIVE,
    Outcome.PASS: Status.PASS,
}
_REPLICATES = {"screen": "stored session", "in turn": "restart", "fresh": "fresh process"}


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
        undecided = self.time is not None and self.time.decision.outcome is not Outcome.PASS
        return bool(undecided or self.fell_back or found.changes or found.kernels)


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
        time: The time compared with its baseline by `judgement_of`; None if there is none to compare.
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


def judgement_of(
    measurement: Measurement, baseline: MeasurementBaseline, origin: Origin, tolerance_pct: float
) -> Judgement | None:
    """Judge a time by the old code that the user named, or else by the screen and the settlement.

    Args:
        measurement: The measured values.
        baseline: The expected values.
        origin: Where both are from.
        tolerance_pct: Slowdown that is accepted, in %.

    Returns:
        None if it is compared with nothing.
    """
    settlement, timing, known = measurement.settlement, measurement.timing, baseline.time
    if settlement is not None and not settlement.sessions:
        turn = compare_restarts(settlement.against, tolerance_pct) if settlement.against is not None else None
        return Judgement(turn) if turn is not None else None
    time = screen(timing, known, origin, tolerance_pct) if timing is not None and known is not None else None
    if time is None or known is None or time.decision.outcome is Outcome.PASS:
        return Judgement(time) if time is not None else None
    if settlement is not None and not {session.run for session in known.sessions}.issuperset(
        settlement.sessions
    ):
        settlement = None
    code = baseline.code
    known_code = code is not None and bool(code.kernels) and all(kernel.code for kernel in code.kernels)
    differences = origin.differences(known.sessions)
    by_host = known.mode == "host"
    return judge_suspect(time, settlement, differences, tolerance_pct, known_code=known_code, by_host=by_host)


class TimeVerdict(msgspec.Struct, frozen=True, gc=False):
    """Verdict on the time of one measurement."""

    time: TimeComparison | None = None
    """None if it was compared with nothing."""
    moved: bool = False
    """True if the time has regressed or improved."""
    findings: tuple[Finding, ...] = ()
    suspect: Suspect | None = None
    """None if nothing is to be settled."""


def judge_time(
    label: str,
    measurement: Measurement,
    baseline: MeasurementBaseline | None,
    counters: CounterComparison,
    origin: Origin,
    tolerance_pct: float,
    hints: Hints,
) -> TimeVerdict:
    """Judge a time, and say why.

    Args:
        label: Name of the measurement.
        measurement: The measured values.
        baseline: The expected values; None if there are none.
        counters: The counters compared with their baseline.
        origin: Where both are from.
        tolerance_pct: Slowdown that is accepted, in %.
        hints: Commands to type next.
    """
    known = baseline or MeasurementBaseline()
    settlement, timing = measurement.settlement, measurement.timing
    judgement = judgement_of(measurement, known, origin, tolerance_pct)
    named = settlement is not None and not settlement.sessions
    if settlement is not None and named and judgement is None:
        ref = settlement.against.ref if settlement.against is not None else "old code"
        status = Status.NEW if baseline is None else Status.INCONCLUSIVE
        line = f"not compared with {ref}: {settlement.reason}"
        return TimeVerdict(findings=(Finding(status, line, label),))
    if timing is None or (baseline is None and judgement is None):
        return TimeVerdict()
    other = (
        ""
        if named or known.call is None or measurement.call is None
        else measurement.call.difference(known.call)
    )
    if other and judgement is not None:
        line = f"another call than the baseline's: {other}"
        finding = Finding(Status.INCONCLUSIVE, line, label, next_step=hints.accept)
        return TimeVerdict(findings=(finding,))
    time = judgement.time if judgement is not None else None
    comparison = compare_time(measurement, known, counters, time)
    code = compare_code(measurement.code, known.code)
    findings = list(_time_findings(comparison, judgement, timing.mode, label, hints, code))
    remarks = (
        _host(timing, known.time),
        _machine_moved(comparison),
        _autotuned_otherwise(timing, known.time),
    )
    findings += [Finding(Status.PASS, remark, label) for remark in remarks if remark]
    suspect = None
    if judgement is not None and judgement.suspect:
        suspect = Suspect(label, judgement.time.decision.change_pct)
    return TimeVerdict(time, comparison.slower or comparison.faster, tuple(findings), suspect)


def _time_findings(
    comparison: BaselineComparison,
    judgement: Judgement | None,
    mode: TimingMode,
    label: str,
    hints: Hints,
    code: CodeComparison,
) -> Iterator[Finding]:
    counters = comparison.counters
    if comparison.fell_back:
        line = comparison.not_compared
        yield Finding(Status.REGRESSED, line, label, counters.details, hints.accept)
    elif comparison.other_source:
        yield Finding(Status.INCONCLUSIVE, comparison.not_compared, label, counters.details, hints.accept)
    elif comparison.not_compared:
        yield Finding(Status.NEW, f"{comparison.not_compared}; {hints.no_baseline}", label)
    elif judgement is None:
        yield Finding(Status.NEW, f"the baseline has no time yet; {hints.no_baseline}", label)
    elif judgement.why or judgement.time.decision.outcome is not Outcome.PASS:
        status, line = (
            _STATUS[judgement.time.decision.outcome],
            time_line(judgement.time, mode, judgement.why),
        )
        details = (*code.differences, *counters.details)
        if status is Status.PASS:
            step = hints.accept if judgement.drift else ""
            yield Finding(status, line, label, (), step, judgement.drift)
        else:
            yield Finding(status, line, label, details, hints.accept)


def time_line(time: TimeComparison, mode: TimingMode, why: tuple[str, ...] = ()) -> str:
    """Return `49.4 % slower: 66.8 → 99.8 µs (48.8 to 50.0 %; in turn, 2 restarts, old code 1a2b3c4)`."""
    decision = time.decision
    # Logarithms and back leave a difference in the last digits.
    actual, expected = show_pair(float(f"{time.actual_us:.6g}"), float(f"{time.baseline_us:.6g}"))
    slower = decision.change_pct >= 0
    low, high = (decision.low_pct, decision.high_pct) if slower else (-decision.high_pct, -decision.low_pct)
    unit = "µs" if mode == "hot" else f"µs {mode}"
    return (
        f"{abs(decision.change_pct):.1f} % {'slower' if slower else 'faster'}: {expected} → {actual} {unit} "
        f"({low:.1f} to {high:.1f} %; {', '.join((*_how(time), *why))})"
    )


def _how(time: TimeComparison) -> Iterator[str]:
    decision, replicate = time.decision, _REPLICATES[time.how]
    ending = "" if decision.replicates == 1 else "es" if replicate.endswith("s") else "s"
    if time.in_turn:
        yield "in turn"
    yield f"{decision.replicates} {replicate}{ending}"
    if time.in_turn:
        yield f"old code {time.against}"
    if decision.as_measured:
        yield f"at {time.actual_mhz:.0f} instead of {time.baseline_mhz:.0f} MHz"
    if decision.new_card:
        yield "on a card that the baseline has not seen"


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
