"""Compare the time of a series with single calls: by CUPTI, or without it by the clock of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device import kept
from pytest_gpuperf.measure.timing.audit import refuse_elsewhere
from pytest_gpuperf.records import SingleCall, Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.timing.prepared import Prepared

AUDITS = 2
"""Recordings of single calls that have to disagree with a time before it is refused."""
LAGS = 3
LAG_CALLS = 20
MOST_LAG_US = 50.0
"""Time of the host between the end of one stream and of the device, if nothing else runs."""


def with_single_calls(prepared: Prepared, timing: Timing) -> tuple[Timing, str]:
    """Compare a time with single calls.

    Returns:
        The timing with the time of single calls, and why the time does not hold all work of a call; that is
        empty if it does, or if it is unknown.

    Raises:
        GpuperfError: Calls launch at another time, or only sometimes.
    """
    why = ""
    graph_us = (timing.us_by("events") if timing.mode == "hot" else None) or 0.0
    for at in range(AUDITS):
        try:
            found = prepared.audit()
        except CuptiError as error:
            lagging = "" if prepared.fn is None else _lagging(prepared.fn)
            return replace(timing, single_call=SingleCall(not_compared=error.found)), lagging
        except torch.cuda.OutOfMemoryError:
            # The graph holds the memory of an output, and the timed calls needed no more.
            needed = prepared.captured.output_bytes if prepared.captured else 0
            if (free := torch.cuda.mem_get_info()[0]) >= needed:
                raise
            free_gib, needed_gib = free / 2**30, needed / 2**30
            short = f"{free_gib:.3g} GiB are free, and a call next to the graph needs {needed_gib:.3g} GiB"
            return replace(timing, single_call=SingleCall(not_compared=short)), ""
        if found is None:
            break
        refuse_elsewhere(silent=found.silent, late=found.late, calls=found.calls)
        timing = replace(timing, single_call=SingleCall(busy_us=round(found.busy_us, 4)))
        if at and graph_us:
            # Another process may have disturbed the graph, or its streams wait long for each other.
            graph_us = min(graph_us, prepared.block().time_us, prepared.in_short_graph_us())
        if not (why := found.unlike(timing.time_us, graph_us, prepared.launches)):
            break
        state = timing.conditions
        if state is not None and state.other_processes and found.stays_inside:
            unlike = SingleCall(
                busy_us=round(found.busy_us, 4), not_compared="another process was on the GPU"
            )
            return replace(timing, single_call=unlike), ""
    return timing, why


def _lagging(fn: Callable[[], Any]) -> str:
    """Say for how long the device works on after the current stream; empty if it does not."""
    lag_us = min(_lag_us(fn) for _ in range(LAGS))
    if lag_us <= MOST_LAG_US:
        return ""
    return f"the GPU worked for {lag_us:.0f} us more when the current stream had finished its calls"


def _lag_us(fn: Callable[[], Any]) -> float:
    """Return the time for which the device works on when the current stream has finished some calls.

    This shows work on other streams if it takes longer than that on the current one.
    """
    stream, done = kept.current_stream(), kept.event()
    kept.synchronize()
    for _ in range(LAG_CALLS):
        fn()
    kept.record(done, stream)
    while not kept.has_passed(done):
        pass
    begin = kept.now()
    kept.synchronize()
    return 1e6 * (kept.now() - begin)
