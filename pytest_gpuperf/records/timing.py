"""The time of a call: how it was taken, by what, at which clock, and beside older code."""

from __future__ import annotations

from math import isfinite
from typing import Literal, TypeAlias

import msgspec

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.statistics.clock_model import ClockModel

HELD_BACK = 0.97
"""Of the highest SM clock: what settles below this is held back by the power limit, or by heat."""

TimingMode: TypeAlias = Literal["hot", "cold", "queued", "host"]
"""How a time was taken. Times of different modes are different quantities and never compared.

`hot`: CUDA events around a CUDA graph of many launches, caches warm. `cold`: the same with the L2
flushed before each launch and the cost of the flush taken out. `queued`: event pairs around single
launches queued behind a blocking kernel, for callables that cannot be captured. `host`: the host's clock
around many calls and their end on the GPU, launch included, for launch-bound code.
"""

TimingSource: TypeAlias = Literal["events", "cupti", "host"]
"""The instrument that a time comes from: CUDA events (the launch gap counted in), CUPTI's activity records
of the kernels, or the host's clock."""


class Conditions(Record, frozen=True, kw_only=True):
    """State of the GPU right after a measurement, as NVML reads it (its clocks lag)."""

    sm_clock_mhz: int = 0
    max_sm_clock_mhz: int = 0
    """The highest that the GPU can have; 0 where NVML did not tell."""
    memory_clock_mhz: int = 0
    temperature_c: int = 0
    power_w: float = 0.0
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int = 0
    """Other compute processes on this GPU; more than 0 makes a time doubtful."""


class WarmUp(Record, frozen=True, kw_only=True):
    """What it took until the callable's time was steady."""

    seconds: float
    launches: int
    steady: bool
    """False: the cap was reached before the time stopped moving."""


class Timing(Record, frozen=True, kw_only=True):
    """The time of one call of a callable on the GPU."""

    mode: TimingMode
    time_us: float
    """20 % trimmed mean over the blocks, in microseconds a call."""
    spread_pct: float
    """Interquartile range of the blocks, in per cent of `time_us`."""
    blocks_us: tuple[float, ...]
    """Mean time a call of each block, in microseconds, in the order measured."""
    calls_per_block: int
    source: TimingSource = "events"
    """The instrument that `time_us` comes from."""
    events_us: float = 0.0
    """By CUDA events, in microseconds a call, with the launch gap; 0 where not taken."""
    cupti_us: float = 0.0
    """Sum of the kernels' own durations by CUPTI, in microseconds a call; 0 where not taken."""
    launch_gap_us: float = 0.0
    """What lies between two launches inside a graph, in microseconds, measured with an empty kernel."""
    blocks_mhz: tuple[float, ...] = ()
    """Mean SM clock of each block, in MHz, from stamps on the GPU itself; empty where there are none."""
    clock_model: ClockModel | None = None
    """None where the clocks at hand did not tell."""
    normalised_us: float = 0.0
    """`time_us` at `clock_model.reference_mhz`; 0 without a model."""
    not_recorded: str = ""
    """Why CUPTI could not record a time that is short; empty where it could."""
    autotuned: tuple[str, ...] = ()
    """Configurations that Triton's autotuner picked, as `kernel: config`."""
    measured_again: tuple[str, ...] = ()
    """Why earlier attempts were thrown away, one sentence each."""
    l2_flushed: bool = False
    not_captured: str = ""
    """Why no CUDA graph could be captured, where `mode` fell back to `queued`; else empty."""
    bytes: int = 0
    """Bytes a call has to move, as the caller says; 0 where unsaid."""
    flops: int = 0
    """Floating-point operations of a call, as the caller says; 0 where unsaid."""
    warm_up: WarmUp | None = None
    conditions: Conditions | None = None

    def by(self, source: TimingSource) -> Timing | None:
        """The same timing with the value of another instrument; None where that measured nothing.

        Short and long kernels have different instruments, and those at the border both. The clocks that are
        kept are of the blocks of `source`, so the other value is without one.
        """
        if source == self.source:
            return self
        time_us = {"events": self.events_us, "cupti": self.cupti_us, "host": 0.0}[source]
        if time_us <= 0 or self.source == "host":
            return None
        scale = time_us / self.time_us
        return msgspec.structs.replace(
            self,
            source=source,
            time_us=time_us,
            blocks_us=tuple(block * scale for block in self.blocks_us),
            blocks_mhz=(),
            normalised_us=0.0,
            clock_model=None,
        )

    @property
    def sm_clock_mhz(self) -> float:
        """Mean SM clock of the blocks, in MHz; 0 unless there are as many clocks as blocks, all known."""
        clocks = self.blocks_mhz
        if not clocks or len(clocks) != len(self.blocks_us) or min(clocks) <= 0:
            return 0.0
        # Not `fmean`, which raises where numbers are huge: a run file may come from anywhere.
        mean = sum(clocks) / len(clocks)
        return mean if isfinite(mean) else 0.0

    @property
    def held_back(self) -> tuple[str, ...]:
        """NVML's reasons, where the blocks ran below the full SM clock; without their clocks, all it names.

        NVML lags: what ran before the blocks is in its reasons too.
        """
        if (state := self.conditions) is None:
            return ()
        # Runs of before NVML was asked for the highest clock: the highest that is known of this one.
        highest_mhz = state.max_sm_clock_mhz or max((state.sm_clock_mhz, *self.blocks_mhz))
        at_full_clock = self.sm_clock_mhz and self.sm_clock_mhz >= HELD_BACK * highest_mhz
        return () if at_full_clock else state.throttle_reasons

    @property
    def gb_per_s(self) -> float | None:
        """`bytes` over time in 10⁹ bytes per second, None where bytes are unsaid."""
        return self.bytes / self.time_us / 1e3 if self.bytes else None

    @property
    def tflop_per_s(self) -> float | None:
        """`flops` over time in 10¹² operations per second, None where flops are unsaid."""
        return self.flops / self.time_us / 1e6 if self.flops else None


class AgainstTiming(Record, frozen=True, kw_only=True):
    """The time of one call beside that of the same call in older code, both taken in turn on one GPU."""

    ref: str
    """The older code, as the user named it."""
    commit: str
    """Commit that this was."""
    mode: TimingMode | None = None
    """How both sides were timed; None where they were not."""
    log_ratios: tuple[float, ...] = ()
    """Natural logarithm of new over old time, of each restart of both sides, at one SM clock."""
    raw_log_ratios: tuple[float, ...] = ()
    """The same of the times as they were measured; empty in runs from before times were brought to one
    clock."""
    new_first: tuple[bool, ...] = ()
    """Whether the new code went ahead, in each restart; empty in older runs."""
    comparisons: int = 1
    """Measurements that were compared in that run: among many, some differ by chance."""
    old_us: float = 0.0
    """20 % trimmed mean over the blocks of all restarts, each at the mean SM clock of its restart, in
    microseconds a call; 0 where there are none."""
    new_us: float = 0.0
    old_mhz: float = 0.0
    """Mean SM clock of the old code's blocks, in MHz; 0 where unknown."""
    new_mhz: float = 0.0
    seconds: float = 0.0
    """What the blocks of both sides took, over all restarts."""
    reason: str = ""
    """Why there was nothing to compare with, or nothing to compare by; empty where there was."""
    broken: bool = False
    """Whether that is for the user to mend: a worker died, or imported other code than it should."""
