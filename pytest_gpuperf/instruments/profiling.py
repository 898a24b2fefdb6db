"""Instruments of the child that runs under ncu: only `profile` does its work."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, cast

import torch

from pytest_gpuperf.counters.catalogue import METRICS
from pytest_gpuperf.counters.plan import Event, PassFolder
from pytest_gpuperf.records import Correctness, KernelProfile, MetricValue, Profile, Timing, WarmUp

if TYPE_CHECKING:
    from pytest_gpuperf.instruments.base import Call, Reference
    from pytest_gpuperf.records import StaticKernel, TimingMode

WARM_UP_CALLS = 3
"""Compilation and autotuning happen in the first, lazy initialisation in the next."""
NOT_IN_RANGE_NAMES = re.compile(r'[^ -~]|"')
"""Not ASCII, or what ncu's CSV puts around a name."""


class AnyNumber(float):
    """What is not measured here: agrees with every comparison and stays itself in arithmetic.

    A test that asserts on a value between two calls would else end here, before the second is profiled.
    """

    def _agree(self, _other: object) -> bool:
        return True

    def _same(self, *_others: object) -> AnyNumber:
        return self

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _agree
    __hash__ = float.__hash__
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _same
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _same
    __neg__ = __pos__ = __abs__ = __round__ = _same  # type: ignore[assignment]


ANY_NUMBER = AnyNumber(1)


class AnyMetrics(dict[str, MetricValue]):
    """A row that has every metric."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(METRICS, ANY_NUMBER))

    def __missing__(self, name: str) -> MetricValue:
        return ANY_NUMBER


class ProfilingInstruments:
    """Runs each profiled call once between cudaProfilerStart and Stop, inside a range of its name.

    Nothing that the methods return is kept: the session that started this process measures correctness and
    time by itself, without a profiler, and reads the counters from ncu's report.
    """

    def __init__(self, folder: PassFolder) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)

    @property
    def device(self) -> torch.device:
        """The current CUDA device."""
        return torch.device("cuda", torch.cuda.current_device())

    def check(self, call: Call, reference: Reference) -> Correctness:  # noqa: ARG002
        """Nothing: correctness belongs to the session."""
        return Correctness(passed=True)

    def warm_up(self, call: Call) -> WarmUp:
        """A few calls."""
        for _ in range(WARM_UP_CALLS):
            call()
        torch.cuda.synchronize()
        return WarmUp(seconds=ANY_NUMBER, launches=WARM_UP_CALLS, steady=True)

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """One call, and a time that agrees with every bound."""
        call()
        torch.cuda.synchronize()
        return Timing(
            mode=cast("TimingMode", "hot" if mode == "auto" else mode),
            time_us=ANY_NUMBER,
            spread_pct=ANY_NUMBER,
            blocks_us=(ANY_NUMBER,),
            calls_per_block=1,
            bytes=bytes,
            flops=flops,
        )

    def profile(self, call: Call, *, kernels: str | None, metrics: tuple[str, ...]) -> Profile:  # noqa: ARG002
        """Run the call once where ncu sees it."""
        self.warm_up(call)
        # ncu's reader has to give the name back as it was: what is not plain in it is for people only.
        readable = NOT_IN_RANGE_NAMES.sub("?", f"{call.nodeid}#{call.label}")
        name = f"gpuperf:{next(self._numbers)}:{readable}"
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        runtime.cudaProfilerStart()
        # Start/end ranges, unlike push/pop, hold what autograd's thread launches.
        handle = torch.cuda.nvtx.range_start(name)
        try:
            call()
            torch.cuda.synchronize()
        finally:
            torch.cuda.nvtx.range_end(handle)
            runtime.cudaProfilerStop()
        self._folder.tell(Event(call.nodeid, call.label, name))
        row = AnyMetrics()
        return Profile(kernels=(KernelProfile(name="", metrics=row),), combined=row, regex=kernels or "")

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Compile, which is over at once when the session does it again."""
        kernels: dict[str, StaticKernel] = call()
        return kernels
