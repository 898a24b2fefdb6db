"""A fake GPU, as a pytest plugin (`-p fake_gpu`): a call takes as many microseconds as it returns.

The run and its side processes are real pytest processes with the real plugin, except for torch and CUDA.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

import pytest_gpuperf.plugin.process_isolation
from pytest_gpuperf.against.callable_rounds import time_in_turn
from pytest_gpuperf.measure.cupti.libcupti import OWNER
from pytest_gpuperf.measure.device.visible_gpus import VisibleGpu
from pytest_gpuperf.session.live_source import LiveSource

if TYPE_CHECKING:
    from collections.abc import Callable

CLOCK_MHZ = 1980.0
SHORT_US = 1.0
GAP_US = 0.25
"""Time that a short call takes longer by events."""


def stand_in(name: str, **members: object) -> None:
    """Install a fake module before its import."""
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


class FakeCuda:
    """The part of `torch.cuda` that the children use."""

    current_device = staticmethod(lambda: 0)
    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: True)

    @staticmethod
    def synchronize() -> None:
        """Raise the error of a kernel that has broken the GPU."""
        if error:
            raise RuntimeError(error[0])


error: list[str] = []
"""A CUDA error from now on."""


def visible_gpus() -> list[VisibleGpu]:
    """Return as many GPUs as `FAKE_GPUS` says, or those of `CUDA_VISIBLE_DEVICES`."""
    entries = [f"GPU-{place}" for place in range(int(os.environ.get("FAKE_GPUS", "1")))]
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        entries = [entry for entry in named.split(",") if entry in entries]
    return [VisibleGpu(entry, "nvidia-h200") for entry in entries]


vars(pytest_gpuperf.plugin.process_isolation).update(may_measure=lambda: True, visible_gpus=visible_gpus)
numbers = random.Random()
stand_in("torch", cuda=FakeCuda, device=lambda *_: "cuda", manual_seed=numbers.seed, rand=numbers.random)


@dataclass(frozen=True)
class FakeBlock:
    """A block with its time and clock."""

    time_us: float
    sm_clock_mhz: float = CLOCK_MHZ


@dataclass
class FakePrepared:
    """A call that returns its time in microseconds."""

    fn: Callable[[], Any]
    wanted: str = "auto"
    elsewhere: Callable[[], Any] | None = None

    @property
    def mode(self) -> str:
        """Timing mode of the call."""
        return "hot" if self.wanted == "auto" else self.wanted

    def warm_up(self) -> None:
        """Do nothing."""

    def block(self, *, recorded: bool = False) -> FakeBlock:
        """Return the time; that of a short call is longer by events."""
        time_us = self.fn()
        # To attach CUPTI for each block would take longer than the block.
        assert OWNER._kept or not recorded
        return FakeBlock(time_us + GAP_US * (time_us <= SHORT_US and not recorded))

    def records_better(self) -> bool:
        """Return True for a short call."""
        return bool(self.fn() <= SHORT_US)


class FakeTimer:
    """A fake `Timer`."""

    budget_s = 0.0

    def __init__(self, *_: object, **__: object) -> None: ...

    def prepare(self, fn: Callable[[], Any], mode: str) -> FakePrepared:
        """Return the call."""
        return FakePrepared(fn, mode)


class FakeCodeReader:
    """A fake `CodeReader`."""

    def __init__(self, driver: str) -> None: ...

    def read(self, call: Any) -> Any:
        """Return the code that the test has put on its function."""
        return getattr(call.fn, "code", None)


class FakeSource(LiveSource):
    """A fake `LiveSource`."""

    def check(self, call: object) -> Any:
        """Return a passed check."""
        from pytest_gpuperf.records import Correctness

        return Correctness(passed=True)

    def code(self, call: Any) -> Any:
        """Return the code of the call."""
        return self._codes.read(call)

    def in_turn(self, first: Any, other: Any, *, mode: str) -> Any:
        """Time both calls in turn; there is no memory to copy."""
        return time_in_turn(cast("Any", FakeTimer()), (first, first, first), other, mode)

    def profile(self, call: Any, kernels: object) -> Any:
        """Return the counters that the test has put on its function."""
        from run_builders import profile

        del kernels
        assert call.nodeid in self.tests, "the source needs the test's metrics"
        return profile(call.fn.counters)

    def time(self, call: Callable[[], Any], *, mode: str, bytes: int, flops: int) -> Any:
        """Return the time."""
        from run_builders import timing

        prepared: Any = FakePrepared(call, mode)
        return timing(prepared.block().time_us, mode=prepared.mode, bytes=bytes, flops=flops)


def pytest_configure() -> None:
    """Replace the GPU after the plugin is loaded."""
    import pytest_gpuperf.against.engine
    import pytest_gpuperf.session.live_runner
    from pytest_gpuperf.measure.device.gpu_lock import GpuLock
    from pytest_gpuperf.statistics import sequential
    from run_builders import H200, one_test

    # Runs of other projects need not wait for this one.
    GpuLock.__init__.__defaults__ = ((Path(tempfile.gettempdir()),),)
    pytest_gpuperf.session.live_runner.why_not_live = lambda: ""
    own = replace(H200, uuid=os.environ.get("CUDA_VISIBLE_DEVICES", H200.uuid))
    stand_in("pytest_gpuperf.measure.device.gpu_identity", gpu_info=lambda: own)
    environment = one_test().environment
    environment = replace(environment, gpu=own, toolchain=replace(environment.toolchain, python="3.12.3"))
    stand_in("pytest_gpuperf.measure.device.environment", environment=lambda *_: environment)
    stand_in("pytest_gpuperf.measure.device.originals", Originals=lambda _: None)
    stand_in("pytest_gpuperf.measure.timing.timer", Timer=FakeTimer)
    vars(pytest_gpuperf.session.live_runner)["LiveSource"] = FakeSource
    stand_in("pytest_gpuperf.measure.first_calls", CodeReader=FakeCodeReader)
    stand_in("pytest_gpuperf.measure.reachable_tensors", CallElsewhere=object)
    if restarts := os.environ.get("FAKE_GPU_RESTARTS"):
        for module in (sequential, pytest_gpuperf.against.engine):
            vars(module)["LOOKS"] = (int(restarts),)
