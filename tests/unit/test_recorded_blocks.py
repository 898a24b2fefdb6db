"""Blocks of calls under CUPTI: the time of one call from its records."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.measure.cupti.activity import Activity, busy_us
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.timing import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.measure.timing.batch import Block
    from pytest_gpuperf.measure.timing.sm_clock import Stamps

CALLS = 10


def kernel(start_us: float, us: float, name: str = "k") -> Activity:
    return Activity(round(start_us * 1e3), round((start_us + us) * 1e3), name)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Block]]:
    """Return a function that times calls with these CUPTI records."""

    def timed(
        *activities: Activity, blocks: int = 1, flushed: bool = False, stamps: Stamps | None = None
    ) -> list[Block]:
        @contextmanager
        def recorded() -> Iterator[list[Activity]]:
            found: list[Activity] = []
            yield found
            found.extend(
                activities if stamps is not None else [kernel(-500, 400, "spin_kernel"), *activities]
            )

        monkeypatch.setattr(batch, "recorded", recorded)
        monkeypatch.setattr(batch, "hold_gpu", lambda us: None)
        monkeypatch.setattr(originals, "synchronize", lambda: None)
        return batch._recorded(lambda: lambda: None, blocks, CALLS, stamps, flushed=flushed)

    return timed


def test_disturbed_calls_do_not_count(time: Callable[..., list[Block]]) -> None:
    durations = [5.0] * 8 + [9.0, 50.0]
    (block,) = time(*(kernel(100 * at, us) for at, us in enumerate(durations)))
    assert block.time_us == 5.0


def test_call_of_two_kernels_has_both_without_flush(time: Callable[..., list[Block]]) -> None:
    calls = [
        kernel(100 * at + 20 * place, us, "fill" if place == 0 else "k")
        for at in range(CALLS)
        for place, us in enumerate((7.0, 2.0, 3.0))
    ]
    assert time(*calls, flushed=True)[0].time_us == 5.0
    assert time(*calls)[0].time_us == 12.0


class ClockOfBlocks:
    """Stamps with a higher clock in each block."""

    def __init__(self) -> None:
        self.mhz = 0.0

    def before(self) -> None:
        self.mhz += 1000

    def after(self) -> None:
        pass

    def sm_clock_mhz(self) -> float:
        return self.mhz


def test_blocks_are_between_stamps(time: Callable[..., list[Block]]) -> None:
    ran = []
    for block, us in enumerate((5.0, 6.0)):
        begin = 10_000 * block
        ran += [kernel(begin, 900, "spin_kernel"), kernel(begin + 910, 4, "gpuperf_stamp")]
        ran += [kernel(begin + 1000 + 100 * at, us) for at in range(CALLS)]
        ran += [
            kernel(begin + 5000, 4, "gpuperf_stamp"),
            kernel(begin + 5010, 2, ""),
            kernel(begin + 5020, 2, ""),
        ]
    blocks = time(*ran, blocks=2, stamps=ClockOfBlocks())
    assert [(block.time_us, block.sm_clock_mhz) for block in blocks] == [(5.0, 1000.0), (6.0, 2000.0)]


def test_calls_with_different_launch_counts_are_refused(time: Callable[..., list[Block]]) -> None:
    one_more = [kernel(100 * at, 10.0) for at in range(CALLS + 1)]
    with pytest.raises(CuptiError, match="11 kernels in 10 calls: they do not all launch the same"):
        time(*one_more)
    with pytest.raises(CuptiError, match="recorded nothing"):
        time()


def test_block_with_more_kernels_than_another_is_refused(time: Callable[..., list[Block]]) -> None:
    stamp = "gpuperf_stamp"
    ran = [kernel(0, 4, stamp), *(kernel(100 + 9 * at, 5) for at in range(CALLS)), kernel(1000, 4, stamp)]
    ran += [kernel(1010, 4, stamp), *(kernel(1100 + 9 * at, 5) for at in range(2 * CALLS))]
    ran += [kernel(2000, 4, stamp)]
    with pytest.raises(CuptiError, match="30 kernels in 20 calls: they do not all launch the same"):
        time(*ran, blocks=2, stamps=ClockOfBlocks())


def test_kernels_outside_the_stamps_are_refused(time: Callable[..., list[Block]]) -> None:
    calls = [kernel(1000 + 100 * at, 5.0) for at in range(CALLS)]
    begin, end = kernel(910, 4, "gpuperf_stamp"), kernel(5000, 4, "gpuperf_stamp")
    with pytest.raises(CuptiError, match="ran before the block began or after its end"):
        time(kernel(0, 900, "spin_kernel"), kernel(10, 5.0), begin, *calls, end, stamps=ClockOfBlocks())


def test_irregular_flushes_give_no_cold_time(time: Callable[..., list[Block]]) -> None:
    """Refuse two kernels in every second call, although the number of activities fits."""
    fill, work = ("fill", 7.0), ("k", 5.0)
    ran = [fill, work, work, fill] * (CALLS // 2)
    with pytest.raises(CuptiError, match="do not all launch the same"):
        time(*(kernel(100 * at, us, name) for at, (name, us) in enumerate(ran)), flushed=True)


def test_overlap_counts_for_the_first_call() -> None:
    first, second = [kernel(0, 10), kernel(4, 3)], [kernel(8, 6)]
    assert busy_us([first, second]) == [10.0, 4.0]
