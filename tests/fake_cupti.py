"""A fake CUPTI: it counts nothing, and checks the order of calls."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.measure.cupti.activity import Activity
from pytest_gpuperf.measure.cupti.libcupti import Cupti, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_gpuperf.measure.cupti import params

HOST, PROFILER, CONTEXT = 4711, 4712, 4713
NAN = float("nan")
PASSES = 3


def activity(name: str, launch: int = 1, start_ns: int = 0, **facts: Any) -> Activity:
    """Return the launch of 8192 blocks of 256 threads."""
    known = {"grid": (8192, 1, 1), "block": (256, 1, 1), "registers_per_thread": 28, **facts}
    return Activity(start_ns, start_ns + 100, name, launch=launch, **known)


class FakeCupti(Cupti):
    """Fake libcupti behind `Cupti.call`.

    Args:
        kernels: Kernels of a call: for each, its values by raw name. The chip counts the metrics that the
            rows have.
        refusals: Results to return instead, by function.
    """

    def __init__(
        self, *kernels: Mapping[str, float], refusals: Mapping[str, int] | None = None, bad: str = ""
    ) -> None:
        self.kernels = kernels
        self.refusals = dict(refusals or {})
        self.bad = bad
        """Metric with a suffix that does not exist."""
        self.state = "away"
        """One of `away`, `initialised`, `enabled`, `counting` and `counted`."""
        self.called: list[str] = []
        self.attached = False
        self.finalised = 0
        self.image = 0
        self.functions = SimpleNamespace(cuptiFinalize=self._finalize)  # type: ignore[assignment]

    def load_neighbours(self, *names: str) -> None:
        """Load nothing."""

    def call(self, function: str, *arguments: Any) -> None:
        """Carry out the function, or refuse."""
        name = function.removeprefix("cupti")
        self.called.append(name)
        if name.startswith("Activity"):
            self.attached = True
            return
        asked = arguments[0]._obj
        if asked.structSize != asked.size():
            raise refusal(function, 10)
        result = self.refusals.get(name) or getattr(self, f"_{name}")(asked)
        if result:
            raise refusal(function, result)

    def _finalize(self) -> int:
        assert self.state in ("away", "initialised")
        self.state = "away"
        self.attached = False
        self.finalised += 1
        return 0

    def _move(self, before: str, after: str) -> int:
        if self.state != before:
            return 7
        self.state = after
        return 0

    def _ProfilerInitialize(self, asked: params.Params) -> int:
        # The real CUPTI does the same after cuptiFinalize.
        return self._move("away", "initialised") if self.attached else 15

    def _ProfilerDeInitialize(self, asked: params.Params) -> int:
        return self._move("initialised", "away")

    def _DeviceGetChipName(self, asked: params.ChipName) -> int:
        asked.pChipName = b"GH100"
        return self._move("initialised", "initialised")

    def _ProfilerGetCounterAvailability(self, asked: params.CounterAvailability) -> int:
        asked.counterAvailabilityImageSize = 8
        return 0 if asked.ctx == CONTEXT else 3

    def _RangeProfilerEnable(self, asked: params.Enable) -> int:
        asked.pRangeProfilerObject = PROFILER
        return self._move("initialised", "enabled") if asked.ctx == CONTEXT else 3

    def _RangeProfilerDisable(self, asked: params.WithProfiler) -> int:
        return 7 if self.state == "counting" else self._move(self.state, "initialised")

    def _RangeProfilerGetCounterDataSize(self, asked: params.CounterDataSize) -> int:
        asked.counterDataSize = 16 * asked.maxNumOfRanges
        return 0

    def _RangeProfilerCounterDataImageInitialize(self, asked: params.CounterDataInitialize) -> int:
        self.image = asked.pCounterData
        return 0

    def _RangeProfilerSetConfig(self, asked: params.SetConfig) -> int:
        same = (asked.pCounterDataImage, asked.range, asked.replayMode) == (self.image, 1, 3)
        self.passes = 0
        self.room = asked.maxRangesPerPass
        return 0 if same and ctypes.string_at(asked.pConfig, asked.configSize) == b"image" else 1

    def _RangeProfilerStart(self, asked: params.WithProfiler) -> int:
        return self._move("enabled", "counting")

    def _RangeProfilerStop(self, asked: params.Stop) -> int:
        self.passes += 1
        return self._move("counting", "enabled")

    def _RangeProfilerDecodeData(self, asked: params.Decode) -> int:
        asked.numOfRangeDropped = max(0, len(self.kernels) - self.room)
        return self._move("enabled", "enabled") if self.passes == PASSES else 7

    def _RangeProfilerGetCounterDataInfo(self, asked: params.CounterDataInfo) -> int:
        asked.numTotalRanges = min(len(self.kernels), self.room)
        return 0 if asked.pCounterDataImage == self.image else 1

    def _ProfilerHostInitialize(self, asked: params.HostInitialize) -> int:
        asked.pHostObject = HOST
        return 0 if asked.pChipName == b"GH100" and asked.pCounterAvailabilityImage else 46

    def _ProfilerHostDeinitialize(self, asked: params.WithHost) -> int:
        return 0

    def _ProfilerHostGetBaseMetrics(self, asked: params.BaseMetrics) -> int:
        names = sorted({name.partition(".")[0] for row in self.kernels for name in row})
        names = names if asked.metricType == 0 else []
        self.names = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))
        asked.ppMetricNames, asked.numMetrics = self.names, len(names)
        return 0

    def _ProfilerHostConfigAddMetrics(self, asked: params.AddMetrics) -> int:
        return int(self.bad.encode() in asked.ppMetricNames[: asked.numMetrics])

    def _ProfilerHostGetConfigImageSize(self, asked: params.ConfigImageSize) -> int:
        asked.configImageSize = 5
        return 0

    def _ProfilerHostGetConfigImage(self, asked: params.ConfigImage) -> int:
        ctypes.memmove(asked.pConfigImage, b"image", asked.configImageSize)
        return 0

    def _ProfilerHostGetNumOfPasses(self, asked: params.NumOfPasses) -> int:
        asked.numOfPasses = PASSES
        return 0

    def _ProfilerHostEvaluateToGpuValues(self, asked: params.Evaluate) -> int:
        row = self.kernels[asked.rangeIndex]
        for index in range(asked.numMetrics):
            asked.pMetricValues[index] = row.get(asked.ppMetricNames[index].decode(), NAN)
        return 0


def recording(*activities: Activity) -> Any:
    """Return a replacement of `activity.recorded`."""

    @contextmanager
    def recorded(*, stay: bool = False) -> Iterator[list[Activity]]:
        found: list[Activity] = []
        yield found
        found.extend(activities)

    return recorded
