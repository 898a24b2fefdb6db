"""Facts about one measurement as pairs of a name and a text; a fact that is not known is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.records.change import show_value
from pytest_gpuperf.report.number_format import (
    count,
    fuzz_line,
    not_captured,
    show_accuracy,
    show_compiled,
    show_in_turn,
    show_rate,
    show_reader,
    show_size,
    show_time,
    show_timing,
)
from pytest_gpuperf.report.terminal_table import clock_line, first_calls_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from pytest_gpuperf.records import Correctness, Measurement, Profile, SanitizerResult, Timing
    from pytest_gpuperf.records.ranks import RankTimes

    Facts: TypeAlias = Iterator[tuple[str, str]]


def facts_of(measurement: Measurement, sanitizer: SanitizerResult | None) -> list[tuple[str, str]]:
    """Return the known facts about a measurement.

    Args:
        measurement: The measurement.
        sanitizer: What compute-sanitizer found in its test; None if the test did not run under it.
    """
    found = [
        *(_of_timing(measurement.timing) if measurement.timing else ()),
        *(_of_check(measurement.correctness) if measurement.correctness else ()),
        *([("fuzz", fuzz_line(measurement.fuzz).removeprefix("fuzz: "))] if measurement.fuzz else ()),
        *([("in turn", show_in_turn(measurement.in_turn))] if measurement.in_turn else ()),
        *(_of_sanitizer(sanitizer) if sanitizer else ()),
        *(_of_profile(measurement.profile, compiled=measurement.is_static) if measurement.profile else ()),
    ]
    return [(name, text) for name, text in found if text]


def _of_timing(timing: Timing) -> Facts:
    blocks = count(len(timing.blocks_us), "block")
    calls = count(timing.calls_per_block, "call")
    yield "time", f"{show_timing(timing)}, by {timing.source}, {blocks} of {calls}"
    yield "SM clock", clock_line(timing)
    yield "not captured", ": ".join(not_captured(timing))
    yield "rate", show_rate(timing)
    if timing.ranks is not None:
        yield count(len(timing.ranks.ranks), "rank"), _ranks(timing.ranks)
        yield "communication", _communication(timing.ranks)
    work = [show_size(timing.bytes)] if timing.bytes else []
    work += [f"{timing.flops:.3g} operations"] if timing.flops else []
    yield "work of a call", " and ".join(work)
    if (single := timing.single_call) is not None and single.host_us is not None:
        noise = f"±{(single.host_spread_pct or 0) / 2:.0f} % within this process"
        yield "host", f"{show_time(single.host_us)} a call ({noise}), which is not judged"
    if state := timing.conditions:
        parts = [f"{state.temperature_c} °C" if state.temperature_c else ""]
        parts += [f"{state.power_w:.0f} W" if state.power_w else ""]
        parts += [f"held back by {', '.join(timing.held_back)}" if timing.held_back else ""]
        others = count(state.other_processes, "other process", "other processes")
        parts += [f"{others} on the GPU" if state.other_processes else ""]
        yield "state of the GPU", ", ".join(filter(None, parts))
    if verified := timing.verification:
        calls = count(verified.calls, "timed call")
        yield "timed outputs", verified.not_verified or f"{calls} checked again, on other values"
        yield "doubted", "; ".join(timing.doubts)
    yield "first calls", first_calls_line(timing)
    yield "autotuned", "; ".join(timing.autotuning.chosen)
    if timing.conditions is not None:
        yield "measured again", "; ".join(timing.conditions.measured_again)


def _ranks(ranks: RankTimes) -> str:
    """Show the times of the ranks of a call: `12.1 µs to 12.4 µs, median 12.2 µs, skew 0.30 µs`."""
    times = f"{show_time(ranks.smallest_us)} to {show_time(ranks.largest_us)}"
    late = ", with launches: the host was late" if ranks.late else ""
    return f"{times}, median {show_time(ranks.median_us)}, skew {show_time(ranks.skew_us)}{late}"


def _communication(ranks: RankTimes) -> str:
    """Show what the GPU of the rank with the most exposed communication did; empty if not recorded."""
    most = max(ranks.ranks, key=lambda one: one.exposed_us)
    if not most.gpu_busy_us:
        return ""
    exposed, busy = show_time(max(0.0, most.exposed_us)), show_time(most.gpu_busy_us)
    return f"{exposed} exposed of {show_time(most.communication_us)}, the GPU busy for {busy}"


def _of_check(correctness: Correctness) -> Facts:
    tolerances = f"rtol {correctness.rtol:g}, atol {correctness.atol:g}"
    if correctness.passed:
        largest = f"largest difference {show_value(correctness.max_abs_diff)}"
        yield "output", f"right: {largest} ({tolerances}, {count(correctness.elements, 'element')})"
    else:
        wrong = f"{correctness.mismatched:,} of {count(correctness.elements, 'element')}"
        yield "output", f"wrong: {wrong} outside the tolerance ({tolerances})"
    if correctness.accuracy is not None:
        yield "error", show_accuracy(correctness.accuracy)
    yield "reference", correctness.low_signal


def _of_sanitizer(result: SanitizerResult) -> Facts:
    found = count(result.count, "error") if result.count else "no errors"
    yield result.tool, ", ".join(filter(None, (found, result.unchecked)))


def _of_profile(profile: Profile, *, compiled: bool) -> Facts:
    if profile.unavailable:
        yield "counters", f"none: {profile.unavailable}"
        return
    values = profile.combined
    if compiled:
        yield "compiled", f"{show_compiled(values)}, by {values.get('compiler', 'an unknown compiler')}"
        return
    launches = count(len(profile.kernels), "launch", "launches")
    yield "counters", f"{count(len(values), 'value')} of {launches}, by {show_reader(profile)}"
