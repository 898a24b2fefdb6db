"""What the verdict says of a time: one line that states actual, baseline and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.judge.compare import negligible
from pytest_gpuperf.records.change import show_pair, show_signed, show_value
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from pytest_gpuperf.judge.compare import Comparison
    from pytest_gpuperf.judge.gate import TimeComparison
    from pytest_gpuperf.records import Measurement, Timing, TimingMode
    from pytest_gpuperf.records.baseline import TimeBaseline
    from pytest_gpuperf.records.change import Change

MOVED_PCT = 1.0
"""A raw time that moves by more, while the normalised one and the work do not, shows that the machine did."""
EXPLAINING = (
    "launches",
    "synchronizations",
    "registers_per_thread",
    "local_spill_instructions",
    "theoretical_occupancy",
    "instructions",
)
"""Counters that are causes, the first the likeliest; then the occupancy and the stalls that follow."""


def time_line(time: TimeComparison, mode: TimingMode) -> str:
    """`time_us 5.43 is 2.1 % slower than the baseline 5.32 (+1.2 to +3.0 %, 5 sessions, hot; …)`."""
    decision = time.decision
    # What logarithms leave behind is no difference.
    actual, expected = show_pair(float(f"{time.actual_us:.6g}"), float(f"{time.baseline_us:.6g}"))
    direction = "slower" if decision.change_pct >= 0 else "faster"
    baseline = f"the baseline {expected}" if not time.against else f"{expected} of {time.against}"
    verdict = {
        Outcome.INCONCLUSIVE: ", too uncertain to be called",
        Outcome.PASS: "",
        Outcome.IMPROVED: "",
        Outcome.REGRESSED: "",
    }[decision.outcome]
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


def machine_moved(comparison: Comparison) -> str:
    """A remark where the raw time moved and the kernel did not; empty elsewhere."""
    time = comparison.time
    if time is None or not time.at_mhz or time.decision.outcome is not Outcome.PASS:
        return ""
    if time.in_turn:
        # Both sides had the same machine.
        return ""
    if comparison.work or comparison.worse_exact or comparison.kernels:
        return ""
    if abs(time.raw_change_pct) <= max(MOVED_PCT, abs(time.decision.change_pct) + MOVED_PCT):
        return ""
    work = ", instructions unchanged" if comparison.same_work else ""
    clocks = f"at {time.actual_mhz:.0f} instead of {time.baseline_mhz:.0f} MHz"
    return (
        f"the machine moved, not the kernel: {show_signed(time.raw_change_pct)} % {clocks}, "
        f"{show_signed(time.decision.change_pct)} % at {time.at_mhz:.0f} MHz{work}"
    )


def autotuned_otherwise(timing: Timing, baseline: TimeBaseline) -> str:
    """A remark where an autotuner picked what it picked in no session; empty elsewhere."""
    sessions = [set(session.autotuned) for session in baseline.sessions]
    new = [picked for picked in timing.autotuned if not any(picked in session for session in sessions)]
    if not new or not any(sessions):
        return ""
    return f"autotune picked {'; '.join(new)}; in the baseline {'; '.join(sorted(sessions[-1]))}"


def tensor_contradiction(measurement: Measurement) -> str:
    """A remark where the tensor pipe's counter denies what names and code of the kernels say; else empty."""
    trace, profile = measurement.trace, measurement.profile
    active = profile.combined.get("tensor_active") if profile is not None else None
    if trace is None or profile is None or not isinstance(active, float | int):
        return ""
    by_name = trace.tensor_core_share_pct
    if active > 0 and not by_name and not trace.tensor_cores_unknown_pct:
        return f"tensor_active is {show_value(active)} %, though no kernel of the trace is named as if it was"
    # A regex may have left out the kernels that do.
    if not active and by_name and not profile.regex:
        said = f"{show_value(by_name)} % of the GPU time is in kernels named as if they used tensor cores"
        return f"{said}, but tensor_active is 0"
    return ""


def _more_stalls(change: Change) -> bool:
    """Whether warps wait more for one reason: no direction is better by itself, but with more time one is."""
    numbers = isinstance(change.actual, float | int) and isinstance(change.baseline, float | int)
    return numbers and change.metric.startswith("stall.") and float(change.actual) > float(change.baseline)


def explanation(comparison: Comparison) -> Change | None:
    """The counter that explains a slower time best; None where none of those that could has worsened."""
    worse = [
        change
        for change in comparison.counters
        if (change.worse or _more_stalls(change)) and not negligible(change)
    ]
    causes = [change for name in EXPLAINING for change in worse if change.metric == name]
    effects = [
        change
        for change in worse
        if change.metric == "achieved_occupancy" or change.metric.startswith(("stall.", "l2_hit", "l1_hit"))
    ]
    return next(iter([*causes, *effects]), None)
