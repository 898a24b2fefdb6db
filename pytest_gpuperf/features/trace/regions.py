"""Assign the activities of a GPU to annotations, such as the steps of the profiler."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.records.call import check_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.features.trace.chrome_traces import Annotation, ChromeTrace, TraceActivity

CALL_MARK = "gpuperf.call"
"""Annotation around each call that the plugin records; between two of them the host waits for the GPU."""
STEPS = r"ProfilerStep#\d+"
"""Annotations that torch.profiler records around each step."""
CLOCKS_US = 2.0
"""Possible difference between the host's clock and that of CUPTI's records; launches are further apart."""

_SYNCHRONIZE = re.compile(r"(?:cuda|cu|hip)(?:Device|Ctx|Stream|Event)Synchronize")


class Region(NamedTuple):
    """Activities of the GPU in one occurrence of an annotation, or in the whole file."""

    name: str
    """Name of the annotation; empty for the whole file."""
    activities: list[TraceActivity]
    """Sorted by start."""
    synchronizations: int
    is_complete: bool
    """False if kernels of graphs were not recorded."""

    @property
    def gpu_time_us(self) -> float:
        """Return the sum of the activities' durations, in microseconds."""
        return sum(one.end_us - one.start_us for one in self.activities)


def annotations_of(trace: ChromeTrace, annotation: str | None) -> list[Annotation] | None:
    """Return the annotations with the name, or of the plugin's calls; None for the whole file.

    Raises:
        GpuperfError: The regex is broken.
    """
    if annotation is None:
        return [one for one in trace.annotations if one.name == CALL_MARK] or None
    check_regex(annotation, "of annotations")
    return [one for one in trace.annotations if re.fullmatch(annotation, one.name)]


def whole(trace: ChromeTrace, activities: list[TraceActivity]) -> Region:
    """Return all activities as one region."""
    waits = {call.correlation for call in trace.host_calls if _waits(call.name)}
    return Region("", activities, len(waits), not trace.lost_graphs_us)


def regions_of(
    trace: ChromeTrace, activities: Sequence[TraceActivity], annotations: Sequence[Annotation]
) -> list[Region]:
    """Return the activities that each annotation's host code launched, on any thread, at any time."""
    if not annotations:
        return []
    own = annotations[0].name == CALL_MARK
    slack = CLOCKS_US if own else 0.0
    launched = trace.launched_us
    # Some launches are not recorded (Triton's by older versions): use the activity's own time.
    known = _ByTime([one for one in activities if one.args.correlation in launched],
                    lambda one: launched[one.args.correlation] + slack)  # fmt: skip
    unknown = _ByTime([one for one in activities if one.args.correlation not in launched],
                      lambda one: one.start_us + slack)  # fmt: skip
    waits = sorted((call.start_us, call.correlation) for call in trace.host_calls if _waits(call.name))
    ends = [*(one.start_us for one in annotations[1:]), float("inf")]
    regions = []
    for annotation, next_start in zip(annotations, ends, strict=True):
        start = annotation.start_us
        inside = known.between(start, next_start if own else annotation.end_us)
        inside += unknown.between(start, next_start)
        if inside:
            inside.sort(key=lambda one: (one.start_us, one.end_us))
            first, last = (bisect_left(waits, (at,)) for at in (start, annotation.end_us))
            lost = any(start <= at < annotation.end_us for at in trace.lost_graphs_us)
            regions.append(
                Region(annotation.name, inside, len({one for _, one in waits[first:last]}), not lost)
            )
    return regions


class _ByTime:
    """Activities that can be found by a time."""

    def __init__(self, activities: list[TraceActivity], at: Callable[[TraceActivity], float]) -> None:
        self._activities = sorted(activities, key=at)
        self._times = [at(one) for one in self._activities]

    def between(self, start: float, end: float) -> list[TraceActivity]:
        first, last = bisect_left(self._times, start), bisect_left(self._times, end)
        return self._activities[first:last]


def _waits(name: str) -> bool:
    return _SYNCHRONIZE.match(name) is not None
