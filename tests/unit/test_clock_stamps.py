"""Stamps, launch gap and burn on a simulated GPU."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.measure.timing import batch
from pytest_gpuperf.measure.timing import sm_clock as stamp_module
from pytest_gpuperf.measure.timing.batch import Block, launch_gap_us
from pytest_gpuperf.measure.timing.sm_clock import Burn, Stamps, at_other_clocks
from simulated_gpu import SimulatedGpu, install_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = tuple[int, int, int]
"""Nanoseconds, cycles and the number of the SM."""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    simulated = SimulatedGpu(monkeypatch)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=4)
    )
    return simulated


@pytest.fixture
def rows(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Row]]]:
    """Yield a list that takes the rows of the next stamps; without any, they are 0."""
    following: list[list[Row]] = []

    def store(address: int, blocks: int) -> None:
        assert blocks == 8
        gpu.launch(2, "gpuperf_stamp")
        if following:
            values = [value for row in following.pop(0) for value in row]
            ctypes.memmove(address, (ctypes.c_int64 * len(values))(*values), 8 * len(values))

    install_kernels(monkeypatch, gpuperf_stamp=store)
    yield following
    assert not following


def test_stamps_are_compiled_before_they_are_captured(gpu: SimulatedGpu, rows: list[list[Row]]) -> None:
    Stamps()
    assert gpu.log == ["gpuperf_stamp 2", "gpuperf_stamp 2", "synchronize"]
    assert not rows


def clock(rows: list[list[Row]], before: list[Row], after: list[Row]) -> float:
    stamped = Stamps()
    rows += [before, after]
    stamped.before()
    stamped.after()
    return stamped.sm_clock_mhz()


def test_clock_is_the_median_over_sms(rows: list[list[Row]]) -> None:
    moved = {0: 1700, 1: 1900, 2: 1600, 3: 1500, 4: 1800}
    before = [(100 + sm, 1000 * sm, sm) for sm in moved]
    after = [(1100 + sm, 1000 * sm + cycles, sm) for sm, cycles in moved.items()]
    # Each of two SMs was stamped once, and a third one at the same time.
    before += [(0, 0, 5), (500, 1, 9), (500, 1, 9)]
    after += [(0, 0, 6), (500, 9, 9), (500, 9, 9)]
    assert clock(rows, before, after) == 1700.0


@pytest.mark.parametrize(
    ("ns", "cycles", "mhz"), [(0, 100, 0), (-5, 100, 0), (1000, 0, 0), (1000, 15_000, 0), (1, 1, 1000)]
)
def test_impossible_clock_is_zero(rows: list[list[Row]], ns: int, cycles: int, mhz: float) -> None:
    found = clock(rows, [(10, 10, 0)] * 8, [(10 + ns, 10 + cycles, 0)] * 8)
    assert isinstance(found, float)
    assert found == mhz


def test_cost_of_stamps_is_the_median_of_their_graph(
    rows: list[list[Row]], gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped = Stamps()
    gpu.log.clear()
    assert stamped.cost_us == pytest.approx(4)
    assert gpu.log.count("graph of gpuperf_stamp 2, gpuperf_stamp 2") == 21
    assert not rows
    each = iter(range(21))
    monkeypatch.setattr(stamp_module, "replay_us", lambda _: (next(each) * 8) % 21)
    assert Stamps().cost_us == 10


def test_launch_gap_is_a_median_of_empty_kernels(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    install_kernels(monkeypatch, gpuperf_empty=lambda *_: gpu.launch(0.5, "empty"))
    assert launch_gap_us() == pytest.approx(0.5)
    replays = [step for step in gpu.log if step.startswith("graph")]
    assert replays == ["graph of " + ", ".join(["empty 0.5"] * 1000)] * 11
    # The first launch compiles it.
    assert gpu.log[0] == "empty 0.5"
    each = iter(range(11))
    monkeypatch.setattr(batch, "replay_us", lambda _: (next(each) * 4) % 11 * batch.GAP_CALLS)
    assert launch_gap_us() == 5


@pytest.fixture
def products(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the random inputs; a product takes 1 ms."""
    sizes: list[int] = []

    def randn(rows: int, columns: int, *, device: str, generator: str) -> SimpleNamespace:
        assert (rows, device, generator) == (columns, "cuda", "seed 0")
        sizes.append(rows)
        return SimpleNamespace(to=lambda _: "input")

    replaced = {
        "Generator": lambda device: SimpleNamespace(manual_seed="seed {}".format),
        "randn": randn,
        "empty_like": lambda _: "output",
        "mm": lambda *_, out: gpu.launch(1000, "mm"),
    }
    for name, function in replaced.items():
        monkeypatch.setattr(torch, name, function)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (80 << 30, 80 << 30))
    return sizes


@pytest.mark.parametrize(
    ("free", "size"),
    [(3 << 30, 8192), ((3 << 30) - 1, 4096), (3 << 28, 4096), (3 << 26, 2048), (3 << 24, 1024), (0, 1024)],
)
def test_burn_takes_an_eighth_of_the_free_memory(
    products: list[int], monkeypatch: pytest.MonkeyPatch, free: int, size: int
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 80 << 30))
    Burn()
    assert products == [size]


@pytest.mark.usefixtures("products")
def test_burn_multiplies_until_its_time_is_up(gpu: SimulatedGpu) -> None:
    Burn()(0.05)
    assert gpu.log == [*["mm 1000"] * 20, "synchronize"] * 3
    gpu.log.clear()
    Burn()(0)
    assert gpu.log == []


class NumberedBlocks:
    """A batch whose blocks are numbered."""

    calls = 1

    def __init__(self) -> None:
        self.number = 0

    def run(self) -> Block:
        self.number += 1
        return Block(self.number)

    def run_recorded(self, blocks: int) -> list[Block]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("held_back", "numbers"), [(False, range(2, 8)), (True, [*range(2, 8), *range(9, 15)])]
)
def test_block_right_after_a_change_of_clock_is_dropped(
    gpu: SimulatedGpu, *, held_back: bool, numbers: list[int]
) -> None:
    burns: list[float] = []
    blocks = at_other_clocks(NumberedBlocks(), burns.append, held_back=held_back)  # type: ignore[arg-type]
    assert [block.time_us for block in blocks] == list(numbers)
    assert burns == [0.1]
    assert gpu.log == (["rest 0.2"] if held_back else [])
