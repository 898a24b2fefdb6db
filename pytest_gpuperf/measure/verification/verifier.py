"""Verify one timing: records, state, and single calls once more, by the instrument of their mode."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from msgspec.structs import replace

from pytest_gpuperf.compat.torch_names import profiler_runs
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.comparison import ReferenceWithCheck
from pytest_gpuperf.measure.cupti.activity import REFUSED, busy_us, counted, mark, marks_in, recorded
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.measure.timing.batch import ColdBatch, HotBatch, QueuedBatch
from pytest_gpuperf.measure.timing.graph import hold_gpu
from pytest_gpuperf.measure.timing.kernels_batch import KernelsBatch, by_call
from pytest_gpuperf.measure.verification.cupti_records import contained
from pytest_gpuperf.measure.verification.reexecution import RefusedError, Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.reachable_tensors import CallElsewhere, StateSnapshot
    from pytest_gpuperf.measure.timing.batch import Batch
    from pytest_gpuperf.records import Timing, Verification
    from pytest_gpuperf.records.call import Call

    Clock: TypeAlias = Callable[[Callable[[], Any]], tuple[float, Any]]
    """Makes a call, waits for its end, and returns its microseconds and its value."""
    Ranges: TypeAlias = Sequence[tuple[int, int]]
    """Addresses from the first number to below the second."""

RERUN_CALLS = 4
"""Calls of a graph that are run again."""
LIVE_CALLS = 8
"""Calls of another batch that are run again: each could leave its work out by chance."""
PLAIN_CALLS = 2
_chance = random.SystemRandom()
"""Chooses without a seed: the callable must not know its choice."""
_BLOCK_US, _NODE_US = 100, 3
MOST_BLOCK_US = 20_000
"""Time of the GPU, and that for each node, that hides the host's launch of a graph."""


class Rerun:
    """One call of a batch.

    Args:
        call: Makes the call.
        clock: Times it.
        place: The call's copies of the tensors, if it has other ones.
    """

    live = True
    """True if it calls the callable itself: a reference must not exist yet."""
    memory: Ranges = ()
    """Address ranges that belong to the graph and to nothing else; none without a graph."""

    def __init__(self, call: Callable[[], Any], clock: Clock, place: CallElsewhere | None = None) -> None:
        self._call = call
        self._clock = clock
        self._place = place
        self.value: object = None
        """Value of the call."""

    def run(self, before: Callable[[], object]) -> float:
        """Launch what `before` launches, then the call; wait for it and return its microseconds."""
        if self.live:
            self.value = None
        before()
        if self._place is not None:
            self._place.take()
        took_us, value = self._clock(self._call)
        if self.live:
            self.value = value
            if self._place is not None and value is None:
                self._place.give()
        return took_us


class GraphRerun(Rerun):
    """One call of a graph, without the others.

    Args:
        call: Launches its nodes.
        clock: Times it.
        value: Value of a call with outputs in the same places.
        memory: Address ranges of the graph's memory pool.
    """

    live = False

    def __init__(self, call: Callable[[], Any], clock: Clock, value: object, memory: Ranges) -> None:
        super().__init__(call, clock)
        self.value = value
        self.memory = memory


def by_events(block_us: float = _BLOCK_US, flush: Callable[[], object] = lambda: None) -> Clock:
    """Return a clock of two events, queued behind a kernel that blocks the GPU.

    Args:
        block_us: Time for which it blocks.
        flush: Launched before each call; not timed.
    """
    start, end = originals.event(), originals.event()

    def clock(call: Callable[[], Any]) -> tuple[float, Any]:
        flush()
        originals.synchronize()
        hold_gpu(block_us)
        originals.record(start)
        value = call()
        originals.record(end)
        originals.synchronize()
        return originals.elapsed_us(start, end), value

    return clock


def by_host(call: Callable[[], Any]) -> tuple[float, Any]:
    """Time a call and its end on the GPU by the host's clock."""
    finish()
    begin = originals.now()
    value = call()
    finish(value)
    return (originals.now() - begin) * 1e6, value


def by_records(call: Callable[[], Any]) -> tuple[float, Any]:
    """Time a call by the records of its kernels, between two marks."""
    finish()
    with recorded(stay=True) as activities:
        mark()
        value = call()
        finish(value)
        mark()
    marks = sorted(one.launch for one in marks_in(activities, 2))
    return sum(busy_us(counted(by_call(activities, marks)))), value


def reruns_of(batch: Batch) -> list[Rerun]:
    """Return some of the calls that were timed, to be run one by one on other values.

    Those at other places come early: a slow verification leaves the last ones out, and each has only one.

    Raises:
        GpuperfError: Single calls of this batch cannot be run.
    """
    others = batch.places.calls[1:] if batch.places else []
    elsewhere = [Rerun(one, by_events(), one) for one in _chance.sample(others, len(others))[:RERUN_CALLS]]
    if isinstance(batch, (HotBatch, ColdBatch)):
        last, *rest = _of_graph(batch)
        return [last, *elsewhere, *rest, *[Rerun(batch.fn, by_events())] * PLAIN_CALLS]
    if isinstance(batch, QueuedBatch):
        queued = [Rerun(batch.fn, by_events(max(batch.block_us / batch.calls, _BLOCK_US)))] * LIVE_CALLS
        return [queued[0], *elsewhere, *queued[1:]]
    return [Rerun(batch.fn, by_records if isinstance(batch, KernelsBatch) else by_host)] * LIVE_CALLS


def _of_graph(batch: HotBatch | ColdBatch) -> list[Rerun]:
    """Return calls of a graph: the last, one of each kind that differs from it, and some by chance."""
    calls = batch.captured
    if calls.unavailable:
        raise GpuperfError(calls.unavailable)
    last = len(calls) - 1
    chosen = [last, *(_chance.choice(of_kind) for of_kind in calls.kinds().values() if last not in of_kind)]
    chosen += _chance.sample(range(len(calls)), min(RERUN_CALLS, len(calls)))
    # Each question costs milliseconds if another thread of Python is busy.
    pool = batch.graph.pool()
    memory = [
        (one["address"], one["address"] + one["total_size"])
        for one in torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        if tuple(one["segment_pool_id"]) == pool
    ]
    flush = batch.flush if isinstance(batch, ColdBatch) else lambda: None
    found: list[Rerun] = []
    for call in list(dict.fromkeys(chosen))[:RERUN_CALLS]:
        one = calls.only(call)
        clock = by_events(min(_BLOCK_US + _NODE_US * one.nodes, MOST_BLOCK_US), flush)
        found.append(GraphRerun(one.launch, clock, calls.value_of(call), memory))
    return found


MOST_SINGLE = 3.0
SINGLE_EXTRA_US = 20.0
"""Largest time of a call by itself, over that of a call among others and with the launch of its graph."""


class Verifier:
    """Verifies the timing of one callable.

    Args:
        call: The call; its output is compared with its reference, if it has one.
        before: What it may write, and the state of the process, noted before the timing.
        originals: Functions as they have to be after the timing.
        strict: True to refuse a doubted or unverified time.
    """

    def __init__(
        self,
        call: Call,
        before: StateSnapshot,
        originals: originals.Originals | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self._call = call
        self._before = before
        self._originals = originals
        self._strict = strict
        self._profiled = profiler_runs()

    def __call__(self, batch: Batch, timing: Timing, mode: str) -> Timing:
        """Verify a timing.

        Args:
            batch: The calls that were timed.
            timing: Its time.
            mode: The mode that was asked for.

        Returns:
            The timing with its verification.

        Raises:
            UncontainedError: The time does not contain all work of a call.
            GpuperfError: Calls launch at another time, or functions of a library were replaced.
        """
        self._refuse_patches()
        changed = self._before.changed_argument()
        timing = contained(batch, timing, mode)
        found = self.replay(lambda: reruns_of(batch), changed)
        doubts = (*(timing.verification.doubts if timing.verification else ()), *found.doubts)
        most_us = MOST_SINGLE * timing.time_us + SINGLE_EXTRA_US
        # A blocking launch ends before the next one: events have the host's time between them.
        by_host = timing.mode == "host" or originals.LAUNCHES_BLOCK
        if not by_host and found.single_us > most_us:
            # A kernel can see from the GPU's clock that another one has just ended, and a callable from the
            # stack who calls it, and leave its work out.
            doubts += (
                f"a call by itself takes {found.single_us:.4g} µs, and one of many {timing.time_us:.4g} µs; "
                "let every call do all of its work",
            )
        # An output that only a check can judge may differ from that of a plain call.
        judged = self._call.reference and isinstance(self._call.reference.expected, ReferenceWithCheck)
        if self._strict and not (doubts or found.refused or found.other_values or judged):
            doubts = (
                f"nothing shows that timed calls did their work: {found.not_verified}; pass their tensors as "
                "arguments, with inputs= if they are integers, and return the same for the same values",
            )
        if self._strict and doubts and not found.refused:
            found = replace(found, refused=f"{REFUSED}{doubts[0]}")
        self._refuse_patches()
        return replace(timing, verification=replace(found, doubts=doubts))

    def replay(self, reruns: Callable[[], Sequence[Rerun]], changed: str = "") -> Verification:
        """Look for changes that the callable has made, and run some of the timed calls again.

        Args:
            reruns: Returns the calls.
            changed: An argument that was found changed, while single calls had not run yet.
        """
        begin = originals.now()
        one = Replay(self._call, self._before)
        why = refused = ""
        try:
            if changed := changed or self._before.changed_argument():
                raise RefusedError(
                    f"{changed} was changed while it was timed; expected its values as before; next "
                    "step: if the callable is meant to write to it, name it in mutates="
                )
            if change := self._before.process.change():
                raise RefusedError(
                    f"the callable has changed {change}; expected a callable that leaves it as it is; next "
                    "step: if the test is meant to run so, set it before the first call"
                )
            one.run(reruns())
        except RefusedError as error:
            refused = f"{REFUSED}{error}"
        except GpuperfError as error:
            why = error.found
        except torch.cuda.OutOfMemoryError:
            why = "the GPU has too little free memory"
        except Exception as error:  # of the callable, or of its reference
            why = f"other values raise {type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        finally:
            one.end()
        seconds = round(originals.now() - begin, 4)
        why = why or one.found.not_verified
        return replace(one.found, refused=refused, not_verified=why, seconds=seconds)

    def _refuse_patches(self) -> None:
        if profiler_runs() and not self._profiled:
            raise GpuperfError(
                f"{REFUSED}the callable has started a torch.profiler, which keeps other records away",
                next_step="start it before the test, or use gpuperf.trace",
            )
        if self._originals is not None and (patched := self._originals.patched()):
            raise GpuperfError(
                f"{REFUSED}{patched} is not the original function",
                expected="clocks, synchronisation and comparisons as their libraries define them",
            )
