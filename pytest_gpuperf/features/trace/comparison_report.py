"""Two traces, or the ranks of two, side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_gpuperf.features.compare.report import comparison_report
from pytest_gpuperf.features.trace.comparison import RENAMED, compare_totals, compare_traced_kernels
from pytest_gpuperf.report.kernel_table import short_name
from pytest_gpuperf.report.show import show_movement, show_time
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.compare.comparison import Cell, Comparison, Line
    from pytest_gpuperf.records import Trace
    from pytest_gpuperf.report.table import Tone

KERNELS_SHOWN = 20
"""Maximum number of kernels of each pair of traces as text."""
_EFFECTS: dict[bool | None, Tone] = {True: "worse", False: "better", None: ""}


def trace_comparison_report(
    pairs: Sequence[tuple[str, Trace, Trace]], sources: tuple[str, str], remarks: Sequence[str] = ()
) -> Report:
    """Return the values and the kernels of pairs of traces with their changes.

    Args:
        pairs: Heading, old and new trace.
        sources: Names of the old and the new file or folder.
        remarks: Lines for the end.
    """
    tables = [Table(above=[f"old: {sources[0]}", f"new: {sources[1]}"])]
    lines: list[Line] = []
    found: list[Comparison] = []
    for heading, old, new in pairs:
        totals = compare_totals(old, new, sources)
        kernels = compare_traced_kernels(old, new, sources)
        found += [totals, kernels]
        above = [heading] if heading else []
        if old.gpu != new.gpu:
            above.append(f"different GPUs: {old.gpu or 'unknown'} and {new.gpu or 'unknown'}")
        tables += comparison_report(totals, above).tables
        tables.append(_kernel_table(kernels))
        for line in (*totals.lines, *kernels.lines):
            subject = ": ".join(filter(None, (heading, line.subject)))
            lines.append(replace(line, subject=subject))
    everything = replace(found[0], lines=tuple(lines), notes=(*remarks,))
    report = comparison_report(everything, [])
    return Report([*tables, Table(notes=remarks)], report.records, report.data)


def _kernel_table(found: Comparison) -> Table:
    """Return the kernels with the largest differences of their total times."""
    lines = found.lines[:KERNELS_SHOWN]
    names = [line.subject.split(RENAMED) for line in lines]
    changes = [line.cells[1].change for line in lines]
    effects: list[Tone] = [_EFFECTS[change.worse if change else None] for change in changes]
    left = len(found.lines) - len(lines)
    columns = [
        Column("kernel", [short_name(name[-1]) for name in names], "name", code=True),
        Column("calls", [_calls(line) for line in lines]),
        Column("old", [_time(line.cells[0]) for line in lines]),
        Column("new", [_time(line.cells[1]) for line in lines]),
        Column("change", [show_movement(one, "us") if one else "" for one in changes], tones=effects),
        Column("", list(effects), "outcome", left=True, tones=effects),
        Column("", [f"was {short_name(one[0])}" if one[1:] else "" for one in names], "detail"),
    ]
    return Table(columns, notes=[*found.notes, *([f"… {left} more, in CSV and JSON"] if left else [])])


def _calls(line: Line) -> str:
    launches = line.launches
    assert launches is not None  # each line is about a kernel
    old, new = launches.old_launches, launches.new_launches
    return f"{new:,}" if old == new else f"{old:,} -> {new:,}"


def _time(cell: Cell) -> str:
    return "" if cell.value is None else show_time(float(cell.value))
