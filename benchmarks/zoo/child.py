"""A process that checks and times callables of the zoo, one after the other."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from functools import cached_property, partial
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import msgspec
import torch
from msgspec.structs import replace

from benchmarks.zoo.cases import zoo
from benchmarks.zoo.results import Fate, Tried
from benchmarks.zoo.turns import Turns
from pytest_gpuperf.compat.compiler_names import forget_compiled_code
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.activity import mark, recorded, wait_for_threads
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, detach
from pytest_gpuperf.measure.device import memory, originals
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.measure.first_calls import CodeReader
from pytest_gpuperf.measure.timing.graph import hold_gpu
from pytest_gpuperf.measure.timing.kernels_batch import KernelsBatch
from pytest_gpuperf.measure.timing.timer import Timer
from pytest_gpuperf.measure.verification.cupti_records import MOST_BLOCK_US, audit_of
from pytest_gpuperf.records import Verification
from pytest_gpuperf.records.call import Call, Reference
from pytest_gpuperf.session.live_source import LiveSource, restored
from pytest_gpuperf.session.progress import Display, News
from pytest_gpuperf.session.seeds import seed, seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.children import Parent
    from benchmarks.zoo.cases import Animal
    from benchmarks.zoo.typed_operators import Honest
    from pytest_gpuperf.records import Timing, TimingMode

LONGEST_MESSAGE = 300
NOT_IN_THIS_MODE = (
    "needs a callable",
    "too short to be timed cold",
    "a stream or a device that is not captured",
)
"""Parts of messages that a mode cannot time a callable."""
REFERENCE_CALLS = 20
PROBED = (1 << 16, 1 << 18, 1 << 20)
"""Elements of the kernels whose times by events and by records show the gap of a launch."""


class Order(msgspec.Struct, frozen=True):
    """Orders for one callable."""

    name: str
    asked: tuple[str, ...]
    """Modes, `check` for the comparison before them, and `again` after them for a second time of the last
    one: it is taken only if the last mode has not timed the callable as another one did."""
    recorded: bool = True
    """Whether single calls are recorded, too: the reference of a time."""


class Bench:
    """Checks and times callables as a test with the `gpuperf` fixture does.

    Args:
        budget_s: Seconds of a timing after its warm-up.
        verify: `auto`, `strict` or `off`.
    """

    def __init__(self, budget_s: float, verify: str) -> None:
        gpu = gpu_info()
        nvml = Nvml(gpu.uuid)
        self._flush_bytes = 2 * gpu.l2_bytes
        self._timer = Timer(
            gpu.l2_bytes,
            budget_s,
            nvml.conditions,
            nvml.max_sm_clock_mhz,
        )
        self._source = LiveSource(
            counters=cast("Any", None),
            timer=self._timer,
            codes=CodeReader(""),
            display=Display(News()),
            verify=verify,
        )

    def check(self, call: Call) -> str:
        """Compare the call with its reference, and return why it fails; empty if it passes."""
        return self._source.check(call).failure

    def time(self, call: Call, mode: str) -> Timing:
        """Time and verify the call."""
        return self._source.time(call, mode=mode, bytes=0, flops=0)

    def reference(self, call: Call, mode: TimingMode) -> tuple[float, float] | None:
        """Record single calls.

        Returns:
            The union of their record intervals in microseconds a call, and the launches of a call; None if
            they cannot be recorded, or the mode has another clock.
        """
        try:
            with restored(call):
                if mode == "kernels":
                    work = KernelsBatch(call).run().work
                    assert work is not None
                    return work.busy_us, sum(stream.launches for stream in work.streams)
                if mode not in ("hot", "cold"):
                    return None
                begin = originals.now()
                for _ in range(3):
                    finish(call())
                enqueue_us = (originals.now() - begin) / 3 * 1e6
                return self._recorded(call, enqueue_us, flushes=mode == "cold")
        except CuptiError:
            return None
        finally:
            detach()

    def _recorded(self, call: Call, enqueue_us: float, *, flushes: bool) -> tuple[float, float]:
        """Record single calls with their copies from and to the host: a graph's time has them, too."""
        with recorded() as activities:
            hold_gpu(min(100 + 2 * enqueue_us * REFERENCE_CALLS, MOST_BLOCK_US))
            for _ in range(REFERENCE_CALLS):
                if flushes:
                    self._flush()
                mark()
                call()
                mark()
            wait_for_threads()
        all_count = [one._replace(with_host=False) for one in activities]
        found = audit_of(all_count, REFERENCE_CALLS, between=int(flushes))
        return found.busy_us, found.launches

    @cached_property
    def gap_us(self) -> float:
        """Gap that events add for each launch in a graph, next to the records, in microseconds."""
        gaps = []
        for elements in PROBED:
            x = torch.randn(elements, device="cuda")
            try:
                timing = self._timer.time(partial(torch.square, x), mode="hot")
            except GpuperfError:  # without cached memory nothing is captured, and no time includes gaps
                return 0.0
            by_events, by_records = timing.us_by("events"), timing.us_by("cupti")
            if by_events is not None and by_records is not None:
                gaps.append(by_events - by_records)
        return median(gaps) if gaps else 0.0

    @cached_property
    def _buffer(self) -> torch.Tensor:
        return torch.empty(self._flush_bytes, dtype=torch.int8, device="cuda")

    def _flush(self) -> None:
        memory.reset_l2()
        originals.zero(self._buffer)


def tries(
    bench: Bench, animal: Animal, one: Honest, order: Order, parent: Parent, turns: Turns
) -> Iterator[Tried]:
    """Check and time one callable."""
    call = Call(animal.name, "main", one.fn, one.args)
    reference = Reference(one.expected, one.rtol, one.atol, False, one.mutates)
    checked = Call(animal.name, "main", one.fn, one.args, reference=reference)
    timed = checked if one.expected is not None else call
    modes: dict[str, TimingMode] = {}
    for asked in order.asked:
        if asked == "check" and one.expected is None:
            continue
        if asked == "again" and not _is_single(modes):
            continue
        found = Tried(name=animal.name, kind=animal.kind, asked=asked, fate="checked")
        with turns.for_time(parent) if asked != "check" else nullcontext():
            parent.tell({"begins": asked})
            begin = time.monotonic()
            try:
                if asked == "again":
                    again = replace(found, run="again")
                    found = _with_timing(bench, timed, again, [*modes][-1], records=order.recorded)
                elif asked != "check":
                    found = _with_timing(bench, timed, found, asked, records=order.recorded)
                    if found.mode is not None:
                        modes[asked] = found.mode
                elif failure := bench.check(checked):
                    found = replace(found, fate="refused", message=_first_line(failure))
                    timed = call  # whose time is known all the same
            except Exception as error:
                found = replace(found, fate=_fate(error, call), message=_first_line(str(error)))
            found = replace(found, seconds=round(time.monotonic() - begin, 3))
        yield found


def _is_single(modes: Mapping[str, TimingMode]) -> bool:
    """Return True if the last of these times is the only one of its mode."""
    return bool(modes) and [*modes.values()].count([*modes.values()][-1]) == 1


def _with_timing(bench: Bench, call: Call, found: Tried, asked: str, *, records: bool) -> Tried:
    timing = bench.time(call, asked)
    if timing.refused:
        return replace(found, fate="refused", message=_first_line(timing.refused))
    single = bench.reference(call, timing.mode) if records else None
    verification = timing.verification or Verification()
    return replace(
        found,
        fate="timed",
        doubt="; ".join(verification.doubts),
        not_verified=verification.not_verified,
        verification_s=verification.seconds,
        unseen_ratio=verification.unseen_ratio,
        single_us=verification.single_us,
        mode=timing.mode,
        source=timing.source,
        time_us=round(timing.time_us, 4),
        spread_pct=round(timing.spread_pct, 3),
        held_back=bool(timing.held_back),
        busy_us=None if single is None else round(single[0], 4),
        launches=0.0 if single is None else single[1],
        gap_us=round(bench.gap_us, 4) if records and timing.source == "events" else 0.0,
    )


def _fate(error: Exception, call: Call) -> Fate:
    """Judge an exception; the callable may be at fault by itself."""
    if isinstance(error, GpuperfError):
        return "other mode" if any(part in str(error) for part in NOT_IN_THIS_MODE) else "refused"
    with suppress(Exception):
        finish(call())
        return "crashed"
    try:
        finish()
    except Exception:  # the GPU's state is broken, and every call fails
        return "crashed"
    return "broken"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:LONGEST_MESSAGE]


def _warm_up(one: Honest) -> None:
    """Compile: an exception is one of the timing, too."""
    call = Call("", "main", one.fn, one.args)
    with suppress(Exception), restored(call):
        finish(call())


def work(parent: Parent, budget_s: str, verify: str, file: str = "") -> None:
    """Carry out orders until the parent says that there are no more.

    Args:
        parent: The parent.
        budget_s: Seconds of a timing after its warm-up.
        verify: `auto`, `strict` or `off`.
        file: File of the turns if other processes use the GPU.
    """
    animals = zoo()
    parent.wait_for_turn()
    turns = Turns(file)
    bench = None if file else Bench(float(budget_s), verify)
    parent.tell({"gap_us": bench.gap_us if bench else None})
    while (wanted := parent.hear()) is not None:
        order = msgspec.convert(wanted, Order)
        animal = animals[order.name]
        turns.prepare(parent)
        if bench is None:
            parent.tell({"begins": "start"})
            bench = Bench(float(budget_s), verify)
        forget_compiled_code()
        seed(seed_of(order.name))
        try:
            if torch.cuda.device_count() < animal.gpus:
                raise ImportError(f"needs {animal.gpus} GPUs")
            parent.tell({"begins": "make"})
            one = animal.make(torch.device("cuda", torch.cuda.current_device()))
            if file and "check" not in order.asked:
                _warm_up(one)
        except ImportError as missing:
            parent.tell(
                {"absent": _first_line(str(missing)).partition(" (/")[0]}
            )  # without the machine's folders
        except Exception as error:
            parent.tell({"absent": f"cannot be made: {type(error).__name__}: {_first_line(str(error))}"})
        else:
            for found in tries(bench, animal, one, order, parent, turns):
                parent.tell({"tried": msgspec.to_builtins(found)})
            del one
        with suppress(torch.cuda.OutOfMemoryError):
            # Fails if a kernel has broken the GPU's state: this process ends, and another one goes on.
            torch.cuda.synchronize()
        parent.tell({"done": order.name})
