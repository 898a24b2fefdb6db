"""What a report shows of a test: one row of short texts for each thing it measured."""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.measure.static.kernel import NO_INSTRUCTIONS, is_static
from pytest_gpuperf.metrics import top_stall
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Environment, Measurement, MetricValue, Run, Timing
    from pytest_gpuperf.statistics.decision import Decision

SEVERITY = {status: rank for rank, status in enumerate(Status)}
"""Rank of a verdict, 0 for the worst."""


@dataclass(frozen=True)
class Row:
    """One measurement of one test, as texts; empty where there is nothing to show."""

    test: str
    """Node id without what all tests of the report have in common; the label behind it unless `main`."""
    time: str
    """`5.30 µs ±0.2 %`: half the interquartile range of the blocks on either side; `5.30 µs cold ±0.2 %`."""
    rate: str
    """`3.20 TB/s`, `412 GB/s` or `640 TFLOP/s`."""
    sol: str
    """Speed of light, the nearer roof: `mem 78 %` or `sm 90 %`."""
    occupancy: str
    """Achieved and theoretical: `77/100 %`; `≤13 %` of a kernel that was compiled and not run."""
    stall: str
    """The reason most warp cycles were spent waiting for: `long_scoreboard 62 %`."""
    change: str
    """Time against the baseline with its interval: `+0.3 ±0.5 %`, or `new`."""
    finds: str
    """The smallest slowdown that the test can find: `0.9 %`."""
    verdict: str
    """The status, with `(replayed)` behind it where nothing was launched."""
    status: Status
    compiled: str = ""
    """Of a kernel that was compiled: `208 regs, 144 KiB shared, wgmma, 128-bit loads`."""


def build_rows(results: Sequence[TestResult]) -> list[list[Row]]:
    """The rows of each result, in the order of `results`.

    A test that measured nothing has one row all the same, so that its verdict is seen.
    """
    _, names = split_names([result.record.nodeid for result in results])
    return [_rows_of(result, name) for result, name in zip(results, names, strict=True)]


def split_names(nodeids: Sequence[str]) -> tuple[str, list[str]]:
    """What all node ids begin with (their file, else their folder) and the rest of each."""
    files = {nodeid.partition("::")[0] for nodeid in nodeids}
    if len(files) == 1:
        # No colon in front: GitHub reads a line that starts with two of them as a command.
        return printable(files.pop()), [
            printable(name.partition("::")[2].lstrip(":") or name) for name in nodeids
        ]
    common = posixpath.commonprefix(list(files))
    folder = common[: common.rfind("/") + 1]
    return printable(folder), [printable(name[len(folder) :]) for name in nodeids]


def counts_by_status(results: Sequence[TestResult]) -> dict[Status, int]:
    """How many tests have each verdict, the worst first, those without any left out."""
    counts = Counter(map(overall_status, results))
    return {status: counts[status] for status in Status if counts[status]}


def overall_status(result: TestResult) -> Status:
    """The verdict, `INVALID` where an exception ended the test before all of it was measured."""
    status = result.verdict.status
    return Status.INVALID if result.record.failure and not result.verdict.fails else status


def failures(results: Sequence[TestResult]) -> list[TestResult]:
    """Failed tests, the worst first."""
    failed = [result for result in results if result.verdict.fails or result.record.failure]
    return sorted(failed, key=lambda result: SEVERITY[overall_status(result)])


def failure_message(result: TestResult) -> str:
    """Why a test failed, the first line the shortest way to say it."""
    return result.verdict.message() or f"gpuperf: the test ended with {printable(result.record.failure)}"


def label_status(result: TestResult, label: str) -> Status:
    """The verdict on one label of a test, which may be better than that on the test."""
    status = overall_status(result)
    findings = result.verdict.findings
    blamed = {finding.label for finding in findings if finding.status is status}
    if len(result.record.measurements) <= 1 or not blamed or blamed & {"", label}:
        return status
    own = [finding.status for finding in findings if finding.label == label]
    return min(own, key=SEVERITY.__getitem__, default=Status.PASS)


def header_lines(environment: Environment, replayed_from: Run | None) -> list[str]:
    """Which GPU, tools and commit the results are from; where they were replayed, those of the recording.

    `NVIDIA H200, driver 580.95, torch 2.11, triton 3.6, ncu 2025.3.1, commit abc1234`; the commit has a `+`
    where files differed from it.
    """
    source = replayed_from.environment if replayed_from else environment
    gpu = source.gpu.name or "unnamed GPU"
    commit = f"commit {source.commit[:7]}{'+' if source.dirty else ''}" if source.commit else ""
    toolchain = source.toolchain
    tools = [
        f"{name} {version}"
        for name, version in (
            ("driver", toolchain.driver),
            ("torch", toolchain.torch),
            ("triton", toolchain.triton),
            ("ncu", toolchain.ncu),
        )
        if version
    ]
    if replayed_from:
        lines = [[f"replayed from {gpu}", commit, replayed_from.started_at[:10]], tools]
    else:
        lines = [[gpu, *tools, commit]]
    return [printable(", ".join(filter(None, parts))) for parts in lines if any(parts)]


def show_time(time_us: float) -> str:
    """A time with three digits: `5.30 µs`, `1.24 ms`."""
    if time_us < 999.5:
        return f"{three_digits(time_us)} µs"
    if time_us < 999.5e3:
        return f"{three_digits(time_us / 1e3)} ms"
    return f"{three_digits(time_us / 1e6)} s"


def show_sol(metrics: Mapping[str, MetricValue]) -> str:
    """The larger of the two throughputs, the one that names the roof."""
    roofs = {"sm": _number(metrics, "sm_throughput"), "mem": _number(metrics, "memory_throughput")}
    known = {name: value for name, value in roofs.items() if value is not None}
    if not known:
        return ""
    name = max(known, key=known.__getitem__)
    return f"{name} {known[name]:.0f} %"


def show_occupancy(metrics: Mapping[str, MetricValue]) -> str:
    """Achieved occupancy over the theoretical one where that is known; the latter alone as an upper bound."""
    achieved = _number(metrics, "achieved_occupancy")
    theoretical = _number(metrics, "theoretical_occupancy")
    if achieved is None:
        return "" if theoretical is None else f"≤{theoretical:.0f} %"
    return f"{achieved:.0f} %" if theoretical is None else f"{achieved:.0f}/{theoretical:.0f} %"


def show_stall(metrics: Mapping[str, MetricValue]) -> str:
    """The largest stall reason with its share."""
    top = top_stall(metrics)
    return "" if top is None else printable(f"{top[0].removeprefix('stall.')} {top[1]:.0f} %")


def show_compiled(metrics: Mapping[str, MetricValue]) -> str:
    """What a kernel needs, and how it loads and multiplies; what it has none of is left out."""
    spills, shared = (_number(metrics, name) or 0 for name in ("spills", "shared_memory_bytes"))
    load = _number(metrics, "widest_load_bits")
    words = str(metrics.get("tensor_instructions", NO_INSTRUCTIONS))
    copies = str(metrics.get("copy_instructions", NO_INSTRUCTIONS)).split()
    parts = (
        f"{_number(metrics, 'registers_per_thread') or 0:.0f} regs",
        f"{spills:.0f} B spilled" if spills else "",
        f"{three_digits(shared / 1024)} KiB shared" if shared else "",
        "" if words == NO_INSTRUCTIONS else printable(words),
        "TMA" if "cp.async.bulk.tensor" in copies else "",
        f"{load:.0f}-bit loads" if load else "",
    )
    return ", ".join(filter(None, parts))


def _rows_of(result: TestResult, name: str) -> list[Row]:
    rows = [
        _row(result, label, name if label == "main" else f"{name} ({printable(label)})", measurement)
        for label, measurement in result.record.measurements.items()
    ]
    return rows or [_row(result, "main", name, None)]


def _row(result: TestResult, label: str, name: str, measurement: Measurement | None) -> Row:
    timing = measurement.timing if measurement else None
    profile = measurement.profile if measurement else None
    metrics = profile.combined if profile else {}
    status = label_status(result, label)
    time = result.verdict.times.get(label)
    if time is not None:
        shown_change, finds = show_change(time.decision)
    else:
        shown_change, finds = "new" if timing and status is Status.UNBASELINED else "", ""
    return Row(
        test=name,
        time=_show_timing(timing) if timing else "",
        rate=_show_rate(timing) if timing else "",
        sol=show_sol(metrics),
        occupancy=show_occupancy(metrics),
        stall=show_stall(metrics),
        change=shown_change,
        finds=finds,
        verdict=f"{status.value} (replayed)" if result.replayed else status.value,
        status=status,
        compiled=show_compiled(metrics) if measurement and is_static(measurement) else "",
    )


def show_change(decision: Decision) -> tuple[str, str]:
    """A change with half its interval, and the smallest one that would be found."""
    half = (decision.high_pct - decision.low_pct) / 2
    return f"{decision.change_pct:+.1f} ±{half:.1f} %", f"{decision.smallest_detectable_pct:.1f} %"


def _show_timing(timing: Timing) -> str:
    mode = "" if timing.mode == "hot" else f" {timing.mode}"
    return f"{show_time(timing.time_us)}{mode} ±{timing.spread_pct / 2:.1f} %"


def _show_rate(timing: Timing) -> str:
    if timing.tflop_per_s is not None:
        rate, small, large = timing.tflop_per_s * 1e3, "GFLOP/s", "TFLOP/s"
    elif timing.gb_per_s is not None:
        rate, small, large = timing.gb_per_s, "GB/s", "TB/s"
    else:
        return ""
    return f"{three_digits(rate)} {small}" if rate < 999.5 else f"{three_digits(rate / 1e3)} {large}"


def _number(metrics: Mapping[str, MetricValue], name: str) -> float | None:
    value = metrics.get(name)
    return None if value is None or isinstance(value, str) else float(value)


def three_digits(value: float) -> str:
    """A number with three digits, more where it is 1,000 or more: `0.97`, `12.4`, `12400`."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
