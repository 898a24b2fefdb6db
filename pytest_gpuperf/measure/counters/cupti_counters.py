"""Counters read by CUPTI in the process of the tests, without ncu.

CUPTI's activity records tell the kernels of a call and their launches, and the range profiler counts. Both
cannot run at once, so they are matched by the order of launches. Before each pass of the range
profiler the L2 is emptied, as ncu does before each kernel.

A call that replays a CUDA graph never reaches the range profiler: CUPTI counts a graph as one kernel, and may
end in a state in which later kernels fail.

Facts that ncu reports without counting, the sizes of a launch and the occupancy that they allow, come from
CUPTI's record of the launch and NVIDIA's occupancy calculation, under ncu's raw names. Barriers are not in
the record, so their limit is left out.
"""

from __future__ import annotations

import math
from contextlib import suppress
from operator import attrgetter
from threading import Thread
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.counter_source import (
    CounterSource,
    RawKernel,
    function_name,
    names_to_read,
)
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, cupti
from pytest_gpuperf.measure.cupti.range_profiler import LIBRARIES, RangeProfiler
from pytest_gpuperf.measure.device.memory import FLUSHED_SIZES, CleanFlush, set_aside_restored
from pytest_gpuperf.measure.device.occupancy import multiprocessor, occupancy
from pytest_gpuperf.records import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.device.occupancy import Occupancy
    from pytest_gpuperf.records import GpuInfo
    from pytest_gpuperf.records.call import Call, Selection
    from pytest_gpuperf.records.passes import SelectedTest

WARM_UP_CALLS = 2
"""Compilation and autotuning happen in the first call, lazy initialisation in the next."""


class CuptiCounters(CounterSource):
    """Source of counters that profiles each call at once.

    Args:
        gpu: The current device.
        chip: Name of its chip, such as `gh100`; empty if it is unknown.
        insists: Raise an error if CUPTI cannot read a call; if False, the profile says so and the test goes
            on.
    """

    def __init__(self, gpu: GpuInfo, chip: str, *, insists: bool = True) -> None:
        super().__init__("cupti", chip)
        self._insists = insists
        self._broken = ""
        """The error without a known cause after which CUPTI reads nothing: its state is unknown."""
        self._gpu = gpu
        self._profiler: RangeProfiler | None = None

    def expect(self, tests: Iterable[SelectedTest]) -> None:
        """Store the requests of the tests, and load the libraries while the first of them begins."""
        super().expect(tests)
        if self._wanted and not self.unavailable:
            with suppress(CuptiError, OSError):
                Thread(target=cupti().load_neighbours, args=LIBRARIES, daemon=True).start()

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        """Profile a call. CUPTI stays attached until `let_go`.

        Args:
            call: The call.
            selection: The choice among its kernels.
            metrics: Short names and raw ones to keep.

        Raises:
            GpuperfError: No kernel matched; or CUPTI cannot read the call, and `insists` is set.
        """
        if self.unavailable:
            return Profile(regex=selection.regex or "", unavailable=self.unavailable)
        try:
            if self._broken:
                raise CuptiError(self._broken)
            with set_aside_restored():
                launched = self._launches(call)
                kernels = [self._kernel(launch) for launch in launched]
                names = [kernel.name for kernel in kernels]
                chosen = self.choose(call, kernels, selection, lambda: names)
                _refuse_graph(launched)
                self._count(call, kernels, metrics)
            return self.profile_of(call, chosen, selection, metrics)
        except CuptiError as error:
            if error.is_unexplained:
                self._broken = f"CUPTI reads nothing more in this process, because of an error: {error.found}"
            if self._insists:
                raise
            return Profile(
                regex=selection.regex or "",
                launches=selection.recorded,
                unavailable=str(error),
                tolerated=True,
            )

    def let_go(self) -> None:
        """Detach CUPTI: other profilers can use it, and the GPU has its full speed."""
        if self._profiler is not None:
            self._profiler.let_go()

    def _attached(self) -> RangeProfiler:
        if self._profiler is None:
            self._profiler = RangeProfiler(cupti())
        self._profiler.attach()
        return self._profiler

    def _flush(self) -> CleanFlush:
        try:
            return CleanFlush(self._gpu.l2_bytes)
        except torch.cuda.OutOfMemoryError:
            raise CuptiError(
                "there is no memory left to flush the L2 with",
                expected=f"{FLUSHED_SIZES} times the L2",
                next_step="profile a smaller shape",
            ) from None

    def _launches(self, call: Call) -> list[Activity]:
        for _ in range(WARM_UP_CALLS):
            call()
        self._attached()
        with recorded(stay=True) as activities:
            call()
        return [one for one in sorted(activities, key=attrgetter("launch")) if one.name]

    def _kernel(self, launch: Activity) -> RawKernel:
        """Return a launched kernel, with the facts known before anything is counted."""
        return RawKernel(
            name=function_name(launch.name),
            demangled=launch.name,
            grid=launch.grid,
            block=launch.block,
            metrics=dict(launch_facts(launch, self._gpu)),
        )

    def _count(self, call: Call, kernels: Sequence[RawKernel], metrics: Sequence[str]) -> None:
        profiler = self._attached()
        names = profiler.known(names_to_read(metrics, self._chip))
        if names:
            rows = profiler.read(call, names, len(kernels), self._flush())
            for kernel, row in zip(kernels, rows, strict=True):
                kernel.metrics.update(row)

    def _no_value(self, metric: str) -> CuptiError:
        return CuptiError(
            f"CUPTI has no value for the metric {metric!r}",
            expected="a metric that `ncu --query-metrics` lists for this GPU, with its suffix; only ncu has "
            "launch__* and sampled ones",
        )


def _refuse_graph(launches: Iterable[Activity]) -> None:
    if any(launch.in_graph for launch in launches):
        raise CuptiError(
            "the call launches a CUDA graph, whose kernels CUPTI counts as one",
            expected="a call that launches its kernels one by one",
            next_step="install ncu, which reads graphs, or profile what was captured",
        )


def launch_facts(launch: Activity, gpu: GpuInfo) -> dict[str, float]:
    """Compute the facts of a launch by raw ncu name, in ncu's base units.

    Args:
        launch: CUPTI's record.
        gpu: The GPU; if its compute capability is unknown, the facts of occupancy are left out.
    """
    grid_size, block_size = math.prod(launch.grid), math.prod(launch.block)
    cluster_size = math.prod(launch.cluster)
    static, both = launch.static_shared_memory_bytes, launch.shared_memory_bytes
    facts: dict[str, float] = {
        "launch__grid_size": grid_size,
        "launch__block_size": block_size,
        "launch__registers_per_thread": launch.registers_per_thread,
        "launch__shared_mem_per_block_static": static,
        "launch__shared_mem_per_block_dynamic": both - static,
        # ncu writes 0 for a launch without clusters.
        "launch__cluster_size": cluster_size if cluster_size > 1 else 0,
        "launch__sm_count": gpu.multiprocessors,
    }
    major, _, minor = gpu.compute_capability.partition(".")
    try:
        capability = int(major), int(minor)
        driver = multiprocessor(capability).reserved_bytes
        fits = _occupancy(launch, capability, block_size)
    except (GpuperfError, ValueError):
        return facts
    facts["launch__shared_mem_per_block_driver"] = driver
    facts["launch__shared_mem_per_block"] = both + driver
    facts["sm__maximum_warps_per_active_cycle_pct"] = fits.theoretical_occupancy_pct
    facts["launch__waves_per_multiprocessor"] = grid_size / (fits.blocks_per_sm * gpu.multiprocessors)
    for limiter, blocks in fits.limits.items():
        if limiter != "barriers":
            facts[f"launch__occupancy_limit_{limiter}"] = blocks
    return facts


def _occupancy(launch: Activity, capability: tuple[int, int], block_size: int) -> Occupancy:
    configured = launch.shared_memory_per_sm
    sizes = [1024 * kib for kib in multiprocessor(capability).shared_memory_kib]
    return occupancy(
        capability,
        block_size=block_size,
        registers_per_thread=launch.registers_per_thread,
        shared_memory_per_block=launch.shared_memory_bytes,
        shared_memory_per_sm=configured if configured in sizes else None,
    )
