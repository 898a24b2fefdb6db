"""A timer whose blocks take given times, on a clock of their own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

import torch

from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.timing import timer
from pytest_gpuperf.measure.timing.batch import Batch, Block, GpuWork
from pytest_gpuperf.measure.timing.kernels_batch import KernelsBatch
from pytest_gpuperf.measure.timing.sm_clock import WarmUpResult
from pytest_gpuperf.records import StreamWork, WarmUp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from pytest_gpuperf.records import Conditions, Timing, TimingMode
    from pytest_gpuperf.records.timing import KnownTime


WARM_UP = WarmUp(seconds=0.2, launches=400, steady=True)


class Blocks(Batch):
    """A batch with its own clock; a function of that clock gives the time of a block."""

    calls = 10
    mode: TimingMode = "hot"
    single_calls = False

    def __init__(
        self,
        time_us: Callable[[float], float],
        block_s: float = 0.005,
        mhz: Callable[[float], float] = lambda _: 0.0,
        recorded_us: float | None = None,
        elsewhere_us: Sequence[float] = (),
    ) -> None:
        super().__init__(lambda: None, self.calls)
        self.now = 0.0
        self._recorded_us = recorded_us
        self.recorded_mhz = 0.0
        self._elsewhere_us = elsewhere_us
        self._time_us = time_us
        self._mhz = mhz
        self._block_s = block_s

    def run(self) -> Block:
        self.now += self._block_s
        return Block(self._time_us(self.now), self._mhz(self.now))

    def run_recorded(self, blocks: int) -> list[Block]:
        if self._recorded_us is None:
            raise CuptiError("there is no GPU")
        return [Block(self._recorded_us, self.recorded_mhz)] * blocks

    def run_at_places(self, rounds: int) -> list[Block]:
        if self._elsewhere_us:
            self.places = cast("Any", self._elsewhere_us)
        return [Block(us, self.recorded_mhz) for us in self._elsewhere_us] * rounds

    def clock(self) -> float:
        return self.now


class Burner:
    """Lowers the SM clock of a batch for the next blocks."""

    def __init__(self) -> None:
        self.burns = 0

    def __call__(self, seconds: float) -> None:
        self.burns += 1


class Bench:
    """A timer with given blocks and a launch gap of 0.5 µs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.burn = Burner()
        monkeypatch.setattr(timer, "launch_gap_us", lambda: 0.5)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(timer, "Stamps", lambda: None)
        monkeypatch.setattr(timer, "Burn", lambda: self.burn)
        monkeypatch.setattr(timer, "detach", self._detach)
        self.warmed: Sequence[Block] = ()
        """Blocks that the warm-up has measured."""
        monkeypatch.setattr(Batch, "warm_up", lambda _: WarmUpResult(WARM_UP, tuple(self.warmed)))
        self.detached = 0

    def _detach(self) -> None:
        self.detached += 1

    def timer(
        self, batch: Blocks, mode: TimingMode, budget_s: float, conditions: Sequence[Conditions] = ()
    ) -> timer.Timer:
        batch.mode = mode
        self._monkeypatch.setattr(timer, "prepare", lambda *_, **__: batch)
        self._monkeypatch.setattr(originals, "now", batch.clock)
        states = iter(conditions)
        return timer.Timer(1, budget_s, lambda: next(states, None))

    def time(
        self,
        batch: Blocks,
        mode: TimingMode = "hot",
        budget_s: float = 1e-9,
        conditions: Sequence[Conditions] = (),
        known: KnownTime | None = None,
    ) -> Timing:
        return self.timer(batch, mode, budget_s, conditions).time(lambda: None, mode=mode, known=known)


def repeating(values: Sequence[float], recorded_us: float | None = None) -> Blocks:
    times = itertools.cycle(values)
    return Blocks(lambda _: next(times), recorded_us=recorded_us)


def with_clock(bench: Bench, low_mhz: float) -> Blocks:
    """Return blocks of 100 µs at 2000 MHz, three quarters of it SM cycles; a burn lowers the clock."""

    def mhz(_: float) -> float:
        return low_mhz if bench.burn.burns else 2000.0

    return Blocks(lambda now: 25 + 75 * 2000 / mhz(now), mhz=mhz)


class RecordedBlocks(KernelsBatch):
    """Blocks of a call that waits for the GPU."""

    def __init__(self, *times_us: float) -> None:
        self.calls = 4
        self._times = itertools.cycle(times_us)
        self.now = 0.0

    def run(self) -> Block:
        self.now += 0.01
        streams = (StreamWork(stream=7, launches=2, kernels_us=6.0),)
        busy_us = next(self._times)
        return Block(busy_us, 0.0, GpuWork(busy_us, busy_us + 1, 1.5, streams))

    def host_blocks_us(self) -> list[float]:
        return [300.0, 400.0, 500.0]

    def clock(self) -> float:
        return self.now
