"""True durations of a callable, in turn with blocks of the timer: in one process, at one SM clock.

Two instruments share no code with the timer:

- torch.profiler: time in which a kernel, copy on the GPU or fill of a call ran, by CUPTI.
- The GPU's own clock, without a profiler: a kernel of one thread stores `%globaltimer` before and after each
  call. The span between two of them includes the gaps between the kernels of a call, and one to the next.

Each block follows the same work of the callable, so that power and temperature are alike.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from pytest_gpuperf.measure.cupti.libcupti import detach
from pytest_gpuperf.measure.device.driver import STAMP
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.measure.timing.batch_preparation import prepare, waits_for_gpu
from pytest_gpuperf.measure.timing.graph import capture, hold_gpu
from pytest_gpuperf.measure.timing.sm_clock import Stamps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.records import StreamWork, Timing

    Call = Callable[[], Any]

ROUNDS = 5
LEAD_S, HELD_BACK_LEAD_S = 0.01, 0.06
"""Work before each block. The power limit needs the longer one before it holds the clock back steadily."""
BLOCK_US = 4_000
MOST_CALLS = 100
ENQUEUE_US = 40
"""Upper bound of the host's time to launch a kernel, here with its mark."""
NOT_OF_A_CALL = (STAMP, "spin_kernel", "Memcpy HtoD", "Memcpy DtoH")
"""Stamps, the kernel that blocks the GPU, and copies that depend on the host, in torch.profiler's names."""


class Reading(NamedTuple):
    """Mean of the calls of one block."""

    us: float
    """Microseconds a call."""
    sm_clock_mhz: float


@dataclass(frozen=True)
class Round:
    """Blocks taken one after the other."""

    block: Reading
    """Block of the timer."""
    kernels: Reading
    """By torch.profiler."""
    span: Reading | None
    """By the GPU's clock; None if calls wait for the GPU or run on other streams."""
    launches: float
    """Kernels, copies on the GPU and fills of a call."""


def _streams(timing: Timing) -> Sequence[StreamWork]:
    return timing.single_call.streams if timing.single_call is not None else ()


def rounds(fn: Call, timing: Timing) -> list[Round]:
    """Take blocks in turn of a callable that was just timed."""
    stamps = Stamps()
    prepared = prepare(fn, timing.mode, flush_bytes=0, stamps=stamps)
    calls = max(1, min(MOST_CALLS, round(BLOCK_US / timing.time_us)))
    launches_us = ENQUEUE_US * sum(stream.launches for stream in _streams(timing))
    queue = partial(hold_gpu, min(max(ENQUEUE_US, launches_us) * calls, 50_000))
    lead = partial(_lead, fn, calls, HELD_BACK_LEAD_S if timing.held_back else LEAD_S)
    lead()
    span = _Span.of(fn, timing, calls, queue, stamps)
    found = []
    for _ in range(ROUNDS):
        lead()
        block = prepared.run()
        # Mode `kernels` leaves CUPTI attached, which slows the kernels of some callables.
        detach()
        lead()
        by_clock = None if span is None else span.read()
        kernels, launches = profiled(fn, calls, lead, queue, stamps)
        found.append(
            Round(
                block=Reading(block.time_us, block.sm_clock_mhz),
                kernels=kernels,
                span=by_clock,
                launches=launches,
            )
        )
    return found


def _lead(fn: Call, calls: int, seconds: float = LEAD_S) -> None:
    """Call for a while, so that the next block begins with a steady clock."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        value = None
        for _ in range(max(1, calls // 4)):
            value = fn()
        finish(value)


def profiled(fn: Call, calls: int, lead: Call, queue: Call, stamps: Stamps) -> tuple[Reading, float]:
    """Run one block under torch.profiler; return its reading, and the launches of a call."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        lead()
        queue()
        stamps.before()
        value = None
        for _ in range(calls):
            value = fn()
        finish(value)
        stamps.after()
        torch.cuda.synchronize()
    events = sorted(
        (event.time_range.start, event.time_range.end, event.name)
        for event in profiler.events() or ()
        if event.device_type == DeviceType.CUDA
    )
    detach()
    begin, end = (start for start, _, name in events if STAMP in name)
    ours = [
        (start, stop)
        for start, stop, name in events
        if begin < start < end and not any(other in name for other in NOT_OF_A_CALL)
    ]
    return Reading(busy_us(ours) / calls, stamps.sm_clock_mhz()), len(ours) / calls


def busy_us(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the time that sorted intervals cover; overlaps count once."""
    covered, total = float("-inf"), 0.0
    for start, end in intervals:
        total += max(0.0, end - max(start, covered))
        covered = max(covered, end)
    return total


class _Span:
    """Spans of calls by the GPU's clock."""

    def __init__(self, run: Call, empty: Call, times: torch.Tensor, stamps: Stamps) -> None:
        self._run, self._empty = run, empty
        self._times = times
        self._stamps = stamps

    @classmethod
    def of(cls, fn: Call, timing: Timing, calls: int, queue: Call, stamps: Stamps) -> _Span | None:
        """Prepare the calls with marks: in a graph if the timer has one, else behind a blocking kernel."""
        if timing.mode != "hot" and (
            waits_for_gpu(fn) or not all(stream.current for stream in _streams(timing))
        ):
            return None
        times = torch.zeros(calls + 1, dtype=torch.int64, device="cuda")
        bodies = [partial(_marked, each, calls, times) for each in (fn, _nothing)]
        bodies[1]()  # compiles
        if timing.mode == "hot":
            run, empty = (capture(partial(_between, stamps, body)).replay for body in bodies)
            return cls(run, empty, times, stamps)
        run, empty = (partial(_queued, queue, stamps, body) for body in bodies)
        return cls(run, empty, times, stamps)

    def read(self) -> Reading:
        """Run one block, and one without calls, whose marks take time as well."""
        span_us, clock = self._mean(self._run), self._stamps.sm_clock_mhz()
        return Reading(span_us - self._mean(self._empty), clock)

    def _mean(self, run: Call) -> float:
        run()
        torch.cuda.synchronize()
        times: Sequence[int] = self._times.tolist()
        return (times[-1] - times[0]) / 1e3 / (len(times) - 1)


def _nothing() -> None:
    pass


def _marked(fn: Call, calls: int, times: torch.Tensor) -> None:
    from benchmarks.globaltimer import works_with_mark

    for at in range(calls):
        works_with_mark[(1,)](times, at, num_warps=1)
        fn()
    works_with_mark[(1,)](times, calls, num_warps=1)


def _between(stamps: Stamps, body: Call) -> None:
    stamps.before()
    body()
    stamps.after()


def _queued(queue: Call, stamps: Stamps, body: Call) -> None:
    queue()
    _between(stamps, body)


@dataclass(frozen=True)
class Pairs:
    """Blocks of the timer over true durations, in pairs."""

    ratio: float
    """Median of the ratios."""
    true_us: float
    """Median of the true durations."""
    block_mhz: float
    true_mhz: float
    """Mean SM clocks of the two."""


def paired(
    blocks: Sequence[Reading], true: Sequence[Reading], at_clock: Callable[[float], float] = lambda _: 1.0
) -> Pairs:
    """Compare blocks with the true durations of the same rounds.

    Args:
        blocks: Blocks of the timer.
        true: True durations.
        at_clock: Time of the callable at an SM clock, which brings a block to the clock of its partner.
    """
    return Pairs(
        ratio=median(
            block.us / other.us * at_clock(other.sm_clock_mhz) / at_clock(block.sm_clock_mhz)
            for block, other in zip(blocks, true, strict=True)
        ),
        true_us=median(other.us for other in true),
        block_mhz=fmean(block.sm_clock_mhz for block in blocks),
        true_mhz=fmean(other.sm_clock_mhz for other in true),
    )
