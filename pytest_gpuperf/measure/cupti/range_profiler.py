"""Hardware counters of the kernels of a call, read in this process: CUPTI's range profiler.

Each kernel is a range of its own, and the call is repeated until all counters are read. CUPTI could repeat
each kernel by itself and put device memory back between, but what it writes for that is still on its way to
DRAM when the kernel runs, and counts as its own. Caches and clocks are left as they are.

Starting the profiler costs as much as several passes, so it stays enabled from one read to the next, until
it is told to let go of the process: while it is attached, CUDA graphs are slower (see `activity`), and nobody
else can use CUPTI.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.cupti.activity import attach, detach, refuse_if_taken
from pytest_gpuperf.measure.cupti.host import Configuration, Host
from pytest_gpuperf.measure.cupti.library import CuptiError, cupti
from pytest_gpuperf.measure.cupti.params import (
    ChipName,
    CounterAvailability,
    CounterDataInfo,
    CounterDataInitialize,
    CounterDataSize,
    Decode,
    Enable,
    OfProfiler,
    Params,
    SetConfig,
    Stop,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_gpuperf.measure.cupti.library import Cupti

# CUpti_ProfilerRange and CUpti_ProfilerReplayMode in cupti_profiler_target.h.
_AUTO_RANGE, _USER_REPLAY = 1, 3


class RangeProfiler:
    """Reads the counters of the current CUDA device.

    Args:
        library: CUPTI.

    Raises:
        CuptiError: It refuses: no permission, another client, a GPU that it cannot profile.
    """

    def __init__(self, library: Cupti) -> None:
        self._cupti = library
        library.load_neighbours("libnvperf_host.so", "libnvperf_target.so")
        self._configurations: dict[tuple[str, ...], Configuration | None] = {}
        self._attached = False
        self._enabled: tuple[int, Configuration, int] | None = None
        """CUPTI's object, what it counts, and in which context."""
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
        """Those metrics that the chip counts; what ncu makes itself (`launch__*`) is none of them.

        Args:
            metrics: Raw names with their suffixes.
        """
        counted = [name for name in dict.fromkeys(metrics) if name.partition(".")[0] in self._base]
        if not counted or self._configuration(counted) is not None:
            return tuple(counted)
        return tuple(name for name in counted if self._configuration([name]) is not None)

    def read(
        self, call: Callable[[], object], metrics: Sequence[str], kernels: int
    ) -> list[dict[str, float]]:
        """Run a call and read the counters of its kernels.

        Args:
            call: Launches kernels; it has been called before, and is called once for each pass.
            metrics: Raw names, all known and at least one.
            kernels: How many kernels it launches.

        Returns:
            Values by raw name for each kernel, in the order of their launches, in base units (`ns`, `byte`,
            `%`); what has none is left out.

        Raises:
            CuptiError: CUPTI refuses, or the call launches another number of kernels.
        """
        found = self._configuration(metrics)
        assert found is not None
        self.attach()
        try:
            counters, dropped = self._count(call, found, kernels)
        except BaseException:
            self.let_go()
            raise
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
        # NaN: there was nothing to count, such as the hit rate of a cache that nobody asked.
        return [{name: value for name, value in row.items() if value == value} for row in rows]

    def let_go(self) -> None:
        """Leave the process to graphs and to other profilers; the next read attaches again."""
        if not self._attached:
            return
        self._disable()
        self._ask_quietly("cuptiProfilerDeInitialize", Params())
        self._cupti.functions.cuptiFinalize()
        self._attached = False

    def attach(self) -> None:
        """Take CUPTI, unless it is taken already.

        Raises:
            CuptiError: Another client has it or may, or there is no permission.
        """
        refuse_if_taken()
        if not self._attached:
            detach()
            # Where another client has it, it is not ours to end.
            attach(self._cupti)
            self._cupti.ask("cuptiProfilerInitialize", Params())
            self._attached = True

    def _enable(self, configuration: Configuration) -> int:
        """CUPTI's object; one that has counted something else goes on counting that, whatever it is told."""
        context = _current_context()
        if self._enabled is None or self._enabled[1:] != (configuration, context):
            self._disable()
            enabled = self._cupti.ask("cuptiRangeProfilerEnable", Enable(ctx=context))
            self._enabled = enabled.pRangeProfilerObject, configuration, context
        return self._enabled[0]

    def _disable(self) -> None:
        if self._enabled is not None:
            profiler, self._enabled = OfProfiler(pRangeProfilerObject=self._enabled[0]), None
            self._ask_quietly("cuptiRangeProfilerDisable", profiler)

    def _count(
        self, call: Callable[[], object], configuration: Configuration, kernels: int
    ) -> tuple[ctypes.Array[ctypes.c_char], int]:
        """What was counted, and how many kernels found no room in it."""
        profiler = self._enable(configuration)
        counters = self._counter_data(profiler, configuration, kernels)
        for _ in range(configuration.passes):
            self._cupti.ask("cuptiRangeProfilerStart", OfProfiler(pRangeProfilerObject=profiler))
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
        """The memory that the counters are decoded into; set for the profiler."""
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
        """Ask for the end of something; an error before it is more worth telling."""
        with suppress(CuptiError):
            self._cupti.ask(function, params)


def why_no_range_profiler() -> str:
    """Why there is no library to read counters with; empty where there is one."""
    try:
        library = cupti().functions
    except CuptiError as error:
        return str(error)
    if hasattr(library, "cuptiRangeProfilerEnable"):
        return ""
    return "the CUPTI of this torch is older than CUDA 12.6 and has no range profiler"


def _current_context() -> int:
    context = ctypes.c_void_p()
    if ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
        raise CuptiError("this thread has no CUDA context", expected="one that torch has made")
    return context.value
