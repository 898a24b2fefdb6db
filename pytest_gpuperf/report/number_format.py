"""Numbers as people read them: few digits, and the unit that suits the size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.judge.settled_suspects import speed_up
from pytest_gpuperf.records.change import printable, show_signed, show_value
from pytest_gpuperf.records.run import NO_INSTRUCTIONS, top_stall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import Accuracy, AgainstTiming, Fuzzing, MetricValue, Profile, Timing
    from pytest_gpuperf.records.change import Change
    from pytest_gpuperf.statistics.decision import Decision


def three_digits(value: float) -> str:
    """Show a number with three digits, more from 1,000 on: `0.97`, `12.4`, `12400`."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def count(number: int, singular: str, plural: str = "") -> str:
    """Show a number of things: `1 test`, `1,200 tests`."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def listed(names: Sequence[str], most: int) -> str:
    """Show the first names, and the number of the others: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def show_size(size: int) -> str:
    """Show a number of bytes: `340 kB`, `12 MB`, `3.4 GB`."""
    if size >= 10**9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 10**6 else f"{size / 1e3:.0f} kB"


def show_time(time_us: float) -> str:
    """Show a time with three digits: `5.30 µs`, `1.24 ms`."""
    if time_us < 999.5:
        return f"{three_digits(time_us)} µs"
    if time_us < 999.5e3:
        return f"{three_digits(time_us / 1e3)} ms"
    return f"{three_digits(time_us / 1e6)} s"


def show_timing(timing: Timing) -> str:
    """Show a time with half the interquartile range of its blocks: `5.30 µs cold ±0.2 %`."""
    mode = "" if timing.mode == "hot" else f" {timing.mode}"
    return f"{show_time(timing.time_us)}{mode} ±{timing.spread_pct / 2:.1f} %"


def not_captured(timing: Timing) -> tuple[str, ...]:
    """Return how a call that cannot be captured was timed, and why it cannot; empty if it can."""
    if not timing.not_captured:
        return ()
    how = {"kernels": "by kernels", "host": "by the host's clock"}.get(timing.mode, timing.mode)
    not_recorded = f"; CUPTI: {timing.not_recorded}" if timing.not_recorded else ""
    return how, timing.not_captured + not_recorded


def show_rate(timing: Timing) -> str:
    """Show the rate of a time, with its share of the peak: `412 GB/s bus`, `640 TFLOP/s 65 %`, `3.20 TB/s`.

    Empty if its work is not known. A rate above the peak of DRAM is one of caches and has no share.
    """
    more, share = "", None
    if timing.bus_gb_per_s is not None:
        rate, small, large, more = timing.bus_gb_per_s, "GB/s", "TB/s", " bus"
    elif timing.tflop_per_s is not None:
        rate, small, large, share = timing.tflop_per_s * 1e3, "GFLOP/s", "TFLOP/s", timing.peak_share
    elif timing.gb_per_s is not None:
        rate, small, large, share = timing.gb_per_s, "GB/s", "TB/s", timing.dram_share
    else:
        return ""
    shown = f"{three_digits(rate)} {small}" if rate < 999.5 else f"{three_digits(rate / 1e3)} {large}"
    return shown + more + ("" if share is None or share > 100 else f" {share:.0f} %")


def show_accuracy(accuracy: Accuracy) -> str:
    """Show an error, and how many times that of the reference it is: `0.29 ULP, 1.0x`; empty if unknown."""
    if accuracy.rms_ulp is None:
        return ""
    ratio = f", {show_value(accuracy.error_ratio, 2)}x" if accuracy.error_ratio is not None else ""
    return f"{show_value(accuracy.rms_ulp, 2)} ULP{ratio}"


def show_change(decision: Decision) -> str:
    """Return a change with its interval, as `+2.1 ±0.4 %`."""
    half = (decision.high_pct - decision.low_pct) / 2
    return f"{show_signed(decision.change_pct)} ±{half:.1f} %"


def show_movement(change: Change, unit: str) -> str:
    """Show a change: `-4.8 %`, for a percentage `+3.2 points`; empty for words and for a start at 0."""
    if unit == "%" and not isinstance(change.actual, str) and not isinstance(change.baseline, str):
        return f"{show_signed(change.actual - change.baseline)} points"
    return "" if change.change_pct is None else f"{show_signed(change.change_pct)} %"


def show_metric(value: MetricValue | None, unit: str) -> str:
    """Show a value with three digits, a percentage with one decimal; empty for None."""
    if unit == "%" and isinstance(value, (int, float)):
        return f"{value:.1f}"
    return "" if value is None else show_value(value)


def show_number(metrics: Mapping[str, MetricValue], name: str) -> str:
    """Show a counter without decimals; empty if it was not measured."""
    value = number_in(metrics, name)
    return "" if value is None else f"{value:.0f}"


def fuzz_line(fuzz: Fuzzing) -> str:
    """Show a search: `fuzz: 1,204 cases in 5.0 s, 3 refused`."""
    refused = f", {fuzz.refused:,} refused" if fuzz.refused else ""
    failed = "" if fuzz.passed else f", case {fuzz.found_after:,} failed; the smallest is {fuzz.case}"
    return f"fuzz: {count(fuzz.cases, 'case')} in {fuzz.seconds:.1f} s{refused}{failed}"


def show_in_turn(against: AgainstTiming) -> str:
    """Show the ratio of the times of two callables: `1.128 times as fast as cublas (1.124 to 1.132)`."""
    if (found := speed_up(against)) is None:
        return ""
    value, low, high = (f"{number:.4g}" for number in found)
    return printable(f"{value} times as fast as {against.ref} ({low} to {high})")


def show_duration(metrics: Mapping[str, MetricValue]) -> str:
    """Show the duration of a kernel; empty if it was not measured."""
    value = number_in(metrics, "duration_us")
    return "" if value is None else show_time(value)


def show_reader(profile: Profile) -> str:
    """Show what read the counters, and so timed the kernels: `ncu, L2 flushed`."""
    return profile.source + (", L2 flushed" if profile.read_by.endswith("/all") else "")


def show_sol(metrics: Mapping[str, MetricValue]) -> str:
    """Show the larger throughput of SM and memory, which is the nearer roof: `mem 78 %`."""
    roofs = {"sm": number_in(metrics, "sm_throughput"), "mem": number_in(metrics, "memory_throughput")}
    known = {name: value for name, value in roofs.items() if value is not None}
    if not known:
        return ""
    name = max(known, key=known.__getitem__)
    return f"{name} {known[name]:.0f} %"


def show_occupancy(metrics: Mapping[str, MetricValue]) -> str:
    """Show achieved over theoretical occupancy: `77/100 %`, `77 %`; `≤13 %` if none was achieved."""
    achieved = number_in(metrics, "achieved_occupancy")
    theoretical = number_in(metrics, "theoretical_occupancy")
    if achieved is None:
        return "" if theoretical is None else f"≤{theoretical:.0f} %"
    # Of several kernels it is the mean, and the least theoretical one, which would look like a fault.
    mixed = theoretical is None or round(achieved) > round(theoretical)
    return f"{achieved:.0f} %" if mixed else f"{achieved:.0f}/{theoretical:.0f} %"


def show_stall(metrics: Mapping[str, MetricValue]) -> str:
    """Show the largest stall reason with its share: `long_scoreboard 62 %`."""
    top = top_stall(metrics)
    return "" if top is None else f"{top[0].removeprefix('stall.')} {top[1]:.0f} %"


def show_shared_memory(size_bytes: float | None) -> str:
    """Show a size in KiB; empty for none."""
    return f"{three_digits(size_bytes / 1024)} KiB" if size_bytes else ""


def show_compiled(metrics: Mapping[str, MetricValue]) -> str:
    """Show the resources and instructions of a compiled kernel: `208 regs, 144 KiB shared, wgmma`."""
    spills, shared = (number_in(metrics, name) or 0 for name in ("spills", "shared_memory_bytes"))
    load = number_in(metrics, "widest_load_bits")
    words = str(metrics.get("tensor_instructions", NO_INSTRUCTIONS))
    copies = str(metrics.get("copy_instructions", NO_INSTRUCTIONS)).split()
    parts = (
        f"{number_in(metrics, 'registers_per_thread') or 0:.0f} regs",
        f"{spills:.0f} B spilled" if spills else "",
        f"{show_shared_memory(shared)} shared" if shared else "",
        "" if words == NO_INSTRUCTIONS else words,
        "TMA" if "cp.async.bulk.tensor" in copies else "",
        f"{load:.0f}-bit loads" if load else "",
    )
    return ", ".join(filter(None, parts))


def show_extent(extent: Sequence[int]) -> str:
    """Show the size of a grid or block: `8192`, `2x66`, `2x2x64`; empty if it is not known."""
    x, y, z = extent
    if not x:
        return ""
    return f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else f"{x}"


def number_in(metrics: Mapping[str, MetricValue], name: str) -> float | None:
    """Return a metric that is a number; None if it is a word or was not measured."""
    value = metrics.get(name)
    return None if value is None or isinstance(value, str) else float(value)
