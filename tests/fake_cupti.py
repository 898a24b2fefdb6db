"""A fake CUPTI: it counts nothing, and checks the order of calls."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.measure import first_calls
from pytest_gpuperf.measure.cupti import activity as activity_records
from pytest_gpuperf.measure.cupti import libcupti, range_profiler
from pytest_gpuperf.measure.cupti.activity import Activity
from pytest_gpuperf.measure.cupti.libcupti import Cupti, Owner, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from pytest_gpuperf.measure.cupti import param_structs

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
        self.subscriber = 0
        """The one that CUPTI calls back; 0 without one."""
        self.kinds: set[int] = set()
        """Kinds of records that are enabled."""
        self.records_go_to: object = None
        """The callback that gets the records; CUPTI has one."""
        self._subscribers = 0
        self.functions = SimpleNamespace(  # type: ignore[assignment]
            cuptiFinalize=self._finalize,
            cuptiActivityDisable=partial(self.call, "cuptiActivityDisable"),
            cuptiActivityGetNextRecord=ctypes.CFUNCTYPE(ctypes.c_int)(),
        )

    def load_neighbours(self, *names: str) -> None:
        """Load nothing."""

    def call(self, function: str, *arguments: Any) -> None:
        """Carry out the function, or refuse."""
        name = function.removeprefix("cupti")
        self.called.append(name)
        if name.startswith("Activity"):
            self.attached = True
            if name == "ActivityEnable":
                self.kinds.add(arguments[0])
            elif name == "ActivityDisable":
                self.kinds.discard(arguments[0])
            elif name == "ActivityRegisterCallbacks":
                self.records_go_to = arguments[0]
            return
        if name in ("Subscribe", "Unsubscribe", "EnableCallback"):
            if result := self.refusals.get(name) or getattr(self, f"_{name}")(*arguments):
                raise refusal(function, result)
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
        self.subscriber, self.kinds, self.records_go_to = 0, set(), None
        return 0

    def _Subscribe(self, subscriber: Any, callback: Any, _user: None) -> int:
        if self.subscriber:
            return 39
        self.attached = True
        self._subscribers += 1
        self.subscriber = subscriber._obj.value = self._subscribers
        self.callback = callback
        return 0

    def _Unsubscribe(self, subscriber: ctypes.c_void_p) -> int:
        if subscriber.value != self.subscriber:
            return 1
        self.subscriber = 0
        return 0

    def _EnableCallback(self, _enable: Any, subscriber: ctypes.c_void_p, *_of: Any) -> int:
        return 0 if subscriber.value == self.subscriber else 1

    def _move(self, before: str, after: str) -> int:
        if self.state != before:
            return 7
        self.state = after
        return 0

    def _ProfilerInitialize(self, asked: param_structs.Params) -> int:
        # The real CUPTI does the same after cuptiFinalize.
        return self._move("away", "initialised") if self.attached else 15

    def _ProfilerDeInitialize(self, asked: param_structs.Params) -> int:
        return self._move("initialised", "away")

    def _DeviceGetChipName(self, asked: param_structs.ChipName) -> int:
        asked.pChipName = b"GH100"
        return self._move("initialised", "initialised")

    def _ProfilerGetCounterAvailability(self, asked: param_structs.CounterAvailability) -> int:
        asked.counterAvailabilityImageSize = 8
        return 0 if asked.ctx == CONTEXT else 3

    def _RangeProfilerEnable(self, asked: param_structs.Enable) -> int:
        asked.pRangeProfilerObject = PROFILER
        return self._move("initialised", "enabled") if asked.ctx == CONTEXT else 3

    def _RangeProfilerDisable(self, asked: param_structs.WithProfiler) -> int:
        return 7 if self.state == "counting" else self._move(self.state, "initialised")

    def _RangeProfilerGetCounterDataSize(self, asked: param_structs.CounterDataSize) -> int:
        asked.counterDataSize = 16 * asked.maxNumOfRanges
        return 0

    def _RangeProfilerCounterDataImageInitialize(self, asked: param_structs.CounterDataInitialize) -> int:
        self.image = asked.pCounterData
        return 0

    def _RangeProfilerSetConfig(self, asked: param_structs.SetConfig) -> int:
        same = (asked.pCounterDataImage, asked.range, asked.replayMode) == (self.image, 1, 3)
        self.passes = 0
        self.room = asked.maxRangesPerPass
        return 0 if same and ctypes.string_at(asked.pConfig, asked.configSize) == b"image" else 1

    def _RangeProfilerStart(self, asked: param_structs.WithProfiler) -> int:
        return self._move("enabled", "counting")

    def _RangeProfilerStop(self, asked: param_structs.Stop) -> int:
        self.passes += 1
        return self._move("counting", "enabled")

    def _RangeProfilerDecodeData(self, asked: param_structs.Decode) -> int:
        asked.numOfRangeDropped = max(0, len(self.kernels) - self.room)
        return self._move("enabled", "enabled") if self.passes == PASSES else 7

    def _RangeProfilerGetCounterDataInfo(self, asked: param_structs.CounterDataInfo) -> int:
        asked.numTotalRanges = min(len(self.kernels), self.room)
        return 0 if asked.pCounterDataImage == self.image else 1

    def _ProfilerHostInitialize(self, asked: param_structs.HostInitialize) -> int:
        asked.pHostObject = HOST
        return 0 if asked.pChipName == b"GH100" and asked.pCounterAvailabilityImage else 46

    def _ProfilerHostDeinitialize(self, asked: param_structs.WithHost) -> int:
        return 0

    def _ProfilerHostGetBaseMetrics(self, asked: param_structs.BaseMetrics) -> int:
        names = sorted({name.partition(".")[0] for row in self.kernels for name in row})
        names = names if asked.metricType == 0 else []
        self.names = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))
        asked.ppMetricNames, asked.numMetrics = self.names, len(names)
        return 0

    def _ProfilerHostConfigAddMetrics(self, asked: param_structs.AddMetrics) -> int:
        return int(self.bad.encode() in asked.ppMetricNames[: asked.numMetrics])

    def _ProfilerHostGetConfigImageSize(self, asked: param_structs.ConfigImageSize) -> int:
        asked.configImageSize = 5
        return 0

    def _ProfilerHostGetConfigImage(self, asked: param_structs.ConfigImage) -> int:
        ctypes.memmove(asked.pConfigImage, b"image", asked.configImageSize)
        return 0

    def _ProfilerHostGetNumOfPasses(self, asked: param_structs.NumOfPasses) -> int:
        asked.numOfPasses = PASSES
        return 0

    def _ProfilerHostEvaluateToGpuValues(self, asked: param_structs.Evaluate) -> int:
        row = self.kernels[asked.rangeIndex]
        for index in range(asked.numMetrics):
            asked.pMetricValues[index] = row.get(asked.ppMetricNames[index].decode(), NAN)
        return 0

    def load(self, cubin: bytes, callback: int = 6) -> None:
        """Call the subscriber back for a module."""
        kept = ctypes.create_string_buffer(cubin, len(cubin))
        module = first_calls._Module(1, len(cubin), ctypes.addressof(kept))
        resource = first_calls._Resource(None, None, ctypes.addressof(module))
        if self.subscriber:
            self.callback(None, 3, callback, ctypes.addressof(resource))


class Client:
    """Another profiler in the process, such as proton: its calls fail as those of the user's code would."""

    def __init__(self, cupti: FakeCupti) -> None:
        self._cupti = cupti
        self._subscriber = ctypes.c_void_p()

    def start(self) -> None:
        """Subscribe, and take over the records of kernels."""
        self._call("cuptiSubscribe", ctypes.byref(self._subscriber), None, None)
        self._call("cuptiActivityEnable", 10)
        self._call("cuptiActivityRegisterCallbacks", self)

    def records(self) -> bool:
        """Return True if it gets records of kernels."""
        return self._cupti.records_go_to is self and 10 in self._cupti.kinds

    def stop(self) -> None:
        """Do what proton does at the end of a session."""
        assert self.records()
        self._call("cuptiActivityDisable", 10)
        self._call("cuptiEnableCallback", ctypes.c_uint32(0), self._subscriber)
        self._call("cuptiUnsubscribe", self._subscriber)
        self._cupti.functions.cuptiFinalize()

    def _call(self, function: str, *arguments: Any) -> None:
        try:
            self._cupti.call(function, *arguments)
        except Exception as error:
            raise RuntimeError(f"Failed to execute {function} with error {error}") from None


def install(patch: pytest.MonkeyPatch, cupti: FakeCupti) -> Owner:
    """Give a process that uses CUDA this CUPTI, which no torch.profiler has used."""
    vars(libcupti.OWNER).update(vars(Owner()))
    patch.setattr("torch.cuda.is_initialized", lambda: True)
    patch.setattr(libcupti, "kineto_has_run", lambda: False)
    for module in (libcupti, activity_records, first_calls):
        patch.setattr(module, "cupti", lambda: cupti)
    return libcupti.OWNER


def install_on_a_gpu(patch: pytest.MonkeyPatch, cupti: FakeCupti) -> None:
    """Give a process this CUPTI, and a GPU with a context."""
    install(patch, cupti)
    patch.setattr("torch.cuda.synchronize", lambda: None)
    patch.setattr("torch.cuda.current_device", lambda: 0)
    patch.setattr(range_profiler, "_current_context", lambda: CONTEXT)


def recording(*activities: Activity) -> Any:
    """Return a replacement of `activity.recorded`."""

    @contextmanager
    def recorded(*, stay: bool = False) -> Iterator[list[Activity]]:
        found: list[Activity] = []
        yield found
        found.extend(activities)

    return recorded
