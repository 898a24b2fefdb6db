"""Kernel table of a call: its kernels, copies and waits on the GPU, and the idle time."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.number_ranges import (
    Block,
    Count,
    Duration,
    Grid,
    Occupancy,
    Ratio,
    Registers,
    Remainder,
    Share,
    SharedMemory,
)

KernelClass: TypeAlias = Literal[
    "large_core",
    "medium_auxiliary",
    "small_frequent",
    "data_movement",
    "reduction",
    "elementwise",
    "communication",
    "other",
]
"""Role of a kernel in a call, by the rules of `pytest_gpuperf.features.trace.kernel_classes`."""
KERNEL_CLASSES: tuple[KernelClass, ...] = get_args(KernelClass)

KernelCategory: TypeAlias = Literal[
    "gemm",
    "attention",
    "convolution",
    "norm",
    "reduction",
    "elementwise",
    "data_movement",
    "communication",
    "other",
]
"""Work of a kernel, by its name alone: `pytest_gpuperf.features.trace.kernel_categories`."""

SpanSource: TypeAlias = Literal["profiler", "cupti", "events"]
"""Source of a span: torch.profiler, CUPTI's activity records, or CUDA events without a profiler."""

EXACT_OF_TRACE = ("launches", "copies", "synchronizations")
"""Values that are the same in every run of the same code."""


class TracedKernel(Record, frozen=True, kw_only=True):
    """Launches of one kernel with the same grid, block and shared memory."""

    name: str
    """Demangled, with template arguments."""
    kernel_class: KernelClass = "other"
    calls: Count
    total_us: Duration
    """Sum of the launches' own durations on the GPU, in microseconds."""
    mean_us: Duration
    share_pct: Share
    """`total_us` of the time of all kernels, copies and fills, in %."""
    grid: Grid = (0, 0, 0)
    """Blocks in x, y, z; zeros if not known."""
    block: Block = (0, 0, 0)
    """Threads of a block in x, y, z."""
    blocks_per_sm: Ratio = 0.0
    """Blocks of the grid for each SM of the GPU, running at once or not; 0 if not known."""
    waves: Ratio | None = None
    """Blocks of the grid over those that the whole GPU holds at once; None if that is not known."""
    registers_per_thread: Registers = 0
    shared_memory_bytes: SharedMemory = 0
    """Shared memory of a block, static and dynamic, in bytes."""
    theoretical_occupancy_pct: Occupancy | None = None
    """In %, by `pytest_gpuperf.measure.device.occupancy`; None if that does not know the GPU."""
    tensor_cores: bool | None = None
    """True if it multiplies on tensor cores, by its name or its code; None if neither tells."""
    category: KernelCategory = "other"
    position: Count = 0
    """Place of its first launch among the first launches of all kernels, from 0."""


class Communication(Record, frozen=True, kw_only=True):
    """Time of the kernels that move data between GPUs, by `pytest_gpuperf.features.trace.time_breakdown`."""

    total_us: Duration
    """Microseconds in which at least one of them ran: overlaps among them count once."""
    exposed_us: Remainder
    """The part of `total_us` without computation."""
    overlapped_us: Duration
    """The part of `total_us` with computation."""
    kernels: Count
    """Number of launches."""


class Idle(Record, frozen=True, kw_only=True):
    """Time of the span in which nothing ran, by `pytest_gpuperf.features.trace.time_breakdown`."""

    total_us: Duration
    host_wait_us: Duration
    """Before activities that the host launched after the GPU had become idle."""
    kernel_wait_us: Duration
    """Before activities that had been launched, but not started, when the GPU became idle."""
    unknown_us: Duration
    """Before activities whose launch is not in the trace."""


class Trace(Record, frozen=True, kw_only=True):
    """Work of one call on the GPU."""

    kernels: tuple[TracedKernel, ...] = ()
    """Kernels, the most time first."""
    launches: Count = 0
    """Kernels that ran; each node of a CUDA graph is one."""
    host_launches: Count = 0
    """Calls by which the host launched kernels and graphs; 0 if not known."""
    span_us: Duration = 0.0
    """From the start of the first activity on the GPU to the end of the last, in microseconds."""
    span_source: SpanSource = "profiler"
    profiled_span_us: Duration = 0.0
    """Span under torch.profiler, which slows the host down, in microseconds."""
    busy_us: Duration = 0.0
    """Microseconds of the span in which at least one activity ran."""
    gpu_time_us: Duration = 0.0
    """Sum of the durations of all kernels, copies and fills, in microseconds: overlapping ones count
    twice."""
    kernel_us: Duration = 0.0
    """Sum of the durations of all kernels, in microseconds."""
    computation_us: Duration | None = None
    """Microseconds in which a fill, or a kernel that is not communication, ran; None if not recorded."""
    communication: Communication | None = None
    """None if not recorded."""
    exposed_copy_us: Remainder | None = None
    """Microseconds in which copies ran, but nothing else; None if not recorded."""
    idle: Idle | None = None
    """None if not recorded, or if another source than the profiler measured the span."""
    gpu_busy_pct: Share | None = 0.0
    """`busy_us` of `span_us`, in %; None if not all kernels were recorded, so that `busy_us` is not known."""
    launch_gap_us: Duration = 0.0
    """Mean idle time between an activity and the next, in microseconds; 0 if there is only one, or if not
    all kernels were recorded."""
    copies: Count = 0
    """Number of memcpy; a kernel that copies is a kernel."""
    copy_bytes: Count = 0
    copy_us: Duration = 0.0
    copy_kinds: dict[str, Count] = {}
    """Number of copies of each kind: `HtoD`, `DtoD` …"""
    copy_kinds_us: dict[str, Duration] = {}
    """Time of copies of each kind, in microseconds."""
    memsets: Count = 0
    memset_us: Duration = 0.0
    synchronizations: Count = 0
    """Calls in which the host waited for the GPU, a stream or an event."""
    class_shares_pct: dict[str, Share] = {}
    """Share of `gpu_time_us` of each class, in %; copies and fills are data movement."""
    category_us: dict[str, Duration] = {}
    """Sum of the durations of each category, in microseconds; copies and fills are data movement."""
    tensor_core_share_pct: Share = 0.0
    """Share of `gpu_time_us` in kernels that are known to use tensor cores, in %."""
    tensor_cores_unknown_pct: Share = 0.0
    """Share in kernels that may use tensor cores or not, in %."""
    streams: Count = 0
    region: str = ""
    """Annotation around the call, the median of its occurrences; empty for a whole file."""
    occurrences: Count = 1
    """Number of occurrences of the annotation in the trace."""
    gpu: str = ""
    """Name in the driver: `NVIDIA H200`; empty if not known."""
    device: Count = 0
    """Number of the GPU in the trace."""
    other_gpus: tuple[Count, ...] = ()
    """Other GPUs on which the calls ran something, which is not in this table."""
    file: str = ""
    """Chrome trace next to the run file: `traces/…json.gz`; empty without one."""

    @property
    def values(self) -> dict[str, float]:
        """Values that limits can name, with their units in `records/value_names.py`."""
        counts = ("launches", "host_launches", "copies", "memsets", "synchronizations")
        shares = {f"class.{name}": self.class_shares_pct.get(name, 0.0) for name in KERNEL_CLASSES}
        found = {
            **{name: float(getattr(self, name)) for name in (*counts, "gpu_time_us", "span_us")},
            "gpu_busy": self.gpu_busy_pct,
            "launch_gap": None if self.gpu_busy_pct is None else self.launch_gap_us,
            "tensor_core_share": self.tensor_core_share_pct,
            **shares,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def exact(self) -> dict[str, int]:
        """Values that baselines have."""
        return {name: getattr(self, name) for name in EXACT_OF_TRACE}
