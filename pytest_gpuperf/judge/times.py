"""Judgement of a time next to its baseline, and the findings from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.judge.result import Finding, Hints, Status
from pytest_gpuperf.judge.screen import screen
from pytest_gpuperf.judge.settlement import NOT_SETTLED, compare_restarts, judge_suspect
from pytest_gpuperf.records.change import show_pair, show_signed, show_value
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.judge.origin import Origin
    from pytest_gpuperf.judge.screen import TimeComparison
    from pytest_gpuperf.records import LaunchedCode, Measurement, Settlement, Timing, TimingMode
    from pytest_gpuperf.records.baseline import MeasurementBaseline, TimeBaseline

NO_HINTS = Hints()
_REPLICATES = {"screen": "stored session", "in turn": "restart", "fresh": "fresh process"}


def judge_time(
    measurement: Measurement,
    baseline: MeasurementBaseline,
    origin: Origin,
    tolerance_pct: float,
    label: str = "",
    hints: Hints = NO_HINTS,
) -> tuple[TimeComparison | None, Finding | None]:
    """Judge a time by the old code that the user named, or else by the screen and the settlement.

    Args:
        measurement: The measured values.
        baseline: The expected values.
        origin: Where both are from.
        tolerance_pct: Slowdown that is accepted, in %.
        label: Name of the measurement, for the finding.
        hints: Commands to type next, for the finding.

    Returns:
        The comparison with the outcome, None if it was compared with nothing; and what there is to say of it.
    """
    settlement, timing, known = measurement.settlement, measurement.timing, baseline.time
    against = settlement.against if settlement is not None else None
    time, drift = None, ""
    if timing is None:
        return None, None
    if settlement is not None and not settlement.sessions:
        time = compare_restarts(against, tolerance_pct) if against is not None else None
        if time is None:
            of = against.ref if against is not None else "old code"
            status = Status.NEW if known is None else Status.INCONCLUSIVE
            return None, Finding(status, f"not compared with {of}: {settlement.reason}", label)
    elif known is not None:
        time = screen(timing, known, origin, tolerance_pct)
        calls = (measurement.call, baseline.call)
        if time is None:
            return None, _not_compared(timing, known, label, hints)
        if calls[0] is not None and calls[1] is not None and (other := calls[0].difference(calls[1])):
            line = f"another call than the baseline's: {other}"
            return None, Finding(Status.INCONCLUSIVE, line, label, (), hints.accept)
        if time.outcome is not Outcome.PASS:
            time, drift = _settled(time, settlement, known, baseline.code, origin, tolerance_pct)
    if time is None or (time.outcome is Outcome.PASS and not time.why):
        return time, None
    step = hints.accept if drift or time.outcome is not Outcome.PASS else ""
    return time, Finding(Status(time.outcome.value), time_line(time, timing.mode), label, (), step, drift)


def _settled(
    time: TimeComparison,
    settlement: Settlement | None,
    known: TimeBaseline,
    code: LaunchedCode | None,
    origin: Origin,
    tolerance_pct: float,
) -> tuple[TimeComparison, str]:
    """Judge a suspect by its settlement, unless that is of other sessions."""
    if settlement is None or not {one.run for one in known.sessions}.issuperset(settlement.sessions):
        return replace(time, why=(NOT_SETTLED,), suspect=True), ""
    return judge_suspect(
        time,
        settlement,
        origin.differences(known.sessions),
        tolerance_pct,
        known_code=code is not None and bool(code.kernels) and all(kernel.code for kernel in code.kernels),
        by_host=known.mode == "host",
    )


def _not_compared(timing: Timing, known: TimeBaseline, label: str, hints: Hints) -> Finding:
    """Say why a time is another quantity than that of the baseline."""
    if timing.not_captured and known.mode in ("hot", "cold"):
        now = f"measured {timing.mode} (cannot be captured: {timing.not_captured})"
        line = f"the time could not be compared: {now}, the baseline is {known.mode}"
        return Finding(Status.REGRESSED, line, label, (), hints.accept)
    if timing.not_captured and timing.not_recorded:
        line = f"the time was taken {timing.mode} ({timing.not_recorded}): not compared"
    elif timing.mode == known.mode:
        why = f" ({timing.not_recorded})" if timing.not_recorded else ""
        line = f"the time is by {timing.source}{why}, the baseline's by {known.source}: not compared"
    else:
        line = f"the time was taken {timing.mode}, the baseline's {known.mode}: not compared"
        return Finding(Status.NEW, f"{line}; {hints.no_baseline}", label)
    return Finding(Status.INCONCLUSIVE, line, label, (), hints.accept)


def time_remarks(
    timing: Timing | None, known: TimeBaseline | None, time: TimeComparison | None
) -> Iterator[str]:
    """Say of a time what is not judged: the host, the clock, and what an autotuner picked.

    Args:
        timing: The new time.
        known: The stored sessions.
        time: The comparison of both.
    """
    if timing is not None:
        remarks = (_host(timing, known), _machine_moved(time), _autotuned_otherwise(timing, known))
        yield from filter(None, remarks)


def time_line(time: TimeComparison, mode: TimingMode) -> str:
    """Return `49.4 % slower: 66.8 → 99.8 µs (48.8 to 50.0 %; in turn, 2 restarts, old code 1a2b3c4)`."""
    decision = time.decision
    # Logarithms and back leave a difference in the last digits.
    actual, expected = show_pair(float(f"{time.actual_us:.6g}"), float(f"{time.baseline_us:.6g}"))
    slower = decision.change_pct >= 0
    low, high = (decision.low_pct, decision.high_pct) if slower else (-decision.high_pct, -decision.low_pct)
    unit = "µs" if mode == "hot" else f"µs {mode}"
    return (
        f"{abs(decision.change_pct):.1f} % {'slower' if slower else 'faster'}: {expected} → {actual} {unit} "
        f"({low:.1f} to {high:.1f} %; {', '.join((*_how(time), *time.why))})"
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


def _machine_moved(time: TimeComparison | None) -> str:
    """Return a remark if a time is within the screen at one clock only; else an empty text."""
    if time is None or time.how != "screen" or not time.at_mhz or time.outcome is not Outcome.PASS:
        return ""
    decision, raw_pct = time.decision, time.raw_change_pct
    if abs(raw_pct) <= max(decision.high_pct - decision.low_pct, 2 * abs(decision.change_pct)):
        return ""
    return (
        f"the machine moved, not the kernel: {show_signed(raw_pct)} % at {time.actual_mhz:.0f} instead of "
        f"{time.baseline_mhz:.0f} MHz, {show_signed(decision.change_pct)} % at {time.at_mhz:.0f} MHz"
    )


def _host(timing: Timing, baseline: TimeBaseline | None) -> str:
    """Return a remark on the time of the host with its noise; empty if it was not taken.

    Processes differ by more than the blocks of one of them, and nothing is concluded from them.
    """
    single = timing.single_call
    if single is None or single.host_us is None:
        return ""
    known = [session.host_us for session in (baseline.sessions if baseline else ()) if session.host_us]
    stored = f"; {show_value(known[-1])} µs in the baseline" if known else ""
    noise = f"±{(single.host_spread_pct or 0) / 2:.0f} % within this process"
    return f"the host takes {show_value(single.host_us)} µs a call ({noise}{stored}), which is not judged"


def _autotuned_otherwise(timing: Timing, baseline: TimeBaseline | None) -> str:
    """Return a remark if an autotuner picked a new configuration; else an empty text."""
    sessions = [set(session.autotuned) for session in baseline.sessions] if baseline is not None else []
    new = [picked for picked in timing.autotuned if not any(picked in session for session in sessions)]
    if not new or not any(sessions):
        return ""
    return f"autotune picked {'; '.join(new)}; in the baseline {'; '.join(sorted(sessions[-1]))}"
