"""Doubts about a trace: kernels that are missing, and durations that cannot be right."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_gpuperf.features.trace.kernel_table import short_name
from pytest_gpuperf.report.number_format import count, show_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.features.trace.chrome_traces import ChromeTrace, TraceActivity

OVERLAP_US = 2.0
"""Kernels of one stream may overlap by this, if both are rounded to whole µs."""


def doubts(trace: ChromeTrace) -> Iterator[str]:
    """Yield a line for each kind of doubt."""
    if lost := len(trace.lost_graphs_us):
        launches = count(len(trace.graph_launches_us), "launch", "launches")
        yield f"{lost:,} of {launches} of graphs have no recorded kernel: busy and idle time are not known"
    streams: dict[tuple[int, int | str], list[TraceActivity]] = defaultdict(list)
    for one in trace.activities:
        streams[one.device, one.stream].append(one)
    over = [
        (one.end_us - other.start_us, one.name)
        for stream in streams.values()
        for one, other in pairwise(stream)
        if one.end_us - other.start_us > OVERLAP_US
        # Nodes of a graph may run side by side.
        and not one.args.correlation == other.args.correlation != 0
    ]
    if over:
        longest_us, name = max(over)
        kernels = count(len(over), "kernel overlaps", "kernels overlap")
        by = f"{short_name(name)} by {show_time(longest_us)}"
        yield f"{kernels} the next in the same stream, {by}: a duration is wrong, or the launches allow it"
