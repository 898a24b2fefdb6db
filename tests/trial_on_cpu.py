"""Run the tests of a trial on the CPU, as a pytest plugin (`-p trial_on_cpu`): each call takes 100 µs."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


TIME_US = 100.0


@dataclass(frozen=True)
class Block:
    """A block with its time."""

    time_us: float
    sm_clock_mhz: float = 0.0


@dataclass(frozen=True)
class Prepared:
    """A call with a fixed time."""

    fn: Callable[[], Any]
    mode: str

    def warm_up(self) -> None:
        """Call it."""
        self.fn()

    def block(self, *, recorded: bool = False) -> Block:
        """Call it; its time is made up."""
        assert not recorded
        self.fn()
        return Block(TIME_US)


class Timer:
    """Calls without timing."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def prepare(self, fn: Callable[[], Any], mode: str) -> Prepared:
        """Return the call."""
        return Prepared(fn, "hot" if mode == "auto" else mode)

    def time(self, fn: Callable[[], Any], *, mode: str, **_: object) -> object:
        """Return the time."""
        from run_builders import timing

        return timing(self.prepare(fn, mode).block().time_us)


def stand_in(name: str, **members: object) -> None:
    """Install a fake module before its import."""
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


def pytest_configure() -> None:
    """Replace the GPU after the plugin is loaded."""
    import torch

    from pytest_gpuperf.measure.device.gpu_lock import GpuLock
    from pytest_gpuperf.plugin.facade import Gpuperf
    from pytest_gpuperf.session import live_runner
    from run_builders import H200, one_test

    GpuLock.__init__.__defaults__ = ((Path(tempfile.gettempdir()),),)
    vars(live_runner)["why_not_live"] = lambda: ""
    stand_in("pytest_gpuperf.measure.device.gpu_identity", gpu_info=lambda: H200)
    stand_in("pytest_gpuperf.measure.device.environment", environment=lambda *_: one_test().environment)
    stand_in("pytest_gpuperf.measure.timing.timer", Timer=Timer)
    Gpuperf.device = property(lambda _: torch.device("cpu"))  # type: ignore[assignment]
