"""The table in pytest's terminal summary. Loads rich: import it only where there is something to show."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.layout import INDENT, Column, lay_out, wrapped
from pytest_gpuperf.report.notices import notices
from pytest_gpuperf.report.rows import (
    SEVERITY,
    build_rows,
    counts_by_status,
    header_lines,
    overall_status,
    show_occupancy,
    show_sol,
    show_stall,
    show_time,
    three_digits,
)
from pytest_gpuperf.report.trace_table import kernel_lines, trace_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Environment, KernelProfile, MetricValue, Run, Timing, Trace

TESTS_SHOWN = 60
"""Up to so many tests are all shown; of more, without `-v`, only those that did not simply pass."""
KERNELS_SHOWN = 8
"""Kernels of a trace that are shown with -v; `gpuperf trace` shows all."""
STYLES = {
    Status.INVALID: "bold red",
    Status.WRONG: "bold red",
    Status.REGRESSED: "bold red",
    Status.LIMIT: "bold red",
    Status.INCONCLUSIVE: "yellow",
    Status.UNBASELINED: "yellow",
    Status.IMPROVED: "bold green",
    Status.PASS: "green",
}


def summary_lines(
    results: Sequence[TestResult],
    *,
    width: int,
    verbosity: int,
    colour: bool,
    environment: Environment,
    replayed_from: Run | None,
    counters_unavailable: str,
    updated: bool = False,
) -> list[str]:
    """The lines of the terminal summary; none where there are no results.

    Args:
        results: What was measured and judged.
        width: Columns of the terminal.
        verbosity: From 1 on all tests are shown, with their kernels and remarks.
        colour: Whether ANSI colours may be used.
        environment: Where the results were measured.
        replayed_from: The recorded run that was judged again, None where the results were measured now.
        counters_unavailable: Why the session has no counters; empty where it has.
        updated: Whether the results have become the baseline, so that nothing need be said of what had none.
    """
    if not results:
        return []
    shown = list(results) if verbosity >= 1 else _worth_showing(results)
    lines = wrapped(header_lines(environment, replayed_from), width)
    if shown:
        lines += ["", *_table(shown, width=width, details=verbosity >= 1, colour=colour)]
    if len(shown) < len(results):
        lines += ["", _left_out(results, shown)]
    remarks = notices(results, counters_unavailable, replayed=replayed_from is not None, updated=updated)
    return [*lines, "", *wrapped(remarks, width)] if remarks else lines


def _worth_showing(results: Sequence[TestResult]) -> list[TestResult]:
    if len(results) <= TESTS_SHOWN:
        return list(results)
    notable = [index for index, result in enumerate(results) if overall_status(result) is not Status.PASS]
    worst = sorted(notable, key=lambda index: SEVERITY[overall_status(results[index])])[:TESTS_SHOWN]
    return [results[index] for index in sorted(worst)]


def _left_out(results: Sequence[TestResult], shown: Sequence[TestResult]) -> str:
    before = counts_by_status(shown)
    left = {status: count - before.get(status, 0) for status, count in counts_by_status(results).items()}
    total = len(results) - len(shown)
    if total == left.get(Status.PASS):
        return f"… {total:,} more passed; -v shows them"
    what = ", ".join(f"{count:,} {status.value}" for status, count in left.items() if count)
    return f"… {total:,} more ({what}); -v shows them"


def _table(results: Sequence[TestResult], *, width: int, details: bool, colour: bool) -> list[str]:
    by_file = [list(group) for _, group in groupby(results, key=_file)]
    rows_of = [rows for group in by_file for rows in build_rows(group)]
    rows = [row for rows in rows_of for row in rows]
    styles = [STYLES[row.status] for row in rows]
    titles, entries = lay_out(
        Column("test", [row.test for row in rows], "left"),
        [
            Column("time", [row.time for row in rows]),
            Column("rate", [row.rate for row in rows]),
            Column("SOL", [row.sol for row in rows]),
            Column("occupancy", [row.occupancy for row in rows]),
            Column("top stall", [row.stall for row in rows], "left"),
            Column("compiled", [row.compiled for row in rows], "left"),
        ],
        [
            Column("change", [row.change for row in rows], styles=styles),
            Column("finds", [row.finds for row in rows]),
            Column("verdict", [row.verdict for row in rows], "left", styles),
        ],
        width=width,
        colour=colour,
    )
    lines = titles
    kernels = iter(_kernel_lines(results, width, colour) if details else [])
    entry = iter(entries)
    own = iter(rows_of)
    for number, group in enumerate(by_file):
        lines += [*([""] if number else []), printable(_file(group[0]))]
        for result in group:
            traces = [m.trace for m in result.record.measurements.values()] or [None]
            for _, trace in zip(next(own), traces, strict=True):
                lines += next(entry)
                lines += next(kernels, [])
                if trace is not None:
                    lines += _trace_lines(trace, width, details=details, colour=colour)
            if details:
                lines += _remarks(result, width)
    return lines


def _file(result: TestResult) -> str:
    return result.record.nodeid.partition("::")[0]


def _kernel_lines(results: Sequence[TestResult], width: int, colour: bool) -> list[list[str]]:
    """For each row of the table, the lines of its kernels."""
    of_rows: list[tuple[KernelProfile, ...]] = []
    for result in results:
        measurements = result.record.measurements.values()
        of_rows += [m.profile.kernels if m.profile else () for m in measurements] or [()]
    kernels = [kernel for of_row in of_rows for kernel in of_row]
    if not kernels:
        return []
    metrics = [kernel.metrics for kernel in kernels]
    _, entries = lay_out(
        Column("", [printable(kernel.name) for kernel in kernels], "left"),
        [
            Column("", [_shown(m, "duration_us", show_time) for m in metrics]),
            Column("", [show_sol(m) for m in metrics]),
            Column("", [show_occupancy(m) for m in metrics]),
            Column(
                "", [_shown(m, "registers_per_thread", lambda count: f"{count:.0f} regs") for m in metrics]
            ),
            Column("", [_shown(m, "waves", lambda count: f"{three_digits(count)} waves") for m in metrics]),
            Column("", [show_stall(m) for m in metrics], "left"),
        ],
        [],
        width=width - INDENT,
        colour=colour,
    )
    entry = iter(entries)
    return [[" " * INDENT + line for _ in of_row for line in next(entry)] for of_row in of_rows]


def _trace_lines(trace: Trace, width: int, *, details: bool, colour: bool) -> list[str]:
    lines = wrapped([trace_line(trace)], width - INDENT)
    if details:
        lines += kernel_lines(trace, width=width - INDENT, colour=colour, shown=KERNELS_SHOWN)
    return [" " * INDENT + line for line in lines]


def _shown(metrics: Mapping[str, MetricValue], name: str, show: Callable[[float], str]) -> str:
    value = metrics.get(name)
    return "" if value is None or isinstance(value, str) else show(value)


def _clock_line(timing: Timing) -> str:
    """At which SM clock a time was taken, and how it hangs on it; empty where that is not known."""
    model = timing.clock_model
    if model is None or not timing.sm_clock_mhz:
        return ""
    share = f"{100 * model.sm_clock_share:.0f} ± {100 * model.share_error:.0f} %"
    normalised = f"{show_time(timing.normalised_us)} at {model.reference_mhz:.0f} MHz"
    return f"taken at {timing.sm_clock_mhz:.0f} MHz, {normalised}; {share} of it hangs on the SM clock"


def _remarks(result: TestResult, width: int) -> list[str]:
    """What the verdict says besides failures, which pytest shows with the test."""
    timings = [m.timing for m in result.record.measurements.values() if m.timing]
    reasons = dict.fromkeys(filter(None, (timing.not_captured for timing in timings)))
    lines = [printable(f"timed queued because it cannot be captured: {reason}") for reason in reasons]
    lines += [line for timing in timings if (line := _clock_line(timing))]
    for finding in result.verdict.findings:
        if not result.verdict.fails_by(finding.status):
            lines += [printable(finding.line), *(f"  {printable(detail)}" for detail in finding.details)]
    # Each measurement of a test may say the same.
    return [" " * INDENT + line for line in wrapped(list(dict.fromkeys(lines)), width - INDENT)]
