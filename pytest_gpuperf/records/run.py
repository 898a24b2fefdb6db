"""Run: the measurements of one execution of `pytest --gpuperf`, test by test, and their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.call import Fingerprint
from pytest_gpuperf.records.environment import Environment
from pytest_gpuperf.records.fuzzing import Fuzzing
from pytest_gpuperf.records.kernel_code import LaunchedCode
from pytest_gpuperf.records.number_ranges import (
    AbsoluteTolerance,
    Block,
    Count,
    Date,
    Grid,
    LimitTexts,
    Number,
    Ratio,
    RelativeTolerance,
    Schema,
    Seconds,
    ToleranceOrZero,
)
from pytest_gpuperf.records.settlement import AgainstTiming, Settlement
from pytest_gpuperf.records.timing import Timing, WarmUp
from pytest_gpuperf.records.trace import Trace
from pytest_gpuperf.records.value_names import PEAK_MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping


LEAST_ULP = 2**-10
"""Smallest error that a ratio of errors tells from none."""


class Accuracy(Record, frozen=True, kw_only=True):
    """Error of an output in units in the last place (ULP) of its type; of several, the worst output's."""

    reference: str = ""
    """Type of the reference: `float64`, unless `note` says why not; empty without figures."""
    output: str = ""
    """Name of the output: `output[1]`."""
    dtype: str = ""
    """Type of the output, and of the ULP."""
    elements: Count = 0
    """Elements compared: all, or a sample of a large output."""
    max_ulp: Ratio | None = None
    """Largest error of an element, in ULP of its reference."""
    max_ulp_index: tuple[Count, ...] = ()
    rms_ulp: Ratio | None = None
    """Root mean square of all errors, in ULP of the root mean square of the reference."""
    bits: Ratio | None = None
    """Significant bits that are right: the root mean square error is 2^-bits of that of the reference."""
    reference_rms_ulp: Ratio | None = None
    """Root mean square error of the reference in the output's type; None if not computed in that type."""
    same_bits: bool = True
    """True if two calls with the same arguments gave the same bits."""
    note: str = ""
    """Why figures are missing, or why the reference is not in float64."""
    others: tuple[Accuracy, ...] = ()
    """Figures of the other outputs of floating types."""

    @property
    def by_output(self) -> Mapping[str, Accuracy]:
        """The figures of each output, by its name."""
        return {one.output: one for one in (self, *self.others)}

    @property
    def kind(self) -> str:
        """Types of output and reference: `float32 against float64`. Only errors of one kind are compared."""
        return f"{self.dtype} against {self.reference}"

    @property
    def error_ratio(self) -> float | None:
        """Root mean square error over the reference's own; None if that is not known."""
        if self.rms_ulp is None or self.reference_rms_ulp is None:
            return None
        return max(self.rms_ulp, LEAST_ULP) / max(self.reference_rms_ulp, LEAST_ULP)

    @property
    def values(self) -> dict[str, float]:
        """The figures by the names that limits use; those that are not known are left out."""
        found = {name: getattr(self, name) for name in ("max_ulp", "rms_ulp", "error_ratio", "same_bits")}
        return {name: float(value) for name, value in found.items() if value is not None}


class Correctness(Record, frozen=True, kw_only=True):
    """Difference of an output from its reference."""

    passed: bool
    max_abs_diff: float = 0.0
    max_rel_diff: float = 0.0
    max_abs_index: tuple[Count, ...] = ()
    """Index of the largest absolute difference in the output."""
    max_rel_index: tuple[Count, ...] = ()
    rtol: RelativeTolerance = 0.0
    atol: AbsoluteTolerance = 0.0
    dtype: str = ""
    elements: Count = 0
    mismatched: Count = 0
    """Elements outside the tolerance."""
    failure: str = ""
    """Message of the failure; empty if it passed."""
    low_signal: str = ""
    """Reason why the reference tells little, such as one constant; empty if it does not."""
    accuracy: Accuracy | None = None
    """None if the output is wrong."""
    argument_bytes: Count = 0
    """Memory of the tensors among the arguments; 0 if the output is wrong."""
    output_bytes: Count = 0
    """Memory of the outputs that are no arguments."""
    written_bytes: Count = 0
    """Part of the outputs that is new memory, so that the call wrote every element."""


class SanitizerHit(Record, frozen=True, kw_only=True):
    """An error that compute-sanitizer found in a test's kernels, the first of those alike."""

    kind: str
    """Text of the tool: `Invalid __global__ write of size 4 bytes`."""
    kernel: str = ""
    """Empty if the tool names none: it was a copy."""
    places: tuple[str, ...] = ()
    """Places of the instructions: `k.py:12`, or `+0x90` in the kernel if lines are unknown; two for a
    race."""
    block: tuple[Count, Count, Count] | None = None
    threads: tuple[tuple[Count, Count, Count], ...] = ()
    """Index in the block: one, or the two of a race."""
    address: str = ""
    """Hexadecimal; the offset for shared memory."""
    detail: str = ""
    """Further text of the tool: distance to an allocation, values that raced."""
    label: str = ""
    """Label of the call that launched the kernel; empty if the test launched it outside of all calls."""
    count: Count = 1
    """Number of errors of the same kind, kernel, places and label."""


class SanitizerResult(Record, frozen=True, kw_only=True):
    """Errors that compute-sanitizer found in one test."""

    tool: str
    """`memcheck`, `racecheck`, `initcheck` or `synccheck`."""
    version: str = ""
    """Version of compute-sanitizer."""
    hits: tuple[SanitizerHit, ...] = ()
    """The first few that differ."""
    count: Count = 0
    """Number of all errors."""
    cut: bool = False
    """True if the test was ended for its many errors: there are more."""
    unchecked: str = ""
    """Reason why a test without errors was not checked to its end; empty if it was."""


MetricValue: TypeAlias = Number | str
"""A counter's value: a number in the catalogue's unit, or a word (`occupancy_limiter`)."""

WORDS = frozenset({"occupancy_limiter", "tensor_instructions", "copy_instructions", "compiler"})
"""Short names of the metrics whose values are words."""
NO_INSTRUCTIONS = "none"
"""Value of `tensor_instructions` and `copy_instructions` for a kernel that has none."""
COUNTERS_OFF = "counters are off"
"""Begin of `Profile.unavailable` if the user left counters out of the run."""
STATIC_SOURCE = "static"
"""`Profile.source` of compiled kernels; also the folder of their baselines."""


def is_raw_name(name: str) -> bool:
    """Return True if a name is spelled as ncu spells its own (`dram__bytes.sum`)."""
    return "__" in name


def top_stall(metrics: Mapping[str, MetricValue]) -> tuple[str, float] | None:
    """Return the largest `stall.*` of a row and its share in %; None if the row has none."""
    stalls = [
        (name, value)
        for name, value in metrics.items()
        if name.startswith("stall.") and not isinstance(value, str)
    ]
    return max(stalls, key=lambda stall: stall[1], default=None)


class KernelProfile(Record, frozen=True, kw_only=True):
    """Counters of one launch of one kernel."""

    name: str
    """Function name, as `ncu --kernel-name-base function` shows it."""
    demangled: str = ""
    """Name with template arguments; empty if it equals `name`."""
    code: str = ""
    """SHA-256 of the machine code; empty if unknown."""
    grid: Grid = (0, 0, 0)
    block: Block = (0, 0, 0)
    metrics: dict[str, MetricValue] = {}
    """Values by short name in the catalogue's unit, or by raw ncu name in ncu's own unit."""
    weights: dict[str, MetricValue] = {}
    """Values by short or raw name that weight other metrics when launches are combined; nobody asked for
    them. Empty for the only launch of a call."""


class Profile(Record, frozen=True, kw_only=True):
    """Counters of all kernels of one call that match a regex."""

    kernels: tuple[KernelProfile, ...] = ()
    """In launch order."""
    combined: dict[str, MetricValue] = {}
    """All kernels as one: counts added, percentages weighted by their denominators, maxima kept."""
    regex: str = ""
    """The pattern that chose the kernels; empty for all."""
    launches: str = ""
    """Launches that were read: `first`, `last` or an index; empty for all."""
    source: str = "ncu"
    """Source of the counters: `ncu`, `cupti` in the process of the test, or `static` for a compiler."""
    cache_control: str = ""
    """`all`: caches were flushed before each pass; `none`: they were left as they were."""
    clock_control: str = ""
    preset: str = ""
    """Requested sets of metrics, separated by commas; empty for the default."""
    chip: str = ""
    """Name of the GPU's chip, such as `gh100`, by which ncu's metrics differ; empty if not known."""
    unavailable: str = ""
    """Reason why counters are missing, and what to do; empty if they were read."""
    tolerated: bool = False
    """True if the test went on without counters, because nobody insisted on them."""

    @property
    def read_by(self) -> str:
        """Tool that read the counters, and its control of the caches: `ncu/all`, `cupti/none`.

        Values that depend on the GPU's state are compared only with values read in the same way.
        """
        return f"{self.source}/{self.cache_control or 'all'}"


def show_selection(regex: str, launches: str) -> str:
    """Return what chose the kernels of a profile: `launches=first of kernels='gemm'`."""
    return f"launches={launches or 'all'} of " + (f"kernels={regex!r}" if regex else "all kernels")


class StaticKernel(Record, frozen=True, kw_only=True):
    """Facts of a kernel compiled for one architecture; kept as a `Profile` of the source `static`."""

    name: str
    """Name in the code: mangled for C++."""
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
    """Of a block, static and dynamic, in bytes, without the driver's part."""
    code_bytes: int
    widest_load_bits: int
    """Widest load of one thread from global memory; 0 without loads."""
    tensor_instructions: tuple[str, ...]
    """Those of `mma.sync`, `wmma`, `wgmma` and `tcgen05` that the code has."""
    copy_instructions: tuple[str, ...]
    """Those of `cp.async`, `cp.async.bulk` and `cp.async.bulk.tensor` that the code has."""
    theoretical_occupancy: float
    """Warps that fit on an SM, in % of its maximum."""
    blocks_per_sm: int
    code: str = ""
    """SHA-256 of the machine code, as in `KernelProfile`."""
    occupancy_limiter: str
    """Resource that allows the fewest blocks: `warps`, `blocks`, `registers`, `shared_mem` or `barriers`."""


RUN_SCHEMA = 1
"""Version of the run file. A reader refuses a newer one and leaves the file as it is."""


class Measurement(Record, frozen=True, kw_only=True):
    """Measurements of one test under one label."""

    correctness: Correctness | None = None
    fuzz: Fuzzing | None = None
    warm_up: WarmUp | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    trace: Trace | None = None
    code: LaunchedCode | None = None
    """Code of the kernels of a timed call; None if it was not looked for."""
    call: Fingerprint | None = None
    """What another call needs in common with this one to be compared; None if it was not timed."""
    in_turn: AgainstTiming | None = None
    """Time in turn with another callable of the test, which `ref` names by its label."""
    settlement: Settlement | None = None
    """Only of a suspect, and of each time with `--gpuperf-against`."""

    @property
    def is_wrong(self) -> bool:
        """True if an output differed from its reference."""
        results = (self.correctness, self.fuzz)
        return any(result is not None and not result.passed for result in results)

    @property
    def is_static(self) -> bool:
        """True if the kernels were compiled, not measured."""
        return self.profile is not None and self.profile.source == STATIC_SOURCE

    @property
    def accuracy(self) -> Accuracy | None:
        """Errors of the output; None if they were not measured."""
        return self.correctness.accuracy if self.correctness is not None else None

    @property
    def exact(self) -> dict[str, float]:
        """Values that are the same in every run of the same code: those of a trace, and memory."""
        found: dict[str, float] = {**self.trace.exact} if self.trace is not None else {}
        if self.timing is not None and self.timing.peak_memory_mb is not None:
            found[PEAK_MEMORY] = self.timing.peak_memory_mb
        return found

    @property
    def has_counters(self) -> bool:
        """True if counters were read; a profile may also only say why they were not."""
        return self.profile is not None and bool(self.profile.combined)

    @property
    def has_values(self) -> bool:
        """True if there is a value to compare with a baseline."""
        parts = (self.timing, self.trace, self.accuracy)
        return self.has_counters or any(part is not None for part in parts)


class TestRecord(Record, frozen=True, kw_only=True):
    """Measurements of one test."""

    __test__ = False  # pytest: not a test class

    nodeid: str
    measurements: dict[str, Measurement]
    """Measurements by label; a test of one callable has only the label `main`."""
    failure: str = ""
    """Type of the exception that ended the test; its measurements are never accepted as baseline."""
    tolerance_pct: ToleranceOrZero = 0.0
    """The test's own tolerance of a slowdown, in %; 0 if it has none."""
    limits: LimitTexts = ()
    """Limits that the test states itself, in its marker or by `gpuperf.limit()`."""
    sanitizer: SanitizerResult | None = None
    """None if it did not run under compute-sanitizer."""
    seconds: Seconds = 0.0
    """Duration from its fixtures to its verdict, without passes before the tests; 0 if unknown."""
    gpu_uuid: str = ""
    """The card, if it is another one than that of the run's environment."""

    @property
    def parts(self) -> tuple[dict[str, Measurement], dict[str, Measurement]]:
        """Results of a GPU and of a compiler, by label: each has a baseline of its own."""
        static = {label: one for label, one in self.measurements.items() if one.is_static}
        return {label: one for label, one in self.measurements.items() if label not in static}, static

    @property
    def trace_files(self) -> list[str]:
        """Names of its Chrome traces."""
        traces = [one.trace for one in self.measurements.values() if one.trace is not None]
        return [trace.file for trace in traces if trace.file]

    @property
    def failed(self) -> bool:
        """True if the test was ended by an exception, other than one by which it skips itself."""
        return self.failure not in ("", "Skipped", "SkipTest", "XFailed")

    @property
    def is_wrong(self) -> bool:
        """True if an output was wrong."""
        return any(measured.is_wrong for measured in self.measurements.values())

    @property
    def lacks_memory(self) -> bool:
        """True if a suspect of it can be settled when the process of the test has ended."""
        found = (one.settlement for one in self.measurements.values())
        return any(one is not None and one.lacks_memory for one in found)


class Run(Record, frozen=True, kw_only=True):
    """One execution of `pytest --gpuperf`."""

    schema: Schema
    """`RUN_SCHEMA` of the writer."""
    id: str
    started_at: Date
    """UTC, ISO 8601."""
    environment: Environment
    complete: bool = True
    """False if the run was interrupted."""
    counters_unavailable: str = ""
    """Reason why the whole run has no counters; empty if it has, or if none were asked for."""
    tests: tuple[TestRecord, ...] = ()

    def __post_init__(self) -> None:
        """Refuse two records of one test, which a file may have."""
        if len({test.nodeid for test in self.tests}) < len(self.tests):
            raise ValueError("a test has two records")

    @property
    def cards(self) -> dict[str, str]:
        """UUID of the card of each test, by node id."""
        return {test.nodeid: test.gpu_uuid or self.environment.gpu.uuid for test in self.tests}
