"""Read the true durations of kernels independently of the plugin.

torch.profiler has CUPTI's activity records: begin and end of each kernel on the GPU. It stays attached to
CUPTI, which slows graphs, so it runs last in its process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from benchmarks.timing_accuracy.results import Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

WARM_UP_S = 0.5
WINDOW_US = 20_000
LEAST_CALLS, MOST_CALLS = 60, 300
"""Limits on the number of calls; with their flushes they fit into the queue of about a thousand launches."""
QUEUE_CYCLES = 20_000_000
"""About 10 ms, during which the host queues the calls, so that they run back to back."""


def durations(calls: Mapping[str, Callable[[], Any]]) -> Iterator[tuple[str, Truth]]:
    """Yield the duration of every kernel, hot and cold."""
    from scipy.stats import trim_mean

    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    buffer = torch.empty(2 * l2_bytes, dtype=torch.int8, device="cuda")
    ours = {name for name, _ in profiled(lambda: None, buffer.zero_, 3)}
    for kernel, fn in calls.items():
        warm_up(fn)
        count = round(min(max(WINDOW_US / roughly_us(fn), LEAST_CALLS), MOST_CALLS))
        found = {}
        for condition, before in (("hot_us", nothing), ("cold_us", buffer.zero_)):
            records = [record for record in profiled(fn, before, count) if record[0] not in ours]
            found[condition] = round(float(trim_mean(by_call(records, count), 0.2)), 4)
        yield kernel, Truth(**found)


def nothing() -> None:
    """Leave the caches as they are."""


def warm_up(fn: Callable[[], Any], seconds: float = WARM_UP_S) -> None:
    """Keep the GPU busy until its clocks have settled."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(20):
            fn()
        torch.cuda.synchronize()


def roughly_us(fn: Callable[[], Any]) -> float:
    """Return microseconds a call by the host's clock, with the launch."""
    begin = time.perf_counter()
    for _ in range(20):
        fn()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / 20 * 1e6


def profiled(fn: Callable[[], Any], before: Callable[[], Any], calls: int) -> list[tuple[str, float]]:
    """Return name and microseconds of each activity on the GPU, in order of start."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        torch.cuda._sleep(QUEUE_CYCLES)  # type: ignore[no-untyped-call]
        for _ in range(calls):
            before()
            fn()
        torch.cuda.synchronize()
    events = [event for event in profiler.events() or () if event.device_type == DeviceType.CUDA]
    events.sort(key=lambda event: event.time_range.start)
    return [(event.name, float(event.device_time)) for event in events]


def by_call(records: Sequence[tuple[str, float]], calls: int) -> list[float]:
    """Return the microseconds of each call's kernels together.

    Raises:
        ValueError: The number of kernels differs between the calls.
    """
    kernels, rest = divmod(len(records), calls)
    if not kernels or rest:
        raise ValueError(f"{len(records)} kernels in {calls} calls")
    return [sum(us for _, us in records[at : at + kernels]) for at in range(0, len(records), kernels)]
