"""Exact microseconds a call of each batch, on a simulated GPU."""

from __future__ import annotations

import gc
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
import torch

from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device import memory, originals
from pytest_gpuperf.measure.timing import batch as batches
from pytest_gpuperf.measure.timing import graph as graphs
from pytest_gpuperf.measure.timing import places
from pytest_gpuperf.measure.timing.batch import ColdBatch, HostBatch, HotBatch, QueuedBatch
from pytest_gpuperf.measure.timing.batch_preparation import waits_for_gpu
from pytest_gpuperf.measure.timing.graph import (
    CapturedCalls,
    NotCapturableError,
    NothingLaunchedError,
    OutOfMemoryError,
    capture,
    replay_us,
)
from pytest_gpuperf.measure.verification import verifier
from simulated_gpu import SimulatedGpu, SimulatedStamps

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.timing.sm_clock import Stamps


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    return SimulatedGpu(monkeypatch)


@pytest.fixture(params=[True, False], ids=["stamps", "no stamps"])
def stamps(request: pytest.FixtureRequest, gpu: SimulatedGpu) -> Any:
    return SimulatedStamps(gpu) if request.param else None


@pytest.fixture
def flushes(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a fill of 1000 bytes take 1 µs."""

    def empty(bytes: int, *, dtype: torch.dtype, device: str) -> object:
        assert (dtype, device) == (torch.int8, "cuda")
        fill = gpu.kernel(bytes / 1000, "fill")
        return SimpleNamespace(zero_=fill, data_ptr=lambda: 0, nbytes=bytes)

    monkeypatch.setattr(torch, "empty", empty)


def block(time_us: float, mhz: float) -> Any:
    return (pytest.approx(time_us), mhz, None)


def clock(stamps: Stamps | None) -> float:
    return 1500.0 if stamps is not None else 0.0


def around(stamps: Stamps | None, *steps: str) -> list[str]:
    stamp = ["gpuperf_stamp 2"] if stamps is not None else []
    return [*stamp, *steps, *stamp]


def test_hot_time_is_that_of_one_call(gpu: SimulatedGpu, stamps: Any) -> None:
    batch = HotBatch(gpu.kernel(3), 4, stamps)
    gpu.log.clear()
    assert tuple(batch.run()) == block(3, clock(stamps))
    nodes = ", ".join(around(stamps, *["k 3"] * 4))
    assert gpu.log == ["spin_kernel 100", "record", f"graph of {nodes}", "record", "synchronize"]


@pytest.mark.usefixtures("flushes")
def test_cold_time_has_no_flush(gpu: SimulatedGpu, stamps: Any) -> None:
    batch = ColdBatch(gpu.kernel(3), 4, 7000, stamps)
    gpu.log.clear()
    assert tuple(batch.run()) == block(3, clock(stamps))
    both = ", ".join(around(stamps, *["fill 7", "k 3"] * 4))
    flushes = ", ".join(around(stamps, *["fill 7"] * 4))
    assert [step for step in gpu.log if "graph" in step] == [f"graph of {flushes}", f"graph of {both}"]


def test_queued_time_is_between_the_events_of_each_call(gpu: SimulatedGpu, stamps: Any) -> None:
    batch = QueuedBatch(gpu.kernel(3), 4, 10.0, stamps)
    assert tuple(batch.run()) == block(3, clock(stamps))
    calls = ["record", "k 3", "record"] * 4
    assert gpu.log == ["spin_kernel 80", *around(stamps, *calls), "synchronize"]


def test_queue_blocks_the_gpu_for_at_most_a_fifth_of_a_second(gpu: SimulatedGpu) -> None:
    QueuedBatch(gpu.kernel(3), 4, 1e6).run()
    assert gpu.log[0] == "spin_kernel 200000"


def test_host_time_is_that_of_one_call(gpu: SimulatedGpu) -> None:
    gpu.host_us = 8
    batch = HostBatch(gpu.kernel(3), 4)
    gpu.launch(999)
    gpu.log.clear()
    # 4 launches of 8 µs; the last kernel ends 3 µs after its launch.
    assert tuple(batch.run()) == block(35 / 4, 0)
    assert gpu.log == ["synchronize", *["k 3"] * 4, "synchronize"]


def test_host_time_waits_for_the_last_value(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[object] = []
    monkeypatch.setattr(batches, "finish", lambda value=None: values.append(value))
    HostBatch(lambda: "value", 2).run()
    assert values == [None, "value"]


@pytest.mark.usefixtures("flushes")
@pytest.mark.parametrize(
    "make",
    [
        lambda fn, stamps: HotBatch(fn, 300, stamps),
        lambda fn, stamps: ColdBatch(fn, 300, 7000, stamps),
        lambda fn, stamps: QueuedBatch(fn, 300, 10.0, stamps),
    ],
    ids=["hot", "cold", "queued"],
)
def test_cupti_time_of_each_batch_is_that_of_the_kernel(
    gpu: SimulatedGpu, stamps: Any, make: Callable[..., HotBatch]
) -> None:
    batch = make(gpu.kernel(3), stamps)
    gpu.log.clear()
    assert list(map(tuple, batch.run_recorded(2))) == [block(3, clock(stamps))] * 2
    # A block has at most 25 calls, each with 20 µs for the host.
    assert gpu.log.count("spin_kernel 500") == gpu.log.count("synchronize") == 2
    assert gpu.log.count("k 3") == 50


HOT_AND_COLD = pytest.mark.parametrize(
    "make", [HotBatch, lambda fn, calls: ColdBatch(fn, calls, 7000)], ids=["hot", "cold"]
)


def spread(batch: HotBatch, monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Give a batch other places."""
    monkeypatch.setattr(places, "PLACES", 1 + len(others))
    monkeypatch.setattr(places, "free_bytes", lambda: 80 << 30)
    monkeypatch.setattr(places, "_memory", bytearray)
    monkeypatch.setattr(places, "_PAGE_BYTES", 1)
    found = [Mock(side_effect=fn, nbytes=8, addresses=()) for fn in reversed(others)]
    batch.elsewhere = found.pop


@pytest.mark.usefixtures("flushes")
@HOT_AND_COLD
def test_blocks_at_several_places_take_turns(
    gpu: SimulatedGpu, make: Callable[..., HotBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = make(gpu.kernel(30), 10)
    spread(batch, monkeypatch, gpu.kernel(31), gpu.kernel(32))
    assert [one.time_us for one in batch.run_at_places(2)] == [30, 31, 32] * 2
    assert batch.block(recorded=True).time_us == 30


@pytest.mark.parametrize("other_us", [4, 2])
def test_other_work_elsewhere_counts_at_the_own_place_only(
    gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch, other_us: float
) -> None:
    batch = HotBatch(gpu.kernel(3), 10)
    spread(batch, monkeypatch, gpu.kernel(other_us))
    assert batch.run_at_places(2) == []
    assert [one.time_us for one in batch.run_recorded(2)] == [3, 3]


def test_failure_elsewhere_is_none(gpu: SimulatedGpu) -> None:
    batch = HotBatch(gpu.kernel(3), 10)
    batch.elsewhere = Mock(side_effect=torch.cuda.OutOfMemoryError)
    assert (batch.run_at_places(4), batch.places) == ([], None)


def test_side_without_places_is_not_recorded(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side may have some, and would differ by its places alone."""
    batch = HotBatch(gpu.kernel(3), 10)
    monkeypatch.setattr(CapturedCalls, "single_nodes", True)
    assert batch.records_better()
    batch.elsewhere = Mock(side_effect=torch.cuda.OutOfMemoryError)
    assert not batch.records_better()


@pytest.mark.parametrize("recorded", [True, False])
def test_block_without_a_record_has_no_time(
    gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch, *, recorded: bool
) -> None:
    batch = HotBatch(gpu.kernel(3), 10)
    for name in ("run", "run_recorded"):
        monkeypatch.setattr(batch, name, Mock(side_effect=CuptiError("it is lost")))
    assert batch.block(recorded=recorded).time_us == 0


def test_cupti_time_in_host_mode_is_that_of_the_kernel(gpu: SimulatedGpu) -> None:
    blocks = HostBatch(gpu.kernel(3), 4).run_recorded(3)
    assert list(map(tuple, blocks)) == [block(3, 0)] * 3
    assert gpu.log.count("k 3") == 12


def test_replay_is_timed_without_the_hosts_launch(gpu: SimulatedGpu) -> None:
    graph = capture(gpu.kernel(7))
    assert replay_us(graph) == pytest.approx(7)


def test_synchronising_call_cannot_be_captured(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(
        torch._C, "_cuda_endAllocateToPool", lambda *arguments: closed.append(arguments), raising=False
    )
    with pytest.raises(NotCapturableError, match=r"^operation not permitted when stream is capturing$"):
        capture(gpu.synchronize)
    # A good capture follows, which resets torch's random generators. It allocates nothing.
    assert gpu.log == ["synchronize", "capture", "synchronize", "capture"]
    assert closed == [(3, (0, 1))]  # the memory pool of the failed one


@pytest.mark.usefixtures("gpu")
def test_reason_of_a_failed_capture_is_the_first_failure() -> None:
    def body() -> None:
        try:
            raise ValueError
        except ValueError:
            raise RuntimeError("the capture was invalidated")  # noqa: B904

    with pytest.raises(NotCapturableError, match=r"^ValueError$"):
        capture(body)


@pytest.mark.usefixtures("gpu")
@pytest.mark.filterwarnings("ignore")
def test_capture_of_nothing_is_refused() -> None:
    with pytest.raises(NothingLaunchedError, match="launched nothing on the GPU"):
        capture(lambda: None)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    ("host_us", "blocked_us"), [(1.0, 20_000), (30_000.0, 300_000), (1e6, 500_000)], ids=str
)
def test_waiting_call_is_found(gpu: SimulatedGpu, *, waits: bool, host_us: float, blocked_us: float) -> None:
    def fn() -> None:
        gpu.now += host_us - 1
        gpu.launch(0)
        if waits:
            gpu.synchronize()

    gpu.launch(999)
    # A slow host is found to wait only if it takes longer than the GPU is blocked.
    assert waits_for_gpu(fn) is (waits or host_us > blocked_us)
    assert [step for step in gpu.log if step.startswith("spin")] == [f"spin_kernel {blocked_us:g}"]
    assert gpu.now >= gpu.done_at()


def test_blocking_kernel_lasts_as_long_as_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles: list[int] = []
    monkeypatch.setattr(originals, "sleep_on_gpu", cycles.append)
    graphs.hold_gpu(1.5)
    assert cycles == [3000]


@pytest.mark.parametrize("error", [None, NotCapturableError("no"), OutOfMemoryError("no memory")])
def test_a_doubt_goes_only_by_a_short_graph_that_there_can_be(
    gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    batch = HotBatch(gpu.kernel(3), 300)

    def fail(*_: object) -> HotBatch:
        assert error is not None
        raise error

    if error is not None:
        monkeypatch.setattr(batches, "HotBatch", fail)
    assert batches.in_short_graph_us(batch) == (3 if error is None else inf)


@pytest.mark.parametrize("fails", [False, True])
def test_no_garbage_is_collected_during_a_capture(gpu: SimulatedGpu, fails: bool) -> None:
    collects: list[bool] = []

    def call() -> None:
        collects.append(gc.isenabled())
        gpu.launch(1)
        if fails:
            raise RuntimeError("it fails")

    try:
        capture(call)
    except NotCapturableError:
        assert fails
    assert collects == [False]
    assert gc.isenabled()


@pytest.mark.usefixtures("flushes")
@pytest.mark.parametrize(
    ("run", "steps"),
    [
        (lambda batch: batch.run_recorded(1), ["forget", "fill 7", "k 3"] * 2),
        (lambda batch: batch.run(), ["forget", *["record"] * 4]),
    ],
    ids=["each recorded call", "each block"],
)
def test_cold_calls_forget_what_persists(
    gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch, run: Callable[[ColdBatch], object], steps: list[str]
) -> None:
    batch = ColdBatch(gpu.kernel(3), 2, 7000)
    gpu.log.clear()
    monkeypatch.setattr(memory, "reset_l2", lambda: gpu.log.append("forget"))
    run(batch)
    assert [step for step in gpu.log if step[:2] in ("fo", "fi", "k ", "re")] == steps


def test_queued_calls_are_repeated_behind_their_share_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "event", lambda: None)
    blocked_us: list[float] = []
    monkeypatch.setattr(verifier, "by_events", blocked_us.append)
    queued = QueuedBatch(list, 4, 100.0)
    assert len(verifier.reruns_of(queued)) == verifier.LIVE_CALLS
    assert blocked_us == [200]
