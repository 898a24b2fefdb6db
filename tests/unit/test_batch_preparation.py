"""Choice of a batch and of the number of its calls, on a simulated GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.timing import batch as batch_module
from pytest_gpuperf.measure.timing import batch_preparation
from pytest_gpuperf.measure.timing.batch import ColdBatch, HostBatch, HotBatch, QueuedBatch
from pytest_gpuperf.measure.timing.batch_preparation import prepare
from pytest_gpuperf.measure.timing.sm_clock import WarmUpResult
from pytest_gpuperf.records import WarmUp
from simulated_gpu import Memory, SimulatedGpu

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.timing.batch import Batch


class FakeKernelsBatch:
    """Records by CUPTI, or its refusal."""

    mode = "kernels"
    refusal = ""
    calls = 1

    def __init__(self, fn: Callable[[], Any], stamps: Any = None) -> None:
        if self.refusal:
            raise CuptiError(self.refusal)
        fn()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    monkeypatch.setattr(FakeKernelsBatch, "refusal", "")
    monkeypatch.setattr(batch_preparation, "KernelsBatch", FakeKernelsBatch)
    simulated = SimulatedGpu(monkeypatch)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: torch.tensor(0))
    monkeypatch.setattr(torch.Tensor, "zero_", lambda _: simulated.launch(7, "fill"))
    return simulated


def prepared_(fn: Callable[[], Any], mode: str) -> Batch:
    return prepare(fn, mode, flush_bytes=1, stamps=None)


def waiting(gpu: SimulatedGpu, us: float = 50) -> Callable[[], None]:
    """Return a callable that waits for its kernel."""

    def fn() -> None:
        gpu.launch(us)
        gpu.synchronize()

    return fn


def unlike_a_graph(gpu: SimulatedGpu, us: float = 50) -> Callable[[], None]:
    """Return a callable that no graph can capture, although it does not wait."""

    def fn() -> None:
        if gpu.captures:
            raise RuntimeError("a library refuses")
        gpu.launch(us)

    return fn


@pytest.mark.parametrize(
    ("mode", "us", "batch", "calls"),
    [
        ("auto", 50, HotBatch, 100),
        ("hot", 50, HotBatch, 100),
        ("hot", 0, HotBatch, 2000),
        ("hot", 9999, HotBatch, 1),
        ("cold", 50, ColdBatch, 20),
        ("cold", 500, ColdBatch, 10),
        ("queued", 50, QueuedBatch, 50),
        ("queued", 500, QueuedBatch, 10),
        ("host", 50, HostBatch, 100),
        ("host", 0, HostBatch, 2000),
        ("host", 1000, HostBatch, 5),
    ],
)
def test_block_takes_five_milliseconds_up_to_the_most_calls(
    gpu: SimulatedGpu, mode: str, us: float, batch: type, calls: int
) -> None:
    found = prepared_(gpu.kernel(us), mode)
    assert type(found) is batch
    assert (found.mode, found.calls) == ("hot" if mode == "auto" else mode, calls)
    assert (found.not_captured, found.not_recorded) == ("", "")
    assert gpu.log[0] == "detach"


def test_probe_compiles_first_and_times_five_calls(gpu: SimulatedGpu) -> None:
    gpu.host_us = 4
    found = batch_preparation._probe(gpu.kernel(3))
    assert list(found) == pytest.approx([3, 4])
    assert gpu.log == [
        *["k 3"] * 3,
        "synchronize",
        "spin_kernel 1000",
        "record",
        *["k 3"] * 5,
        "record",
        "synchronize",
    ]


def test_call_without_work_counts_as_a_tenth_of_a_microsecond(gpu: SimulatedGpu) -> None:
    assert batch_preparation._probe(gpu.kernel(0)).call_us == 0.1


def test_kernels_mode_records(gpu: SimulatedGpu) -> None:
    found = prepared_(waiting(gpu), "kernels")
    assert isinstance(found, FakeKernelsBatch)
    assert found.mode == "kernels"


@pytest.mark.parametrize("refusal", ["", "torch.profiler holds CUPTI"])
def test_host_mode_takes_calls_that_wait(gpu: SimulatedGpu, refusal: str) -> None:
    FakeKernelsBatch.refusal = refusal
    found = prepared_(waiting(gpu), "host")
    assert (type(found), found.mode, found.not_captured) == (HostBatch, "host", "")


def test_host_mode_takes_calls_that_launch_elsewhere(gpu: SimulatedGpu) -> None:
    assert prepared_(lambda: None, "host").mode == "host"
    FakeKernelsBatch.refusal = "torch.profiler holds CUPTI"
    with pytest.raises(GpuperfError, match="launched nothing on the GPU"):
        prepared_(lambda: None, "host")


def test_queue_gets_twice_the_time_that_the_host_needs(gpu: SimulatedGpu) -> None:
    gpu.host_us = 30
    queued = prepared_(unlike_a_graph(gpu), "queued")
    gpu.log.clear()
    queued.run()
    assert gpu.log[0] == "spin_kernel 3000"


@pytest.mark.parametrize(("waits", "mode"), [(True, "host"), (False, "queued")])
def test_without_cupti_other_calls_have_as_many_calls(gpu: SimulatedGpu, *, waits: bool, mode: str) -> None:
    FakeKernelsBatch.refusal = "torch.profiler holds CUPTI"
    found = prepared_(waiting(gpu) if waits else unlike_a_graph(gpu, 500), "auto")
    assert (found.mode, found.not_recorded) == (mode, "torch.profiler holds CUPTI")
    # The first call of the probe waits for the blocking kernel of 1000 µs as well.
    assert found.calls == (20 if waits else 10)


def allocating(gpu: SimulatedGpu, size: int, captured_size: int = 0) -> Callable[[], Any]:
    """Return a callable with an output of some bytes, or of others if it is captured."""

    def fn() -> object:
        gpu.launch(50)
        return gpu.allocate(captured_size if captured_size and gpu.captures else size)

    return fn


@pytest.mark.parametrize("mode", ["auto", "hot", "cold"])
def test_capture_needs_the_memory_of_one_output(gpu: SimulatedGpu, mode: str) -> None:
    found = prepared_(allocating(gpu, 600), mode)
    assert found.mode == ("hot" if mode == "auto" else mode)


def test_graph_with_a_tensor_that_the_next_one_reads_is_kept(gpu: SimulatedGpu) -> None:
    assert prepared_(gpu.kernel(50), "hot").trial is None
    state: list[Memory] = []

    def cell() -> None:
        gpu.launch(50)
        state[:] = [gpu.allocate(8)]

    assert prepared_(cell, "hot").trial is not None


@pytest.mark.parametrize("mode", ["auto", "hot", "cold"])
def test_too_little_memory_never_changes_the_mode(gpu: SimulatedGpu, mode: str) -> None:
    with pytest.raises(GpuperfError, match=r"4000.00 B more is needed.* GiB are free.* free the tensors"):
        prepared_(allocating(gpu, 600, 4000), mode)


@pytest.mark.parametrize("text", ["CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED"])
def test_memory_that_another_allocator_lacks_does_not_change_the_mode(gpu: SimulatedGpu, text: str) -> None:
    def fn() -> None:
        gpu.launch(50)
        if gpu.captures:
            raise RuntimeError(text)

    with pytest.raises(GpuperfError, match="the GPU is out of memory: some more is needed"):
        prepared_(fn, "auto")


@pytest.mark.parametrize("mode", ["queued", "host"])
def test_modes_without_a_graph_need_no_memory_for_it(gpu: SimulatedGpu, mode: str) -> None:
    assert prepared_(allocating(gpu, 600, 4000), mode).mode == mode


def test_uncached_memory_cannot_be_captured(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.caches = False
    assert "capturing" in prepared_(allocating(gpu, 600), "auto").not_captured
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    found = prepared_(allocating(gpu, 600), "auto")
    assert (found.mode, "caching allocator" in found.not_captured) == ("kernels", True)


def test_asynchronous_allocator_is_not_captured(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "cudaMallocAsync")
    assert prepared_(allocating(gpu, 600), "auto").mode == "kernels"


def test_a_wait_within_torch_is_found_without_a_capture(gpu: SimulatedGpu) -> None:
    begun: list[int] = []

    def fn() -> None:
        assert not begun, "a call was left in its middle"
        begun.append(1)
        gpu.launch(50)
        gpu.copy_to_host()
        begun.clear()

    assert prepared_(fn, "auto").not_captured == "it waits for the GPU"
    assert "capture" not in gpu.log
    assert gpu.sync_debug_mode == 0


def test_call_that_sets_a_seed_is_not_captured(gpu: SimulatedGpu) -> None:
    (generator,) = torch.cuda.default_generators
    before = generator.get_state()

    def fn() -> None:
        gpu.launch(50)
        generator.manual_seed(7)

    assert "a graph would not set again" in prepared_(fn, "auto").not_captured
    generator.set_state(before)
    prepared_(gpu.kernel(50), "auto")
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("mode", ["hot", "cold", "queued", "host"])
def test_prepared_block_and_warm_up_run_the_batch(
    mode: str, gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = prepared_(gpu.kernel(50), mode)
    assert found.run().time_us == pytest.approx(50, rel=0.2)
    warmed = WarmUpResult(WarmUp(seconds=0.2, launches=10, steady=True), ())
    known = {(found, 3.0, mode == "host"): warmed}
    monkeypatch.setattr(batch_module, "until_steady", lambda *given, by_host: known.get((*given, by_host)))
    assert found.warm_up() is warmed
