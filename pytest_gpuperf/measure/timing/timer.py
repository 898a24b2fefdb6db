"""Time one callable: warm up, measure blocks, and find their dependence on the SM clock.

A call is short if it takes less than 30 launch gaps: CUPTI's records of its kernels are its time, not events.
"""

from __future__ import annotations

from functools import cache, cached_property
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, detach
from pytest_gpuperf.measure.device import memory, originals
from pytest_gpuperf.measure.timing.batch import MAX_RECORDED_CALLS, SHORT_IN_GAPS, launch_gap_us
from pytest_gpuperf.measure.timing.batch_preparation import prepare
from pytest_gpuperf.measure.timing.kernels_batch import KernelsBatch, single_call_of
from pytest_gpuperf.measure.timing.sm_clock import BURN_S, Burn, Stamps, at_other_clocks
from pytest_gpuperf.measure.verification.cupti_records import UncontainedError, contained
from pytest_gpuperf.records import OtherTime, Timing, Workload
from pytest_gpuperf.statistics.clock_model import fit, normalise_blocks, scaled
from pytest_gpuperf.statistics.decision import (
    PRECISE_PCT,
    interquartile_range,
    standard_error,
    trimmed_mean,
)
from pytest_gpuperf.statistics.thresholds import HELD_BACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from pytest_gpuperf.measure.reachable_tensors import CallElsewhere
    from pytest_gpuperf.measure.timing.batch import Batch, Block
    from pytest_gpuperf.records import ClockModel, Conditions, TimingSource, WarmUp
    from pytest_gpuperf.records.timing import KnownTime

    Verify: TypeAlias = Callable[[Batch, Timing, str], Timing]
    """Returns the timing of a callable with what speaks against it; the text is the mode asked for."""

LEAST_BLOCKS = 10
"""Blocks before the budget may end them."""
ENOUGH_BLOCKS = 20
"""Blocks before they may be called precise."""
MOST_BLOCKS = 100
RECORDED_BLOCKS = 15
"""Blocks under CUPTI at the place of the call's own tensors."""
ROUNDS = 4
"""Blocks at each of several places, with its outputs at four other ones."""
STILL_RECORDED = 10
"""Times the limit of a short call: CUPTI's time is recorded up to there, so that a kernel that has become
this much slower is still compared with a baseline by CUPTI."""
FACTOR_BY_USUAL_SOURCE = {"events": 0.5, "cupti": STILL_RECORDED}
"""Times the limit of a short call: a time near it keeps the source that the baseline has."""
ATTEMPTS = 3
RESTLESS_PCT = 1.0
"""Spread of the blocks, in percent, from which another process on the GPU counts as a disturbance."""
DISTURBING = frozenset(
    ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
)
"""Throttle reasons that the kernel does not cause itself (it does cause the power limit)."""
_SOURCES: Mapping[str, TimingSource] = {"host": "host", "kernels": "cupti"}
"""Sources of the modes that are not timed by events."""


class Timer:
    """Times callables on the current CUDA device.

    Args:
        l2_bytes: Size of the device's L2, in bytes; a cold timing flushes twice as much.
        budget_s: Seconds of wall clock for one timing, from the end of its warm-up. At least `LEAST_BLOCKS`
            blocks are taken in any case.
        conditions: Reads the state of the GPU after a timing.
        max_sm_clock_mhz: Highest SM clock of the device, in MHz; 0 if unknown.
    """

    def __init__(
        self,
        l2_bytes: int,
        budget_s: float,
        conditions: Callable[[], Conditions | None],
        max_sm_clock_mhz: float = 0.0,
    ) -> None:
        self._flush_bytes = 2 * l2_bytes
        self.budget_s = budget_s
        self._conditions = conditions
        self._max_sm_clock_mhz = max_sm_clock_mhz
        self._on_device = cache(_Instruments)

    def prepare(self, fn: Callable[[], Any], mode: str) -> Batch:
        """Compile and capture a callable; see `pytest_gpuperf.measure.timing.batch_preparation.prepare`."""
        return prepare(fn, mode, flush_bytes=self._flush_bytes, stamps=self._instruments.stamps)

    def warm_up(self, fn: Callable[[], Any]) -> WarmUp:
        """Run `fn` until its time is steady."""
        try:
            return self.prepare(fn, "auto").warm_up().warm_up
        finally:
            detach()

    def time(
        self,
        fn: Callable[[], Any],
        *,
        mode: str,
        bytes: int = 0,
        flops: int = 0,
        progress: Callable[[str], None] = lambda _: None,
        verify: Verify = contained,
        known: KnownTime | None = None,
        elsewhere: Callable[[], CallElsewhere] | None = None,
    ) -> Timing:
        """Warm up, then time blocks of calls until they are precise or the budget is spent.

        A timing that heat throttled or another process disturbed is repeated, at most twice.

        Args:
            fn: A callable without arguments; it is called many times.
            mode: `auto`, `hot`, `cold`, `queued`, `kernels` or `host`.
            bytes: Bytes that a call moves, kept in the record.
            flops: Operations of a call, kept in the record.
            progress: Called with the present activity.
            verify: Verifies the time; by default it compares records of single calls.
            known: The baseline's time; None without a baseline. Near its clock its model spares the blocks at
                other clocks.
            elsewhere: Returns the same call on tensors at other places in memory; a short time is the mean
                over several.

        Raises:
            GpuperfError: A mode that needs a capture and gets none, a callable that
                launches nothing, one too short to be timed cold, or a time that is refused.
        """

        def verified(batch: Batch) -> Timing:
            timing = self._undisturbed(batch, progress, known)
            progress("verifies")
            return verify(batch, timing, mode)

        progress("compiles")
        with memory.l2_reset_after(), originals.library_unchanged():
            try:
                batch = self.prepare(fn, mode)
                batch.elsewhere = elsewhere
                try:
                    timing = verified(batch)
                except UncontainedError as error:
                    if mode != "auto":
                        raise
                    batch.places = None  # the exception keeps the batch, whose copies take memory
                    batch = KernelsBatch(fn, self._instruments.stamps)
                    batch.not_captured = error.why
                    timing = verified(batch)
            finally:
                # Recorded batches leave CUPTI attached between their blocks.
                detach()
        return replace(timing, work=Workload(bytes=bytes or None, flops=flops or None))

    def _undisturbed(self, batch: Batch, progress: Callable[[str], None], known: KnownTime | None) -> Timing:
        """Measure, and repeat what heat or another process disturbed."""
        thrown_away: list[str] = []
        while True:
            timing = self._measure(batch, progress, known)
            why, state = disturbed(timing), timing.conditions
            if state is not None and (not why or len(thrown_away) == ATTEMPTS - 1):
                return replace(timing, conditions=replace(state, measured_again=tuple(thrown_away)))
            if not why:
                return timing
            thrown_away.append(why)

    def _measure(self, batch: Batch, progress: Callable[[str], None], known: KnownTime | None) -> Timing:
        progress("warms up")
        warm_up, begun = batch.warm_up()
        end = originals.now() + self.budget_s

        progress("measures")
        steady = self._steady_blocks(batch, self.budget_s / 2, begun)
        steady_us = trimmed_mean([block.time_us for block in steady])
        # Before the clocks are moved, so that NVML's averages are those of the steady blocks.
        conditions = self._conditions()
        usual, known_model = (known.source, known.model) if known and known.mode == batch.mode else ("", None)
        source: TimingSource = _SOURCES.get(batch.mode, "events")
        limits = steady_us / (SHORT_IN_GAPS * self._instruments.launch_gap_us)
        is_short = limits < FACTOR_BY_USUAL_SOURCE.get(usual, 1.0)
        recorded, not_recorded = _recorded_blocks(batch, limits, at_places=is_short)
        blocks, other = steady, recorded
        # Of a short call CUPTI's blocks are the time; the others are kept, too, for another baseline.
        if recorded and source == "events" and is_short:
            source, blocks, other = "cupti", recorded, steady
        times = [block.time_us for block in blocks]
        time_us = trimmed_mean(times)
        if batch.mode == "cold" and source == "events":
            _refuse_noise(times)

        model = self._near(known_model if source == usual else None, steady, time_us)
        if model is None:
            progress("measures at other clocks")
            model = self._clock_model(batch, steady, end, scale=time_us / steady_us if steady_us > 0 else 0.0)
        single_call = None
        if isinstance(batch, KernelsBatch):
            progress("measures the host")
            single_call = single_call_of(blocks, batch.host_blocks_us())
        spread = interquartile_range(times) / time_us
        if batch.places is not None and batch.mode == "hot":  # several places differ by more
            spread = interquartile_range([block.time_us for block in steady]) / steady_us
        timing = Timing(
            mode=batch.mode,
            time_us=round(time_us, 6),
            spread_pct=100 * spread,
            blocks_us=tuple(round(time_us, 6) for time_us in times),
            calls_per_block=min(batch.calls, MAX_RECORDED_CALLS) if source == "cupti" else batch.calls,
            source=source,
            single_call=single_call,
            launch_gap_us=round(self._instruments.launch_gap_us, 4)
            if batch.mode in ("hot", "cold")
            else None,
            blocks_mhz=_clocks(blocks),
            other=_other(other, batch.not_recorded or not_recorded),
            clock_model=model,
            not_captured=batch.not_captured,
            warm_up=warm_up,
            conditions=conditions,
        )
        return replace(timing, normalised_us=normalised_us(timing))

    def _steady_blocks(self, batch: Batch, seconds: float, begun: Sequence[Block]) -> list[Block]:
        """Run blocks until they are precise, or until the time is up.

        Args:
            batch: The batch of the callable.
            seconds: The time.
            begun: Blocks that its warm-up has measured already.
        """
        blocks = [*begun]
        end = originals.now() + seconds
        while not _precise(blocks):
            if len(blocks) >= LEAST_BLOCKS and (len(blocks) >= MOST_BLOCKS or originals.now() >= end):
                break
            blocks.append(batch.run())
        return blocks

    def _near(self, model: ClockModel | None, blocks: Sequence[Block], time_us: float) -> ClockModel | None:
        """Return a known model, made to fit a time, if the blocks ran near its clock and at the full one."""
        if model is None or not all(block.sm_clock_mhz for block in blocks):
            return None
        mhz = median(block.sm_clock_mhz for block in blocks)
        clocks = mhz, model.reference_mhz
        if min(clocks) < HELD_BACK * max(*clocks, self._max_sm_clock_mhz):
            return None
        return replace(scaled(model, time_us, mhz), stored=True)

    def _clock_model(
        self, batch: Batch, steady: Sequence[Block], end: float, *, scale: float
    ) -> ClockModel | None:
        """Fit the dependence of the time on the SM clock, from the steady blocks and some at other clocks.

        Args:
            batch: The batch of the callable.
            steady: Its steady blocks.
            end: End of the budget.
            scale: CUPTI's time over that of the steady blocks; 0 if the blocks are all noise.
        """
        if not scale or not all(block.sm_clock_mhz for block in steady):
            return None
        if originals.now() + BURN_S > end:
            return None
        steady_mhz = median(block.sm_clock_mhz for block in steady)
        held_back = steady_mhz < HELD_BACK * self._max_sm_clock_mhz
        others = at_other_clocks(batch, self._instruments.burn, held_back=held_back)
        blocks = [*steady, *others]
        return fit(
            [block.time_us * scale for block in blocks],
            [block.sm_clock_mhz for block in blocks],
            reference_mhz=steady_mhz,
        )

    @property
    def _instruments(self) -> _Instruments:
        return self._on_device(torch.cuda.current_device())


class _Instruments:
    """Stamps, launch gap and burn of one device, which its timings share: they have memory there."""

    def __init__(self, _device: int) -> None:
        self.stamps = Stamps()

    @cached_property
    def launch_gap_us(self) -> float:
        """Return the launch gap of this process, measured on a warm GPU."""
        return launch_gap_us()

    @cached_property
    def burn(self) -> Burn:
        """Return the burn, which takes much memory."""
        return Burn()


def _recorded_blocks(batch: Batch, limits: float, *, at_places: bool) -> tuple[list[Block], str]:
    """Run blocks under CUPTI if the time is short or of medium length.

    Args:
        batch: The batch of the callable.
        limits: Its time, in times of the limit of a short one.
        at_places: True for several places in memory, if it works there.

    Returns:
        The blocks, and the reason if there are none.
    """
    # A time by the host's clock does not tell how long its kernels are.
    if batch.mode == "kernels" or (batch.mode != "host" and limits >= STILL_RECORDED):
        return [], ""
    try:
        blocks = batch.run_at_places(ROUNDS) if at_places and batch.mode != "host" else []
        return blocks or batch.run_recorded(RECORDED_BLOCKS), ""
    except CuptiError as error:
        return [], error.found


def _precise(blocks: Sequence[Block]) -> bool:
    times = [block.time_us for block in blocks]
    return len(times) >= ENOUGH_BLOCKS and standard_error(times) < PRECISE_PCT / 100 * trimmed_mean(times)


def disturbed(timing: Timing) -> str:
    """Return the reason to repeat a timing; empty if there is none."""
    state = timing.conditions
    if state is None:
        return ""
    throttled = DISTURBING.intersection(state.throttle_reasons)
    if throttled:
        return f"the clocks were held back ({', '.join(sorted(throttled))})"
    # An idle neighbour does no harm.
    if state.other_processes and timing.spread_pct > RESTLESS_PCT:
        return f"another process was on the GPU, and the blocks spread by {timing.spread_pct:.1f} %"
    return ""


def normalised_us(timing: Timing) -> float | None:
    """Return the time of the blocks at the reference clock of their model; None without a model."""
    model = timing.clock_model
    if model is None or not timing.sm_clock_mhz:
        return None
    return round(trimmed_mean(normalise_blocks(timing.blocks_us, timing.blocks_mhz, model)), 6)


def _other(blocks: Sequence[Block], not_recorded: str) -> OtherTime | None:
    """Return the time of the blocks by the other source, and why it is not CUPTI's."""
    if not blocks:
        return OtherTime(not_recorded=not_recorded) if not_recorded else None
    clocks = _clocks(blocks)
    return OtherTime(
        time_us=round(trimmed_mean([block.time_us for block in blocks]), 6),
        sm_clock_mhz=round(fmean(clocks), 1) if clocks else None,
        not_recorded=not_recorded,
    )


def _clocks(blocks: Sequence[Block]) -> tuple[float, ...]:
    clocks = tuple(round(block.sm_clock_mhz, 1) for block in blocks)
    return clocks if all(clocks) else ()


def _refuse_noise(times: Sequence[float]) -> None:
    """Refuse a cold time by events that is below the noise of the flushes.

    Raises:
        GpuperfError: The time is below the noise.
    """
    mean, spread = trimmed_mean(times), interquartile_range(times)
    # The time is a difference, and the noise of the flushes does not shrink with it.
    if mean <= 0 or spread > mean:
        raise GpuperfError(
            f"the callable is too short to be timed cold: {mean:.3g} µs a call, with a spread of "
            f"{spread:.3g} µs from the subtracted flushes",
            expected="a time above that spread",
            next_step="use mode='hot'",
        )
