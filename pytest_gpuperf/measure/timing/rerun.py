"""Run single calls of a batch again, with the instrument that timed them.

Between two of them the caller writes other values into the inputs and fills the outputs with a pattern: then
a call that did not do its work shows.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import kept
from pytest_gpuperf.measure.device.finish import finish
from pytest_gpuperf.measure.timing.graph import block_gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.timing.captured import CapturedCalls, OneCall

Ranges: TypeAlias = "Sequence[tuple[int, int]]"
"""Addresses from the first number to below the second."""
RERUN_CALLS = 4
"""Calls of a batch that are run again."""
PLAIN_CALLS = 2
_BLOCK_US, _NODE_US = 100, 3
MOST_BLOCK_US = 20_000
"""Time of the GPU, and that for each node, that hides the host's launch of a graph."""


class Elsewhere(Protocol):
    """The call of a batch on copies of its tensors at other places in memory."""

    def __call__(self) -> Any:
        """Call it there."""

    def take(self) -> None:
        """Write the present values of the call's own tensors into the copies."""

    def give(self) -> None:
        """Write the values of the copies into the call's own tensors."""


class Rerun(Protocol):
    """One call of a batch."""

    live: bool
    """True if it calls the callable itself: a reference must not exist yet."""

    def run(self, before: Callable[[], object]) -> float:
        """Launch what `before` launches, then the call; wait for it and return its microseconds."""

    @property
    def value(self) -> object:
        """Value of the call."""

    @property
    def memory(self) -> Ranges:
        """Address ranges that belong to the graph and to nothing else; none without a graph."""


class Rerunnable(Protocol):
    """A batch, as the verification sees it."""

    def rerun(self) -> Sequence[Rerun]:
        """Return some of the calls that were timed, to be run one by one on other values.

        Raises:
            GpuperfError: Single calls of this batch cannot be run.
        """


class GraphRerun:
    """One call of a graph, without the others.

    Args:
        call: The call.
        value: Value of a call with outputs in the same places.
        memory: Address ranges of the graph's memory pool.
        flush: Launched before each run; not timed.
    """

    live = False

    def __init__(self, call: OneCall, value: object, memory: Ranges, flush: Callable[[], object]) -> None:
        self._call = call
        self._block_us = min(_BLOCK_US + _NODE_US * call.nodes, MOST_BLOCK_US)
        self._flush = flush
        self._pair = kept.event(), kept.event()
        self.memory = memory
        self.value = value

    def run(self, before: Callable[[], object]) -> float:
        """Run the nodes of the call between two events."""
        start, end = self._pair
        before()
        self._flush()
        kept.synchronize()
        block_gpu(self._block_us)
        kept.record(start)
        self._call.launch()
        kept.record(end)
        kept.synchronize()
        return kept.elapsed_us(start, end)


class QueuedRerun:
    """A call between two events, queued behind a kernel that blocks the GPU."""

    live = True
    memory: ClassVar[Ranges] = ()

    def __init__(self, fn: Callable[[], Any], block_us: float) -> None:
        self._fn = fn
        self._block_us = block_us
        self._pair = kept.event(), kept.event()
        self.value: object = None

    def run(self, before: Callable[[], object]) -> float:
        """Run one call."""
        start, end = self._pair
        self.value = None
        before()
        block_gpu(max(self._block_us, _BLOCK_US))
        kept.record(start)
        self.value = self._fn()
        kept.record(end)
        kept.synchronize()
        return kept.elapsed_us(start, end)


class RerunElsewhere(QueuedRerun):
    """A call elsewhere on the values of the call's own tensors; changes are written back into these."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        super().__init__(elsewhere, _BLOCK_US)
        self._elsewhere = elsewhere

    def run(self, before: Callable[[], object]) -> float:
        """Run one call."""

        def write() -> None:
            before()
            self._elsewhere.take()

        took_us = super().run(write)
        if self.value is None:
            self._elsewhere.give()
        return took_us


class HostRerun:
    """A call and its end on the GPU, by the host's clock."""

    live = True
    memory: ClassVar[Ranges] = ()

    def __init__(self, fn: Callable[[], Any]) -> None:
        self._fn = fn
        self.value: object = None

    def run(self, before: Callable[[], object]) -> float:
        """Run one call."""
        self.value = None
        before()
        finish()
        begin = kept.now()
        self.value = self._fn()
        finish(self.value)
        return (kept.now() - begin) * 1e6


def of_graph(
    calls: CapturedCalls,
    graph: torch.cuda.CUDAGraph,
    fn: Callable[[], Any],
    others: Sequence[Elsewhere],
    flush: Callable[[], object] = lambda: None,
) -> list[Rerun]:
    """Return calls of a graph: the last, one of each kind that differs from it, and some by chance.

    Plain calls are among them, here and elsewhere: short calls are timed by CUPTI outside of the graph.

    Raises:
        GpuperfError: The driver refuses, or the outputs of the calls lie in different places.
    """
    if calls.unavailable:
        raise GpuperfError(calls.unavailable)
    last = len(calls) - 1
    # The callable must not know the choice, so no generator that it can seed.
    chance = random.SystemRandom()
    chosen = [last, *(chance.choice(of_kind) for of_kind in calls.kinds().values() if last not in of_kind)]
    chosen += chance.sample(range(len(calls)), min(RERUN_CALLS, len(calls)))
    # Each question costs milliseconds if another thread of Python is busy.
    pool = graph.pool()
    memory = [
        (one["address"], one["address"] + one["total_size"])
        for one in torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        if tuple(one["segment_pool_id"]) == pool
    ]
    captured: list[Rerun] = [
        GraphRerun(calls.only(call), calls.value_of(call), memory, flush)
        for call in list(dict.fromkeys(chosen))[:RERUN_CALLS]
    ]
    plain = [QueuedRerun(fn, _BLOCK_US)] * PLAIN_CALLS
    # A slow verification leaves the last ones out, and each place has only one.
    return [captured[0], *map(RerunElsewhere, others), *captured[1:], *plain]
