"""Time of a call with its mode, source and clock."""

from __future__ import annotations

from math import isfinite
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.number_ranges import (
    Clock,
    ClockReading,
    Count,
    Difference,
    Duration,
    MemoryClock,
    Positive,
    Power,
    Ratio,
    Seconds,
    Spread,
    Temperature,
    Time,
    TimeOrZero,
)
from pytest_gpuperf.records.ranks import RankTimes
from pytest_gpuperf.statistics.clock_model import ClockModel, scaled
from pytest_gpuperf.statistics.thresholds import HELD_BACK

TimingMode: TypeAlias = Literal["hot", "cold", "queued", "kernels", "host"]
"""Mode of a time. Times of different modes are different quantities and never compared.

`hot`: CUDA events around a CUDA graph of many launches, caches warm. `cold`: the same with the L2
flushed before each launch and the cost of the flush taken out. `queued`: event pairs around single
launches queued behind a blocking kernel. `kernels`: CUPTI's durations of the kernels of single calls on any
stream, for callables that cannot be captured: they synchronise the host, or use streams of their own. `host`:
the host's clock around many calls and their end on the GPU, launch included, for launch-bound code.
"""

TimingSource: TypeAlias = Literal["events", "cupti", "host"]
"""Source of a time: CUDA events (with the launch gap), CUPTI's activity records of the kernels, or the host's
clock."""


class KnownTime(NamedTuple):
    """Time of a call in its baseline."""

    mode: TimingMode
    source: TimingSource
    model: ClockModel | None
    """The newest model, at the clock of the baseline; None for other code, which may depend on the clock in
    another way."""


OTHER_CLIENT = "CUPTI in this process"
"""Words in each reason for going without CUPTI because another profiler was there first."""


class Conditions(Record, frozen=True, kw_only=True):
    """State of the GPU right after a measurement, as NVML reads it (its clocks lag)."""

    sm_clock_mhz: ClockReading = 0
    max_sm_clock_mhz: ClockReading = 0
    """Highest clock of the GPU; 0 if NVML did not tell."""
    memory_clock_mhz: MemoryClock = 0
    temperature_c: Temperature = 0
    power_w: Power = 0.0
    throttle_reasons: tuple[str, ...] = ()
    other_processes: Count = 0
    """Other compute processes on this GPU; more than 0 makes a time doubtful."""
    measured_again: tuple[str, ...] = ()
    """Reasons in the state of the GPU why earlier attempts were discarded, one sentence each."""


class WarmUp(Record, frozen=True, kw_only=True):
    """Warm-up until the callable's time was steady."""

    seconds: Seconds
    launches: Positive
    steady: bool
    """False if the maximum was reached before the time was steady."""


class StreamWork(Record, frozen=True, kw_only=True):
    """Work of one call on one stream."""

    stream: Count
    """CUPTI's number of the stream."""
    current: bool = False
    """True for the current stream of torch."""
    launches: Ratio
    """Kernels, fills and copies on the GPU, a call."""
    kernels_us: Duration
    """Sum of their durations, in microseconds a call."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels, in the order of their first launch."""


class Verification(Record, frozen=True, kw_only=True):
    """Check of the outputs of timed calls: some were run again, in the same memory, on other values."""

    calls: Count = 0
    """Timed calls that were run again, each by itself."""
    compared_with: Literal["", "expected", "call"] = ""
    """`expected`: the reference of the check. `call`: another call, on copies of the arguments at other
    addresses."""
    other_values: bool = False
    """True if the outputs were right for values that the callable had not seen."""
    unseen_ratio: Ratio = 0.0
    """Median time of a call on unseen values over that on values just seen; 0 if not taken."""
    single_us: Duration = 0.0
    """Shortest time of a call by itself, on values just seen, by the instrument of the mode: it includes the
    launch of a graph; 0 if not taken."""
    seconds: Seconds = 0.0
    """Wall time of the verification."""
    not_verified: str = ""
    """Reason why the outputs of timed calls, or part of them, could not be verified."""
    doubts: tuple[str, ...] = ()
    """Reasons why the time may be too short, none of them a proof."""
    refused: str = ""
    """Reason why the time is refused; empty if it is not."""


class OtherTime(Record, frozen=True, kw_only=True):
    """Time of further blocks by the other source of `events` and `cupti`; next to `host` by CUPTI."""

    time_us: Difference | None = None
    """In microseconds a call: by CUDA events with the launch gap, by CUPTI the sum of the kernels' own
    durations; None if not taken."""
    sm_clock_mhz: Clock | None = None
    """Mean SM clock of its blocks, in MHz; None if unknown."""
    not_recorded: str = ""
    """Reason why CUPTI could not record a short time or mode `kernels`; empty if it could."""


class SingleCall(Record, frozen=True, kw_only=True):
    """Single calls by CUPTI's records, on all streams, and in mode `kernels` by the host's clock."""

    busy_us: TimeOrZero | None = None
    """Time in which a kernel, fill or copy ran, in microseconds a call: `Timing.time_us` in mode `kernels`,
    else the median of a few calls, which has to agree with it; None if not recorded."""
    kernels_us: Duration | None = None
    """Mode `kernels`: sum of their durations; more than `busy_us` if streams overlap."""
    host_copies_us: Duration = 0.0
    """Mode `kernels`: sum of the durations of copies from and to the host, in neither of the others; 0 if a
    call does nothing else: then they are its work."""
    host_us: TimeOrZero | None = None
    """Mode `kernels`: time of a call by the host's clock, launches and waits included; it is not judged."""
    host_spread_pct: Spread | None = None
    """Interquartile range of the host's blocks, in % of `host_us`. Processes differ by more."""
    streams: tuple[StreamWork, ...] = ()
    """Mode `kernels`: work of a call on each stream."""
    copied_bytes: Ratio | None = None
    """Bytes that a call copies and fills; None if it launches kernels, too, or was not recorded."""
    not_compared: str = ""
    """Reason why single calls could not be recorded; empty if they were."""


class Workload(Record, frozen=True, kw_only=True):
    """Work of a call, and the peak rates of its GPU; None if unknown."""

    bytes: Count | None = None
    """Bytes that a call has to move, given by the caller."""
    flops: Count | None = None
    """Floating-point operations of a call, given by the caller."""
    argument_bytes: Count | None = None
    """Memory of the tensors among the arguments."""
    peak_memory_mb: Ratio | None = None
    """Most memory of a call beyond its arguments, as requested of torch's allocator, in 10⁶ bytes."""
    peak_gb_per_s: Ratio | None = None
    """Peak rate of the GPU's DRAM."""
    peak_tflop_per_s: Ratio | None = None
    """Peak rate of the GPU's tensor cores, dense float16 at the highest SM clock."""


class CompilerWork(Record, frozen=True, kw_only=True):
    """Work of one compiler in a first call."""

    seconds: Seconds = 0.0
    """Also what another compiler took inside: Inductor calls Triton."""
    compiled: Count = 0
    """Kernels, or graphs of torch.compile, that it compiled."""
    cached: Count = 0
    """Those that it took from its cache on disk."""


class FirstCall(Record, frozen=True, kw_only=True):
    """What the first call of a callable took, in its check or before its timing."""

    seconds: Seconds
    """Seconds by the host's clock beyond those of the second call."""
    compilers: dict[str, CompilerWork] = {}
    """Those that are known to have worked: `triton`, `inductor`, `nvrtc`."""

    @property
    def caches(self) -> str:
        """`cold` if something was compiled, `warm` if all was on disk; empty if nothing is known."""
        if any(one.compiled for one in self.compilers.values()):
            return "cold"
        return "warm" if any(one.cached for one in self.compilers.values()) else ""


class Autotuning(Record, frozen=True, kw_only=True):
    """Configurations that the autotuners of Triton and torch.compile chose."""

    chosen: tuple[str, ...] = ()
    """Each as `kernel: config`."""
    baseline_choice_us: Time | None = None
    """Time of the same code with the configurations that they had chosen for the baseline, in microseconds a
    call; only if it is slower with others."""


class Timing(Record, frozen=True, kw_only=True):
    """Time of one call of a callable on the GPU."""

    mode: TimingMode
    time_us: Time
    """20 % trimmed mean over the blocks, in microseconds a call."""
    spread_pct: Spread
    """Interquartile range of the blocks at one place in memory, in % of their mean."""
    blocks_us: tuple[Difference, ...]
    """Mean time a call of each block, in microseconds, in the order measured."""
    calls_per_block: Positive
    source: TimingSource = "events"
    """Source of `time_us`."""
    blocks_mhz: tuple[Clock, ...] = ()
    """Mean SM clock of each block, in MHz, from stamps on the GPU itself; empty if there are none."""
    other: OtherTime | None = None
    """The time by the other source, or why there is none."""
    single_call: SingleCall | None = None
    """None if single calls need not be recorded."""
    launch_gap_us: Duration | None = None
    """Gap between two launches inside a graph, in microseconds, measured with an empty kernel."""
    clock_model: ClockModel | None = None
    """None if the clocks did not tell."""
    normalised_us: TimeOrZero | None = None
    """`time_us` at `clock_model.reference_mhz`; None without a model."""
    not_captured: str = ""
    """Reason why a CUDA graph could not be captured, if that decided `mode`; else empty."""
    autotuning: Autotuning = Autotuning()
    first_call: FirstCall | None = None
    """None if it was not watched."""
    work: Workload = Workload()
    warm_up: WarmUp | None = None
    conditions: Conditions | None = None
    verification: Verification | None = None
    """None if nothing was verified: it was off, or the time is older than that."""
    ranks: RankTimes | None = None
    """Only of a call on several GPUs."""

    @property
    def peak_memory_mb(self) -> float | None:
        """Most memory of a call beyond its arguments, in 10⁶ bytes; None if not known."""
        return self.work.peak_memory_mb

    def us_by(self, source: TimingSource) -> float | None:
        """Return the time by a source, in microseconds a call; None if it was not taken."""
        if source == self.source:
            return self.time_us
        is_other = source == ("events" if self.source == "cupti" else "cupti")
        return self.other.time_us if is_other and self.other is not None else None

    def by(self, source: TimingSource) -> Timing | None:
        """Return the same timing with the time of another source; None if that measured nothing.

        Short and long kernels have different sources, and those at the border have both. The other time has
        the mean clock of its own blocks, and the same share that depends on it.
        """
        if source == self.source:
            return self
        time_us = self.us_by(source)
        if self.other is None or time_us is None or time_us <= 0 or self.source == "host":
            return None
        scale, mhz, model = time_us / self.time_us, self.other.sm_clock_mhz, None
        if self.clock_model is not None and mhz:
            model = scaled(self.clock_model, time_us, mhz)
        return msgspec.structs.replace(
            self,
            source=source,
            time_us=time_us,
            blocks_us=tuple(block * scale for block in self.blocks_us),
            blocks_mhz=(mhz,) * len(self.blocks_us) if mhz else (),
            other=OtherTime(time_us=self.time_us, sm_clock_mhz=self.sm_clock_mhz or None),
            normalised_us=model.time_us(model.reference_mhz) if model is not None else None,
            clock_model=model,
        )

    @property
    def host_copies_us(self) -> float:
        """Copies from and to the host next to other work, in microseconds a call: not in `time_us`."""
        return self.single_call.host_copies_us if self.single_call is not None else 0.0

    @property
    def bytes(self) -> int:
        """Bytes that a call has to move, given by the caller; 0 if not given."""
        return self.work.bytes or 0

    @property
    def flops(self) -> int:
        """Floating-point operations of a call, given by the caller; 0 if not given."""
        return self.work.flops or 0

    @property
    def not_recorded(self) -> str:
        """Reason why CUPTI could not record it; empty if it could, or need not."""
        return self.other.not_recorded if self.other is not None else ""

    @property
    def not_compared(self) -> str:
        """Reason why single calls could not be recorded; empty if they were, or need not be."""
        return self.single_call.not_compared if self.single_call is not None else ""

    @property
    def refused(self) -> str:
        """Reason why the timed calls did not do their work; empty if they did, or if nobody knows."""
        return self.verification.refused if self.verification is not None else ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons to doubt a time that is not refused."""
        found = self.verification
        return found.doubts if found is not None and not found.refused else ()

    @property
    def only_host(self) -> bool:
        """True if the host's clock replaces CUPTI, which was missing: such a time is not judged."""
        return self.mode == "host" and bool(self.not_captured)

    @property
    def sm_clock_mhz(self) -> float:
        """Mean SM clock of the blocks, in MHz; 0 unless there are as many clocks as blocks, all known."""
        clocks = self.blocks_mhz
        if not clocks or len(clocks) != len(self.blocks_us) or min(clocks) <= 0:
            return 0.0
        # Not `fmean`, which raises for huge numbers: a run file may come from anywhere.
        mean = sum(clocks) / len(clocks)
        return mean if isfinite(mean) else 0.0

    @property
    def held_back(self) -> tuple[str, ...]:
        """NVML's reasons if the blocks ran below the full SM clock; without block clocks, all of its reasons.

        NVML lags: its reasons include those of earlier work.
        """
        if (state := self.conditions) is None:
            return ()
        # Without NVML's highest clock, take the highest one that was seen.
        highest_mhz = state.max_sm_clock_mhz or max((state.sm_clock_mhz, *self.blocks_mhz))
        at_full_clock = self.sm_clock_mhz and self.sm_clock_mhz >= HELD_BACK * highest_mhz
        return () if at_full_clock else state.throttle_reasons

    @property
    def compile_s(self) -> float | None:
        """Seconds of the first call beyond a later one; None if it was not watched."""
        return self.first_call.seconds if self.first_call is not None else None

    @property
    def gb_per_s(self) -> float | None:
        """Rate of `bytes` in 10⁹ bytes per second, else of what a call copies; None if neither is known."""
        copied = self.single_call.copied_bytes if self.single_call is not None else None
        moved = self.bytes or copied
        return moved / self.time_us / 1e3 if moved else None

    @property
    def dram_share(self) -> float | None:
        """Rate of `bytes` in % of the peak of DRAM; None if one of them is unknown."""
        rate, peak = self.gb_per_s, self.work.peak_gb_per_s
        # A copy on the GPU reads and writes its bytes, and one to the host uses PCIe.
        return 100 * rate / peak if self.bytes and rate and peak else None

    @property
    def peak_share(self) -> float | None:
        """Rate of `flops` in % of the peak of dense float16; None if one of them is unknown."""
        rate, peak = self.tflop_per_s, self.work.peak_tflop_per_s
        return 100 * rate / peak if rate and peak else None

    @property
    def bus_gb_per_s(self) -> float | None:
        """Bus bandwidth in 10⁹ bytes per second; None for no collective, or without `bytes`."""
        factor = self.ranks.bus_factor if self.ranks is not None else None
        return None if factor is None or self.gb_per_s is None else factor * self.gb_per_s

    @property
    def skew_us(self) -> float | None:
        """Slowest less fastest rank of a call, in microseconds; None for a call on one GPU."""
        return self.ranks.skew_us if self.ranks is not None else None

    @property
    def exposed_us(self) -> float | None:
        """Largest time of a rank in which it communicated and did not compute; None if not recorded."""
        return self.ranks.exposed_us if self.ranks is not None else None

    @property
    def tflop_per_s(self) -> float | None:
        """Rate in 10¹² operations per second, None if `flops` is 0."""
        return self.flops / self.time_us / 1e6 if self.flops else None
