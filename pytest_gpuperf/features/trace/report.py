"""Kernel tables of traces, one below the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.features.trace.breakdown_table import overview_table, split_lines
from pytest_gpuperf.features.trace.kernel_table import kernel_table, region_line, trace_line, transfers
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.files import relative_path, show_path
from pytest_gpuperf.registry import registry
from pytest_gpuperf.report.table import Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.trace.files import FoundTrace
    from pytest_gpuperf.records import Trace, TracedKernel

ROWS_OF_SEVERAL = 10
"""Maximum number of kernels of each of several ranks or GPUs."""


def trace_report(
    traces: Sequence[FoundTrace], *, matching: str, explained: bool, remarks: Sequence[str] = ()
) -> Report:
    """Return the kernel tables of traces.

    Args:
        traces: The traces.
        matching: Regex found in the names of the copies and fills to show.
        explained: True to add the bounds of each call.
        remarks: Lines for the end.
    """
    tables: list[Table] = []
    several = len({(one.file, one.trace.device) for one in traces if not one.nodeid}) > 1
    rows = [row for one in traces if not one.nodeid for row in _overview_rows(one, several=several)]
    if len(rows) > 1:
        tables.append(overview_table(rows))
    for one in traces:
        shown = kernel_table(one.trace, matching=matching, shown=ROWS_OF_SEVERAL if several else None)
        above = [
            one.heading if several or one.rank is not None else one.title,
            *([f"for https://ui.perfetto.dev: {show_path(one.file)}"] if one.has_file else []),
            region_line(one.trace),
            trace_line(one.trace),
        ]
        above += split_lines(one.trace) if one.trace.computation_us is not None else []
        tables.append(Table(shown.columns, above, shown.notes))
        tables.append(Table(notes=_explanation(one.trace) if explained else []))
    tables.append(Table(notes=remarks))
    return Report(
        tables=tables,
        records=[
            {"nodeid": one.nodeid, "label": one.label, **_record(row), **_place(one)}
            for one in traces
            for row in (*one.trace.kernels, *(transfers(one.trace) if not (one.nodeid or matching) else ()))
        ],
        data=[
            {
                "nodeid": one.nodeid,
                "label": one.label,
                **_place(one),
                "trace": all_fields(one.trace),
                "steps": [_without_kernels(step) for step in one.steps],
                "remarks": list(remarks),
            }
            for one in traces
        ],
    )


def _explanation(trace: Trace) -> list[str]:
    measured = Measurement(trace=trace)
    return [line for explain in registry().explanations for line in explain(measured)]


def all_fields(value: object) -> object:
    """Return a record as objects of JSON, also the fields with their default values."""
    if isinstance(value, msgspec.Struct):
        return {name: all_fields(getattr(value, name)) for name in value.__struct_fields__}
    return [all_fields(one) for one in value] if isinstance(value, tuple) else value


def _without_kernels(step: Trace) -> dict[str, object]:
    left_out = ("kernels", "file", "occurrences")
    return {name: all_fields(getattr(step, name)) for name in step.__struct_fields__ if name not in left_out}


def _place(one: FoundTrace) -> dict[str, object]:
    return {
        "file": one.trace.file if one.nodeid else relative_path(one.file),
        "rank": one.rank,
        "world_size": one.world_size,
        "device": one.trace.device,
        "gpu": one.trace.gpu,
    }


def _overview_rows(one: FoundTrace, *, several: bool) -> list[tuple[str, str, Trace]]:
    heading = one.heading if several else ""
    whole = [] if one.trace.region and one.steps else [("the whole trace", one.trace)]
    return [(heading, name, trace) for name, trace in (*whole, *((step.region, step) for step in one.steps))]


def _record(kernel: TracedKernel) -> dict[str, object]:
    record = msgspec.structs.asdict(kernel)
    return {**record, "grid": "x".join(map(str, kernel.grid)), "block": "x".join(map(str, kernel.block))}
