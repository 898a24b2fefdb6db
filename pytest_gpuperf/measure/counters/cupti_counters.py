"""Counters read in this process by CUPTI, without ncu.

A call runs twice: CUPTI's activity records say which kernels it launches and how, its range profiler counts
them. Both cannot be had at once, so they are matched by the order of launches.
"""

from __future__ import annotations

from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.counters.call_profile import by_kind, choose, names_to_read, profile_of
from pytest_gpuperf.measure.counters.launch_facts import launch_facts
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.cupti.library import CuptiError, cupti
from pytest_gpuperf.measure.cupti.range_profiler import RangeProfiler
from pytest_gpuperf.measure.ncu.csv_reader import function_name
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.measure.ncu.tool import NO_NCU
from pytest_gpuperf.records import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pytest_gpuperf.measure.counters.call_profile import Wanted
    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.records import GpuInfo
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.selection import Selection

BY_CUPTI = (
    f"{NO_NCU}: CUPTI has read the counters, in the process of the tests and with the caches as they were"
)
WARM_UP_CALLS = 2
"""Compilation and autotuning happen in the first, lazy initialisation in the next."""


class CuptiCounters:
    """Answers for the counters of each call by profiling it at once.

    Args:
        gpu: The current device.
        chip: Name of its chip, such as `gh100`; empty where it is not known.
        insists: Whether a refusal of CUPTI's is raised; else the profile says it, and the test goes on.
    """

    def __init__(self, gpu: GpuInfo, chip: str, *, insists: bool = True) -> None:
        self._insists = insists
        self.unavailable = ""
        """Why no counters can be had in this session."""
        self._gpu = gpu
        self._chip = chip
        self._wanted: dict[str, Wanted] = {}
        self._profiler: RangeProfiler | None = None

    def expect(self, wanted: Iterable[Wanted]) -> None:
        """Learn what the tests want."""
        self._wanted = {test.nodeid: test for test in wanted}

    def read_ahead(
        self,
        wanted: Iterable[Wanted],
        arguments: Sequence[str],  # noqa: ARG002
        cwd: Path,  # noqa: ARG002
        progress: object,  # noqa: ARG002
    ) -> str:
        """Read nothing yet, and learn what the tests want.

        Returns:
            What a reader of the counters should know who has not asked for CUPTI.
        """
        self.expect(wanted)
        return "" if self._insists or self.unavailable or not self._wanted else BY_CUPTI

    def has(self, nodeid: str) -> bool:  # noqa: ARG002
        """Whether a test has counters whatever is unavailable: none was kept."""
        return False

    def keep(self, read_at: str) -> str:  # noqa: ARG002
        """Keep nothing: a check would take as long as reading them again."""
        return ""

    def lookup(
        self,
        call: Call,
        selection: Selection,
        metrics: Sequence[str],
        launched: Callable[[], list[Activity]],  # noqa: ARG002
    ) -> Profile:
        """Profile a call. CUPTI stays attached for the next one until `let_go`.

        Args:
            call: The call.
            selection: Chooses among its kernels.
            metrics: Short names and raw ones to keep.
            launched: Not needed: the kernels are known.

        Raises:
            GpuperfError: No kernel matched, or CUPTI refuses or has no such metric, and that is insisted on.
        """
        if self.unavailable:
            return Profile(regex=selection.regex or "", unavailable=self.unavailable)
        wanted = self._wanted.get(call.nodeid)
        try:
            kernels = self._read(call, metrics)
            chosen = choose(call, kernels, selection, wanted, lambda: [kernel.name for kernel in kernels])
            _check_metrics(chosen, by_kind(metrics)[1])
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
            cache_control="none",
            clock_control="none",
            chip=self._chip,
        )

    def let_go(self) -> None:
        """Leave CUPTI to others, and the GPU as fast as it is without."""
        if self._profiler is not None:
            self._profiler.let_go()

    def _read(self, call: Call, metrics: Sequence[str]) -> list[RawKernel]:
        for _ in range(WARM_UP_CALLS):
            call()
        if self._profiler is None:
            self._profiler = RangeProfiler(cupti())
        self._profiler.attach()
        with recorded(stay=True) as activities:
            call()
        launches = in_launch_order(activity for activity in activities if activity.name)
        if not launches:
            return []
        names = self._profiler.known(names_to_read(metrics, self._chip))
        rows = self._profiler.read(call, names, len(launches)) if names else [{}] * len(launches)
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


def in_launch_order(kernels: Iterable[Activity]) -> list[Activity]:
    """Kernels as they were launched.

    Raises:
        CuptiError: Some are the nodes of a CUDA graph, of which CUPTI counts all together.
    """
    ordered = sorted(kernels, key=attrgetter("launch"))
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
                expected="a metric that `ncu --query-metrics` lists for this GPU, with its suffix; launch__* "
                "and sampled ones are ncu's own",
            )
