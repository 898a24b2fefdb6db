"""The table in pytest's terminal summary. Loads rich: import it only if there is something to show."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.change import printable, show_value
from pytest_gpuperf.registry import registry
from pytest_gpuperf.report.forms.as_text import INDENT, row_lines, table_lines, wrapped
from pytest_gpuperf.report.notices import notices
from pytest_gpuperf.report.number_format import (
    fuzz_line,
    not_captured,
    number_in,
    show_duration,
    show_in_turn,
    show_number,
    show_occupancy,
    show_reader,
    show_sol,
    show_stall,
    show_time,
    three_digits,
)
from pytest_gpuperf.report.rows import (
    SEVERITY,
    build_rows,
    columns_of,
    counts_by_status,
    header_lines,
)
from pytest_gpuperf.report.table import Column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import KernelProfile, Profile, Timing
    from pytest_gpuperf.records.timing import CompilerWork
    from pytest_gpuperf.report.rows import Row, Summary
    from pytest_gpuperf.report.table import Screen

TESTS_SHOWN = 60
"""If there are more tests, only those that did not pass are shown without `-v`."""
NEW_SHOWN = 10
"""Then new tests fill the table up to this number."""
LONG_FIRST_CALL_S = 0.1
"""Seconds that a first call takes more, from which they are shown although no compiler is known."""


def summary_lines(summary: Summary, screen: Screen, *, verbosity: int) -> list[str]:
    """Return the lines of the terminal summary; empty without results.

    Args:
        summary: The results.
        screen: The terminal.
        verbosity: From 1 on, all tests are shown, with their kernels and remarks.
    """
    results = summary.results
    if not results:
        return []
    shown = list(results) if verbosity >= 1 else _worth_showing(results)
    lines = wrapped(header_lines(summary.environment, summary.replayed_from), screen.width)
    if shown:
        lines += ["", *_table(shown, screen, details=verbosity >= 1)]
    if len(shown) < len(results):
        lines += ["", _left_out(results, shown)]
    readers = sorted(set(map(show_reader, _profiles(shown)))) if verbosity >= 1 else []
    own = [f"kernels timed by {' or '.join(readers)}"] if readers else []
    remarks = wrapped([*notices(summary), *own], screen.width)
    return [*lines, "", *remarks] if remarks else lines


def _profiles(results: Sequence[TestResult]) -> Iterator[Profile]:
    measured = (one for result in results for one in result.record.measurements.values())
    return (one.profile for one in measured if one.profile and one.profile.kernels and not one.is_static)


def _worth_showing(results: Sequence[TestResult]) -> list[TestResult]:
    if len(results) <= TESTS_SHOWN:
        return list(results)
    statuses = [result.status for result in results]
    notable = [index for index, status in enumerate(statuses) if status not in (Status.PASS, Status.NEW)]
    worst = sorted(notable, key=lambda index: SEVERITY[statuses[index]])[:TESTS_SHOWN]
    new = [index for index, status in enumerate(statuses) if status is Status.NEW]
    return [results[index] for index in sorted((*worst, *new[: max(0, NEW_SHOWN - len(worst))]))]


def _left_out(results: Sequence[TestResult], shown: Sequence[TestResult]) -> str:
    before = counts_by_status(shown)
    left = {status: count - before.get(status, 0) for status, count in counts_by_status(results).items()}
    total = len(results) - len(shown)
    if total == left.get(Status.PASS):
        return f"… {total:,} more passed; -v shows them" if shown else f"{total:,} passed; -v shows them"
    what = ", ".join(f"{count:,} {status.value}" for status, count in left.items() if count)
    return f"… {total:,} more ({what}); -v shows them"


def _table(results: Sequence[TestResult], screen: Screen, *, details: bool) -> list[str]:
    by_file = [list(group) for _, group in groupby(results, key=_file)]
    rows_of = [rows for group in by_file for rows in build_rows(group)]
    # Compiled kernels have other columns, with titles of their own.
    kinds = groupby(sorted((row for rows in rows_of for row in rows), key=_is_compiled), key=_is_compiled)
    tables = {kind: row_lines(columns_of(list(rows)), screen) for kind, rows in kinds}
    entries = {kind: iter(lines) for kind, (_, lines) in tables.items()}
    kernels = iter(_kernel_lines(results, screen) if details else [])
    own = iter(rows_of)
    lines: list[str] = []
    titled = None
    for group in by_file:
        lines += [""] if lines else []
        heading = [printable(_file(group[0]))]
        for result in group:
            measured = list(result.record.measurements.values()) or [Measurement()]
            for row, measurement in zip(next(own), measured, strict=True):
                kind = _is_compiled(row)
                lines += [*(tables[kind][0] if kind is not titled else []), *heading, *next(entries[kind])]
                titled, heading = kind, []
                lines += next(kernels, [])
                notes = [fuzz_line(measurement.fuzz)] if measurement.fuzz else []
                notes += [f"in turn: {show_in_turn(measurement.in_turn)}"] if measurement.in_turn else []
                if details and (timing := measurement.timing):
                    notes += filter(None, (clock_line(timing), first_calls_line(timing)))
                lines += [" " * INDENT + line for line in wrapped(notes, screen.width - INDENT)]
                inner = screen._replace(width=screen.width - INDENT)
                for table_of in registry().row_tables:
                    if (table := table_of(measurement, details)) is not None:
                        lines += [" " * INDENT + line for line in table_lines(table, inner)]
            if details:
                lines += _remarks(result, screen.width)
    return lines


def _is_compiled(row: Row) -> bool:
    return bool(row.compiled)


def _file(result: TestResult) -> str:
    return result.record.nodeid.partition("::")[0]


def kernel_columns(kernels: Sequence[KernelProfile]) -> list[Column]:
    """Return the most important counters of launches."""
    metrics = [kernel.metrics for kernel in kernels]
    registers = [show_number(one, "registers_per_thread") for one in metrics]
    waves = [number_in(one, "waves") for one in metrics]
    return [
        Column("kernel", [kernel.name for kernel in kernels], "name", code=True),
        Column("time", [show_duration(one) for one in metrics]),
        Column("SOL", [show_sol(one) for one in metrics]),
        Column("occupancy", [show_occupancy(one) for one in metrics]),
        Column("registers", [f"{regs} regs" if regs else "" for regs in registers]),
        Column("waves", ["" if number is None else f"{three_digits(number)} waves" for number in waves]),
        Column("top stall", [show_stall(one) for one in metrics], left=True),
    ]


def _kernel_lines(results: Sequence[TestResult], screen: Screen) -> list[list[str]]:
    """Return the lines of the kernels for each row of the table."""
    of_rows: list[tuple[KernelProfile, ...]] = []
    for result in results:
        measurements = result.record.measurements.values()
        of_rows += [m.profile.kernels if m.profile else () for m in measurements] or [()]
    kernels = [kernel for of_row in of_rows for kernel in of_row]
    if not kernels:
        return []
    columns = [replace(column, title="") for column in kernel_columns(kernels)]
    _, entries = row_lines(columns, screen._replace(width=screen.width - INDENT))
    entry = iter(entries)
    return [[" " * INDENT + line for _ in of_row for line in next(entry)] for of_row in of_rows]


def clock_line(timing: Timing) -> str:
    """Return the SM clock of a time, and how far it depends on that clock; empty if they are not known."""
    model = timing.clock_model
    if model is None or timing.normalised_us is None:
        return ""
    share = f"{100 * model.sm_clock_share:.0f} ± {100 * model.share_error:.0f} %"
    normalised = f"{show_time(timing.normalised_us)} at {model.reference_mhz:.0f} MHz"
    return f"taken at {timing.sm_clock_mhz:.0f} MHz, {normalised}; {share} of it depends on the SM clock"


def first_calls_line(timing: Timing) -> str:
    """Return the facts of the first calls: memory, and compilers that worked; empty if nothing is known."""
    parts = []
    if timing.peak_memory_mb is not None:
        parts.append(f"a call takes {show_value(timing.peak_memory_mb)} MB beyond its arguments")
    first, seconds = timing.first_call, timing.compile_s or 0.0
    if first is not None and (first.compilers or seconds >= LONG_FIRST_CALL_S):
        caches = f", {first.caches}" if first.caches else ""
        parts.append(f"its first call took {three_digits(seconds)} s more{caches}")
        parts += [_compiler(name, work) for name, work in first.compilers.items()]
    return "; ".join(parts)


def _compiler(name: str, work: CompilerWork) -> str:
    compiled = f", {work.compiled} compiled" if work.compiled else ""
    cached = f", {work.cached} from its cache" if work.cached else ""
    return f"{name} {three_digits(work.seconds)} s{compiled}{cached}"


def _remarks(result: TestResult, width: int) -> list[str]:
    """Return the findings of a verdict except failures, which pytest shows with the test."""
    timings = [m.timing for m in result.record.measurements.values() if m.timing]
    reasons = dict.fromkeys(filter(None, map(not_captured, timings)))
    lines = [f"timed {how} because it cannot be captured: {why}" for how, why in reasons]
    for finding in result.findings:
        if not result.fails_by(finding.status):
            lines += [finding.line, *(f"  {detail}" for detail in finding.more)]
    # Each measurement of a test may say the same.
    return [" " * INDENT + line for line in wrapped(list(dict.fromkeys(lines)), width - INDENT)]
