"""Counters read by CUPTI in the process of the tests, without ncu.

A call runs twice: CUPTI's activity records tell its kernels and their launches, and the range profiler
counts. Both cannot run at once, so they are matched by the order of launches. Before each pass of the range
profiler the L2 is emptied, as ncu does before each kernel.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.counters.call_profile import by_kind, choose, names_to_read, profile_of
from pytest_gpuperf.measure.counters.kept_counters import launched_kernels
from pytest_gpuperf.measure.counters.launch_facts import launch_facts
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, cupti
from pytest_gpuperf.measure.cupti.range_profiler import RangeProfiler
from pytest_gpuperf.measure.device.l2 import FLUSHED_SIZES, CleanFlush, set_aside_restored
from pytest_gpuperf.measure.ncu.kernel_name import function_name
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.measure.ncu.tool import CACHE_CONTROL, CLOCK_CONTROL
from pytest_gpuperf.records import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.measure.counters.kept_calls import KeptCalls
    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.records import GpuInfo
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import SelectedTest
    from pytest_gpuperf.records.selection import Selection

WARM_UP_CALLS = 2
"""Compilation and autotuning happen in the first call, lazy initialisation in the next."""


class CuptiCounters:
    """Source of counters that profiles each call at once.

    Args:
        gpu: The current device.
        chip: Name of its chip, such as `gh100`; empty if it is unknown.
        insists: Raise an error if CUPTI refuses; if False, the profile says so and the test goes on.
        kept: Counters of earlier runs; None to read all.
    """

    def __init__(
        self, gpu: GpuInfo, chip: str, *, insists: bool = True, kept: KeptCalls | None = None
    ) -> None:
        self._insists = insists
        self._kept = kept
        self.unavailable = ""
        """Reason why this run has no counters; empty if it can have them."""
        self._gpu = gpu
        self._chip = chip
        self._wanted: dict[str, SelectedTest] = {}
        self._profiler: RangeProfiler | None = None

    def expect(self, tests: Iterable[SelectedTest]) -> None:
        """Store the requests of the tests."""
        self._wanted = {test.nodeid: test for test in tests}

    def refusal(self) -> str:
        """Return why CUPTI cannot read any counters here; empty if it can."""
        if self.unavailable:
            return self.unavailable
        try:
            self._attached().try_out()
        except CuptiError as error:
            return str(error)
        finally:
            self.let_go()
        return ""

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        """Profile a call. CUPTI stays attached until `let_go`.

        Args:
            call: The call.
            selection: The choice among its kernels.
            metrics: Short names and raw ones to keep.

        Raises:
            GpuperfError: No kernel matched; or CUPTI refuses or lacks a metric, and `insists` is set.
        """
        if self.unavailable:
            return Profile(regex=selection.regex or "", unavailable=self.unavailable)
        wanted = self._wanted.get(call.nodeid)
        read_at = ""
        launched: list[Activity] = []  # none if the counters were kept
        try:
            found = self._kept.find(call, wanted) if self._kept is not None and wanted is not None else None
            if found is not None:
                kernels, read_at = found
            else:
                with set_aside_restored():
                    launched = self._launches(call)
                    kernels = self._read(call, launched, metrics)
            names = partial(self._names, call, launched, kept=found is not None)
            chosen = choose(call, kernels, selection, wanted, names)
            _check_metrics(chosen, by_kind(metrics)[1])
            if self._kept is not None and wanted is not None and found is None:
                self._kept.note(call, kernels, launched)
        except CuptiError as error:
            if self._insists:
                raise
            return Profile(regex=selection.regex or "", unavailable=str(error), tolerated=True)
        return profile_of(
            chosen,
            metrics,
            selection=selection,
            wanted=wanted,
            source="cupti",
            cache_control=CACHE_CONTROL,
            clock_control=CLOCK_CONTROL,
            chip=self._chip,
            read_at=read_at,
        )

    def keep(self, read_at: str) -> str:
        """Keep the counters that were read in this run for later ones.

        Args:
            read_at: Date of the run.

        Returns:
            Why they could not be kept; empty if they were.
        """
        return self._kept.keep(read_at) if self._kept is not None else ""

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

    def _names(self, call: Call, launched: Sequence[Activity], *, kept: bool) -> list[str]:
        """Return the names of all kernels of a call; kept are only those of the marker."""
        return [function_name(one.name) for one in (launched_kernels(call) if kept else launched)]

    def _launches(self, call: Call) -> list[Activity]:
        for _ in range(WARM_UP_CALLS):
            call()
        self._attached()
        with recorded(stay=True) as activities:
            call()
        return [one for one in in_launch_order(activities) if one.name]

    def _read(self, call: Call, launches: Sequence[Activity], metrics: Sequence[str]) -> list[RawKernel]:
        if not launches:
            return []
        profiler = self._attached()
        names = profiler.known(names_to_read(metrics, self._chip))
        rows: list[dict[str, float]] = [{}] * len(launches)
        if names:
            rows = profiler.read(call, names, len(launches), self._flush())
        return [
            RawKernel(
                name=function_name(launch.name),
                demangled=launch.name,
                grid=launch.grid,
                block=launch.block,
                metrics={**launch_facts(launch, self._gpu), **row},
            )
            for launch, row in zip(launches, rows, strict=True)
        ]


def in_launch_order(activities: Iterable[Activity]) -> list[Activity]:
    """Sort kernels, copies and fills by launch.

    Raises:
        CuptiError: Some are nodes of a CUDA graph, which CUPTI counts all together.
    """
    ordered = sorted(activities, key=attrgetter("launch"))
    if any(before.launch == after.launch for before, after in pairwise(ordered)):
        raise CuptiError(
            "the call launches a CUDA graph, whose kernels CUPTI counts as one",
            expected="a call that launches its kernels one by one",
            next_step="profile what was captured, or use --gpuperf-counters=ncu",
        )
    return ordered


def _check_metrics(kernels: Iterable[RawKernel], metrics: Iterable[str]) -> None:
    for metric in metrics:
        if not any(metric in kernel.metrics for kernel in kernels):
            raise CuptiError(
                f"CUPTI has no value for the metric {metric!r}",
                expected="a metric that `ncu --query-metrics` lists for this GPU, with its suffix; only "
                "ncu has launch__* and sampled ones",
            )
