"""What was measured, as plain data: typed, immutable, serialisable, with units in the names.

An instrument returns these, a verdict and a report read them, and a run file (`run.json`) is one
[`Run`][pytest_gpuperf.records.Run] written as JSON. Nothing here touches a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    import pandas as pd

RUN_SCHEMA = 1
"""Version of the run file. A reader refuses a newer one and leaves the file as it is."""

MetricValue: TypeAlias = float | str
"""A counter's value: a number in the catalogue's unit, or a word (`occupancy_limiter`)."""

TimingMode: TypeAlias = Literal["hot", "cold", "queued", "host"]
"""How a time was taken. Times of different modes are different quantities and never compared.

`hot`: CUDA events around a CUDA graph of many launches, caches warm. `cold`: the same with the L2
flushed before each launch and the cost of the flush taken out. `queued`: event pairs around single
launches queued behind a blocking kernel, for callables that cannot be captured. `host`: the host's clock
around many calls and their end on the GPU, launch included, for launch-bound code.
"""

TimingFigure: TypeAlias = Literal["events", "cupti", "host"]
"""The instrument that a time comes from: CUDA events (the launch gap taken off), CUPTI's activity records
of the kernels, or the host's clock."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of everything that is written into a run file."""


class GpuInfo(Record, frozen=True, kw_only=True):
    """The GPU that measured."""

    name: str
    """As the driver says it: `NVIDIA H200`."""
    slug: str
    """The name as a folder below the baselines: `nvidia-h200`."""
    uuid: str = ""
    """Tells two cards of one model apart; empty where the driver hides it."""
    compute_capability: str = ""
    """`9.0`."""
    multiprocessors: int = 0
    l2_bytes: int = 0
    memory_bytes: int = 0


class Toolchain(Record, frozen=True, kw_only=True):
    """Versions that can change a kernel or its measurement; empty where not installed."""

    gpuperf: str = ""
    python: str = ""
    pytest: str = ""
    torch: str = ""
    triton: str = ""
    cuda: str = ""
    """The CUDA version torch was built for."""
    driver: str = ""
    ncu: str = ""


class Environment(Record, frozen=True, kw_only=True):
    """Where a run was measured, without host name, user name or any path."""

    gpu: GpuInfo
    toolchain: Toolchain
    commit: str = ""
    """Commit of the repository that was measured; empty where it is not known."""
    dirty: bool | None = None
    """Whether tracked files differed from the commit; None where it is not known."""


class Conditions(Record, frozen=True, kw_only=True):
    """State of the GPU right after a measurement, as NVML reads it (its clocks lag)."""

    sm_clock_mhz: int = 0
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


class Correctness(Record, frozen=True, kw_only=True):
    """How an output differs from its reference."""

    passed: bool
    max_abs_diff: float = 0.0
    max_rel_diff: float = 0.0
    max_abs_index: tuple[int, ...] = ()
    """Where the largest absolute difference is, as an index into the output."""
    max_rel_index: tuple[int, ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    dtype: str = ""
    elements: int = 0
    mismatched: int = 0
    """Elements outside the tolerance."""
    failure: str = ""
    """Why it failed, as shown to the user; empty where it passed."""


class ClockModel(Record, frozen=True, kw_only=True):
    """How the time of a call hangs on the SM clock: `t = cycles / f + fixed_us`.

    The line holds for kernels bound by arithmetic, by memory and by both, where neither time nor cycles
    hold still (fitted by `pytest_gpuperf.timing.clock_model.fit`).
    """

    cycles: float
    """SM cycles (microseconds times MHz) that a call spends at the SM clock."""
    fixed_us: float
    """Microseconds that do not hang on the SM clock: memory, mostly."""
    reference_mhz: float
    """The SM clock that normalised times are brought to."""
    share_error: float = 0.0
    """Standard error of `sm_clock_share` at the reference clock."""

    def time_us(self, sm_clock_mhz: float) -> float:
        """Microseconds a call at an SM clock in MHz."""
        return self.cycles / sm_clock_mhz + self.fixed_us

    @property
    def sm_clock_share(self) -> float:
        """Share of the time, from 0 to 1, that hangs on the SM clock.

        Near 1 where compute or latency bounds the kernel, near 0 where memory does.
        """
        return self.cycles / self.reference_mhz / self.time_us(self.reference_mhz)


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
    figure: TimingFigure = "events"
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

    def by(self, figure: TimingFigure) -> Timing | None:
        """The same timing with the value of another instrument; None where that measured nothing.

        Short and long kernels have different instruments, and those at the border both.
        """
        if figure == self.figure:
            return self
        time_us = {"events": self.events_us, "cupti": self.cupti_us, "host": 0.0}[figure]
        if time_us <= 0 or self.figure == "host":
            return None
        scale = time_us / self.time_us
        model = self.clock_model
        if model is not None:
            model = msgspec.structs.replace(
                model, cycles=model.cycles * scale, fixed_us=model.fixed_us * scale
            )
        return msgspec.structs.replace(
            self,
            figure=figure,
            time_us=time_us,
            blocks_us=tuple(block * scale for block in self.blocks_us),
            normalised_us=self.normalised_us * scale,
            clock_model=model,
        )

    @property
    def gb_per_s(self) -> float | None:
        """`bytes` over time in 10⁹ bytes per second, None where bytes are unsaid."""
        return self.bytes / self.time_us / 1e3 if self.bytes else None

    @property
    def tflop_per_s(self) -> float | None:
        """`flops` over time in 10¹² operations per second, None where flops are unsaid."""
        return self.flops / self.time_us / 1e6 if self.flops else None


class KernelProfile(Record, frozen=True, kw_only=True):
    """Counters of one launch of one kernel."""

    name: str
    """Function name, as `ncu --kernel-name-base function` shows it."""
    demangled: str = ""
    """With template arguments; empty where it equals `name`."""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    metrics: dict[str, MetricValue] = {}
    """By short name in the catalogue's unit, or by raw ncu name in ncu's own unit."""
    weights: dict[str, MetricValue] = {}
    """By raw ncu name: what no metric is read from, but by which some are weighted when launches combine."""


class Profile(Record, frozen=True, kw_only=True):
    """Counters of all kernels of one call that match a regex."""

    kernels: tuple[KernelProfile, ...] = ()
    """In launch order."""
    combined: dict[str, MetricValue] = {}
    """All kernels as one: counts added, percentages weighted by duration, maxima kept."""
    regex: str = ""
    """The pattern that chose the kernels; empty for all."""
    source: str = "ncu"
    """Who counted: `ncu`, `cupti` where it was done in the process of the test, or `static` for what a
    compiler knows without running anything."""
    cache_control: str = ""
    """`all`: caches were flushed before each pass; `none`: they were left as they were."""
    clock_control: str = ""
    preset: str = ""
    """The sets of metrics that were asked for, separated by commas; empty for the default."""
    chip: str = ""
    """Name of the GPU's chip, such as `gh100`, by which ncu's metrics differ; empty where not known."""
    unavailable: str = ""
    """Why there are no counters (one sentence and what to do); empty where there are."""

    @property
    def read_by(self) -> str:
        """Who read them and what was done to the caches: `ncu/all`, `cupti/none`.

        Values that depend on the GPU's state are compared only with those that were read in the same way.
        """
        return f"{self.source}/{self.cache_control or 'all'}"


class PairedTiming(Record, frozen=True, kw_only=True):
    """The time of one call beside that of the same call in older code, both taken in turn on one GPU."""

    ref: str
    """The older code, as the user named it."""
    commit: str
    """Commit that this was."""
    mode: TimingMode | None = None
    """How both sides were timed; None where they were not."""
    log_ratios: tuple[float, ...] = ()
    """Natural logarithm of new over old time, of each restart of both sides."""
    comparisons: int = 1
    """Measurements that were compared in that run: among many, some differ by chance."""
    old_us: float = 0.0
    """20 % trimmed mean over the blocks of all restarts, in microseconds a call; 0 where there are none."""
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


class StaticKernel(Record, frozen=True, kw_only=True):
    """What the compiler made of a kernel for one architecture; kept as a `Profile` of the source `static`."""

    name: str
    """As in the code: mangled, where it is C++."""
    arch: str
    """`sm_90`."""
    compiler: str
    """`triton 3.9.0, PTX 9.4` or `nvcc 13.0.88`: another compiler makes another kernel."""
    block_size: int
    """Threads of a block."""
    registers_per_thread: int
    spills: int
    """Bytes that the code of a thread stores and loads because registers ran out."""
    stack_bytes: int
    """Local memory of a thread, in bytes."""
    shared_memory_bytes: int
    """Of a block, static and dynamic, in bytes, without what the driver adds."""
    code_bytes: int
    widest_load_bits: int
    """Of one thread from global memory; 0 where it loads nothing."""
    tensor_instructions: tuple[str, ...]
    """Which of `mma.sync`, `wmma`, `wgmma` and `tcgen05` the code has."""
    theoretical_occupancy: float
    """Warps that fit, of what an SM can hold, in per cent."""
    blocks_per_sm: int
    occupancy_limiter: str
    """What allows the fewest blocks: `warps`, `blocks`, `registers`, `shared_mem` or `barriers`."""


class Measurement(Record, frozen=True, kw_only=True):
    """What one test measured under one label."""

    correctness: Correctness | None = None
    warm_up: WarmUp | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    paired: PairedTiming | None = None
    """Where `--gpuperf-against` was given."""


class SanitizerHit(Record, frozen=True, kw_only=True):
    """An error that compute-sanitizer found in a test's kernels, the first of those alike."""

    kind: str
    """As the tool says it: `Invalid __global__ write of size 4 bytes`."""
    kernel: str = ""
    """Empty where the tool names none: it was a copy."""
    places: tuple[str, ...] = ()
    """Of the instructions: `k.py:12`, or `+0x90` in the kernel where lines are unknown; two for a race."""
    block: tuple[int, int, int] | None = None
    threads: tuple[tuple[int, int, int], ...] = ()
    """Index in the block: one, or the two of a race."""
    address: str = ""
    """Hexadecimal; of shared memory the offset in it."""
    detail: str = ""
    """What else the tool says: how far from which allocation, which values raced."""
    label: str = ""
    """Of the call that launched the kernel; empty where the test launched it outside of all calls."""
    count: int = 1
    """How many are alike: same kind, kernel, places and label."""


class SanitizerResult(Record, frozen=True, kw_only=True):
    """What compute-sanitizer found in one test."""

    tool: str
    """`memcheck`, `racecheck`, `initcheck` or `synccheck`."""
    version: str = ""
    """Of compute-sanitizer."""
    hits: tuple[SanitizerHit, ...] = ()
    """The first few that differ."""
    count: int = 0
    """Of all errors; 0 where the test has none."""
    cut: bool = False
    """The test was ended for its many errors: there are more."""
    unchecked: str = ""
    """Why a test without errors was not checked to its end; empty where it was."""


class TestRecord(Record, frozen=True, kw_only=True):
    """What one test measured."""

    __test__ = False  # pytest: not a test class

    nodeid: str
    measurements: dict[str, Measurement]
    """By label; a test that measures one callable has the one label `main`."""
    failure: str = ""
    """Type of the exception that ended the test; what such a test measured is never accepted as baseline."""
    tolerance_pct: float = 0.0
    """The test's own: by how much the time may exceed its baseline, in per cent; 0 where it says none."""
    sanitizer: SanitizerResult | None = None
    """None where it did not run under compute-sanitizer."""


class Run(Record, frozen=True, kw_only=True):
    """All that one session measured."""

    schema: int
    """`RUN_SCHEMA` of the writer."""
    id: str
    started_at: str
    """UTC, ISO 8601."""
    environment: Environment
    complete: bool = True
    """False: the session was interrupted."""
    counters_unavailable: str = ""
    """Why the whole session has no counters; empty where it has, or where none were asked for."""
    tests: tuple[TestRecord, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """A row for each test, label, kernel launch and metric; see `pytest_gpuperf.report.frame`."""
        from pytest_gpuperf.report.frame import to_frame

        return to_frame(self)
