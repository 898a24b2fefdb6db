"""CUPTI's range profiler: hardware counters of the kernels of a call, read in this process.

Each kernel is one range, and the call is repeated until all counters are read. CUPTI could repeat each kernel
itself and restore device memory before it, but the restored data is still on its way to DRAM when the kernel
runs, and counts as traffic of the kernel. Clocks stay as they are.

Starting the profiler costs as much as several passes, so it stays enabled between reads until `let_go`. While
it is attached, CUDA graphs are slower (see `activity`), and no other profiler can use CUPTI.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.cupti.activity import MEMSET
from pytest_gpuperf.measure.cupti.chip_metrics import Configuration, Host
from pytest_gpuperf.measure.cupti.libcupti import OWNER, CuptiError, cupti, refused_clients
from pytest_gpuperf.measure.cupti.param_structs import (
    ChipName,
    CounterAvailability,
    CounterDataInfo,
    CounterDataInitialize,
    CounterDataSize,
    Decode,
    Enable,
    Params,
    SetConfig,
    Stop,
    WithProfiler,
)
from pytest_gpuperf.measure.device.driver import DriverError, call

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_gpuperf.measure.cupti.libcupti import Cupti

# CUpti_ProfilerRange and CUpti_ProfilerReplayMode in cupti_profiler_target.h.
_AUTO_RANGE, _USER_REPLAY = 1, 3
LIBRARIES = ("libnvperf_host.so", "libnvperf_target.so")


class RangeProfiler:
    """Reader of the counters of the current CUDA device.

    Args:
        library: CUPTI.

    Raises:
        CuptiError: CUPTI refuses: no permission, another client, a GPU that it cannot profile.
    """

    def __init__(self, library: Cupti) -> None:
        self._cupti = library
        library.load_neighbours(*LIBRARIES)
        self._configurations: dict[tuple[str, ...], Configuration | None] = {}
        self._attached = False
        self._enabled: tuple[int, Configuration, int] | None = None
        """CUPTI's object, its configuration and its context."""
        self.attach()
        try:
            device = torch.cuda.current_device()
            chip = library.ask("cuptiDeviceGetChipName", ChipName(deviceIndex=device)).pChipName
            self._host = Host(library, chip.decode(), self._availability())
            self._base = frozenset(self._host.base_metrics())
        except BaseException:
            self.let_go()
            raise

    def known(self, metrics: Sequence[str]) -> tuple[str, ...]:
        """List the metrics that the chip counts, without those that ncu makes itself (`launch__*`).

        Args:
            metrics: Raw names with their suffixes.
        """
        counted = [name for name in dict.fromkeys(metrics) if name.partition(".")[0] in self._base]
        if not counted or self._configuration(counted) is not None:
            return tuple(counted)
        return tuple(name for name in counted if self._configuration([name]) is not None)

    def read(
        self,
        call: Callable[[], object],
        metrics: Sequence[str],
        kernels: int,
        before: Callable[[], object] = lambda: None,
    ) -> list[dict[str, float]]:
        """Run a call and read the counters of its kernels.

        Args:
            call: Launches kernels; it was called before, and is called once for each pass.
            metrics: Raw names, all known and at least one.
            kernels: Number of kernels that it launches.
            before: Called before each pass; its launches are not counted.

        Returns:
            Values by raw name for each kernel, in the order of their launches, in base units (`ns`, `byte`,
            `%`), without metrics that have no value.

        Raises:
            CuptiError: CUPTI refuses, or the call launches another number of kernels.
        """
        found = self._configuration(metrics)
        assert found is not None
        self.attach()
        try:
            with refused_clients():
                return self._read(call, found, kernels, before)
        except BaseException:
            self.let_go()
            raise

    def _read(
        self,
        call: Callable[[], object],
        found: Configuration,
        kernels: int,
        before: Callable[[], object],
    ) -> list[dict[str, float]]:
        counters, dropped = self._count(call, found, kernels, before)
        ranges = self._cupti.ask(
            "cuptiRangeProfilerGetCounterDataInfo",
            CounterDataInfo(pCounterDataImage=ctypes.addressof(counters), counterDataImageSize=len(counters)),
        ).numTotalRanges
        if dropped or ranges != kernels:
            raise CuptiError(
                f"the call launched {ranges + dropped} kernels under the profiler and {kernels} before",
                expected="a callable that launches the same kernels each time",
            )
        rows = self._host.evaluate(counters, ranges, found.metrics)
        # NaN: there was nothing to count, such as the hit rate of an unused cache.
        return [{name: value for name, value in row.items() if value == value} for row in rows]

    def let_go(self) -> None:
        """Detach CUPTI for graphs and other profilers; the next read attaches it again."""
        if not self._attached:
            return
        self._disable()
        self._ask_quietly("cuptiProfilerDeInitialize", Params())
        OWNER.detach()
        self._attached = False

    def attach(self) -> None:
        """Attach CUPTI, unless this object has done so.

        Raises:
            CuptiError: Another client uses it or may use it, or permission is missing.
        """
        if not self._attached:
            OWNER.detach()
        OWNER.attach(self._cupti)
        if self._attached:
            return
        self._attached = True
        try:
            # After `cuptiFinalize` a profiler does not attach CUPTI itself, but this does.
            self._cupti.call("cuptiActivityEnable", MEMSET)
            self._cupti.call("cuptiActivityDisable", MEMSET)
            self._cupti.ask("cuptiProfilerInitialize", Params())
        except BaseException:
            self.let_go()
            raise

    def _enable(self, configuration: Configuration) -> int:
        """Return CUPTI's object: a new one for another configuration, since a used one keeps its first."""
        context = _current_context()
        if self._enabled is None or self._enabled[1:] != (configuration, context):
            self._disable()
            enabled = self._cupti.ask("cuptiRangeProfilerEnable", Enable(ctx=context))
            self._enabled = enabled.pRangeProfilerObject, configuration, context
        return self._enabled[0]

    def _disable(self) -> None:
        if self._enabled is not None:
            profiler, self._enabled = WithProfiler(pRangeProfilerObject=self._enabled[0]), None
            self._ask_quietly("cuptiRangeProfilerDisable", profiler)

    def _count(
        self,
        call: Callable[[], object],
        configuration: Configuration,
        kernels: int,
        before: Callable[[], object],
    ) -> tuple[ctypes.Array[ctypes.c_char], int]:
        """Count: return the counters and the number of kernels that found no room in them."""
        profiler = self._enable(configuration)
        counters = self._counter_data(profiler, configuration, kernels)
        for _ in range(configuration.passes):
            before()
            torch.cuda.synchronize()
            self._cupti.ask("cuptiRangeProfilerStart", WithProfiler(pRangeProfilerObject=profiler))
            try:
                call()
                torch.cuda.synchronize()
            except BaseException:
                self._ask_quietly("cuptiRangeProfilerStop", Stop(pRangeProfilerObject=profiler))
                raise
            self._cupti.ask("cuptiRangeProfilerStop", Stop(pRangeProfilerObject=profiler))
        decoded = self._cupti.ask("cuptiRangeProfilerDecodeData", Decode(pRangeProfilerObject=profiler))
        return counters, decoded.numOfRangeDropped

    def _configuration(self, metrics: Collection[str]) -> Configuration | None:
        key = tuple(metrics)
        if key not in self._configurations:
            self._configurations[key] = self._host.configuration(key)
        return self._configurations[key]

    def _availability(self) -> ctypes.Array[ctypes.c_char]:
        asked = CounterAvailability(ctx=_current_context())
        size = self._cupti.ask("cuptiProfilerGetCounterAvailability", asked)
        image = ctypes.create_string_buffer(size.counterAvailabilityImageSize)
        asked.counterAvailabilityImageSize = len(image)
        asked.pCounterAvailabilityImage = ctypes.addressof(image)
        self._cupti.ask("cuptiProfilerGetCounterAvailability", asked)
        return image

    def _counter_data(
        self, profiler: int, configuration: Configuration, kernels: int
    ) -> ctypes.Array[ctypes.c_char]:
        """Allocate the memory for decoded counters, and set it in the profiler."""
        metrics = configuration.metrics
        names = (ctypes.c_char_p * len(metrics))(*(name.encode() for name in metrics))
        size = self._cupti.ask(
            "cuptiRangeProfilerGetCounterDataSize",
            CounterDataSize(
                pRangeProfilerObject=profiler,
                pMetricNames=names,
                numMetrics=len(names),
                maxNumOfRanges=kernels,
                maxNumRangeTreeNodes=kernels,
            ),
        ).counterDataSize
        image = ctypes.create_string_buffer(size)
        address = ctypes.addressof(image)
        self._cupti.ask(
            "cuptiRangeProfilerCounterDataImageInitialize",
            CounterDataInitialize(pRangeProfilerObject=profiler, counterDataSize=size, pCounterData=address),
        )
        self._cupti.ask(
            "cuptiRangeProfilerSetConfig",
            SetConfig(
                pRangeProfilerObject=profiler,
                configSize=len(configuration.image),
                pConfig=ctypes.addressof(configuration.image),
                counterDataImageSize=size,
                pCounterDataImage=address,
                range=_AUTO_RANGE,
                replayMode=_USER_REPLAY,
                maxRangesPerPass=kernels,
                numNestingLevels=1,
                minNestingLevel=1,
            ),
        )
        return image

    def _ask_quietly(self, function: str, params: Params) -> None:
        """Call a function that ends something, and ignore its error: an earlier error matters more."""
        with suppress(CuptiError):
            self._cupti.ask(function, params)


def why_no_range_profiler() -> str:
    """Return the reason why no library can read counters; empty if one can."""
    try:
        library = cupti().functions
    except CuptiError as error:
        return str(error)
    if hasattr(library, "cuptiRangeProfilerEnable"):
        return ""
    return "the CUPTI of this torch is older than CUDA 12.6 and has no range profiler"


def _current_context() -> int:
    context = ctypes.c_void_p()
    with suppress(DriverError):
        call("cuCtxGetCurrent", ctypes.byref(context))
    if not context.value:
        raise CuptiError("this thread has no CUDA context", expected="one that torch has made")
    return context.value
