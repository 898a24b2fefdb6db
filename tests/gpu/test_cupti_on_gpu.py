"""Counters read by CUPTI in the process, on a real GPU: their cost, and refusals."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import torch

from benchmarks.children import ROOT
from benchmarks.counter_agreement.kernels import METRICS
from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.ncu.tool import find_ncu
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.metrics.presets import PRESETS
from pytest_gpuperf.records.call import Call, Selection
from pytest_gpuperf.records.run_store import load_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

needs_ncu = pytest.mark.skipif(find_ncu() is None, reason="needs ncu")


@pytest.fixture
def counters() -> Iterator[CuptiCounters]:
    gpu = gpu_info()
    chip = chip_of(gpu.compute_capability)
    made = CuptiCounters(gpu, chip.name if chip else "")
    yield made
    made.let_go()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4096, 4096, device="cuda")


def call_of(fn: Callable[[], object]) -> Call:
    return Call("test_k.py::test_k", "main", fn)


@pytest.mark.parametrize(("metrics", "most_s"), [(METRICS, 0.3), (PRESETS["one-pass"], 0.06)])
def test_kernels_after_the_first_cost_little(
    counters: CuptiCounters, x: torch.Tensor, metrics: tuple[str, ...], most_s: float
) -> None:
    call = call_of(lambda: torch.square(x))
    counters.lookup(call, Selection(), metrics)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        counters.lookup(call, Selection(), metrics)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) <= most_s, seconds  # work of others on the host delays some


def test_call_runs_once_for_each_pass(counters: CuptiCounters, x: torch.Tensor) -> None:
    y = torch.zeros_like(x)
    counters.lookup(call_of(lambda: y.add_(1)), Selection(), PRESETS["one-pass"])
    # Two calls to warm up, one to record, one to count.
    assert torch.equal(y, torch.full_like(y, 4))


def test_kernels_are_in_launch_order(counters: CuptiCounters, x: torch.Tensor) -> None:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def chain() -> None:
        torch.softmax(x, -1)
        with torch.cuda.stream(side):
            torch.square(x)
        torch.cuda.current_stream().wait_stream(side)
        (x @ x).sum()

    found = counters.lookup(call_of(chain), Selection(), PRESETS["sol"])
    names = [kernel.name for kernel in found.kernels]
    assert "SoftMax" in names[0]
    assert "elementwise" in names[1]
    assert found.combined["kernels"] == len(names) >= 4
    gemm = counters.lookup(call_of(chain), Selection("gemm|nvjet|cutlass"), PRESETS["sol"])
    assert gemm.combined["kernels"] == 1
    assert (gemm.source, gemm.cache_control) == ("cupti", "all")


def test_backward_kernels_are_counted(counters: CuptiCounters) -> None:
    w = torch.randn(512, 512, device="cuda", requires_grad=True)

    def backward() -> None:
        (w @ w).sum().backward()  # type: ignore[no-untyped-call]

    found = counters.lookup(call_of(backward), Selection("gemm|nvjet|cutlass"), PRESETS["sol"])
    # One product forward and two backward, each with one kernel or more.
    assert float(found.combined["kernels"]) >= 3


def test_graph_is_refused(counters: CuptiCounters, x: torch.Tensor) -> None:
    y = torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    torch.square(x, out=y)
    with torch.cuda.graph(graph):
        torch.square(x, out=y)
        torch.exp(x, out=y)
    with pytest.raises(CuptiError, match="launches a CUDA graph, whose kernels CUPTI counts as one"):
        counters.lookup(call_of(graph.replay), Selection(), PRESETS["sol"])


def node_us(graph: torch.cuda.CUDAGraph) -> float:
    """Return the microseconds of one of the 200 nodes of a graph."""
    times: list[float] = []
    for _ in range(20):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        events[0].record()
        graph.replay()
        events[1].record()
        torch.cuda.synchronize()
        times.append(1e3 * events[0].elapsed_time(events[1]) / 200)
    return statistics.median(times)


def test_graphs_stay_fast_after_profiling(counters: CuptiCounters, x: torch.Tensor) -> None:
    small = torch.ones(64, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    small.mul_(1)
    with torch.cuda.graph(graph):
        for _ in range(200):
            small.mul_(1)
    node_us(graph)
    before = node_us(graph)
    counters.lookup(call_of(lambda: torch.square(x)), Selection(), METRICS)
    counters.let_go()
    assert node_us(graph) == pytest.approx(before, abs=0.05)


def test_range_profiler_is_refused_under_torch_profiler(counters: CuptiCounters, x: torch.Tensor) -> None:
    call = call_of(lambda: torch.square(x))
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]),
        pytest.raises(CuptiError, match=r"torch.profiler is running"),
    ):
        counters.lookup(call, Selection(), METRICS)
    assert counters.lookup(call, Selection(), PRESETS["one-pass"]).combined["kernels"] == 1


UNDER_NCU = """
import torch
from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
from pytest_gpuperf.records.call import Selection
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.call import Call
x = torch.randn(64, 64, device="cuda")
try:
    print(CuptiCounters(gpu_info(), "gh100").lookup(
        Call("t.py::t", "main", lambda: torch.square(x)), Selection(), ("duration_us",)))
except GpuperfError as error:
    print("refused:", error)
"""


@needs_ncu
def test_range_profiler_is_refused_under_ncu() -> None:
    ncu = find_ncu()
    assert ncu is not None
    command = [str(ncu.path), "--metrics", "gpu__time_duration.sum", sys.executable, "-c", UNDER_NCU]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "refused: another profiler holds CUPTI in this process" in done.stdout, done.stdout + done.stderr


WITH_CUPTI_PYTHON = """
import ctypes, sys, torch
from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
from pytest_gpuperf.records.call import Selection
from pytest_gpuperf.measure.cupti.libcupti import cupti
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.measure.timing.timer import Timer
DRIVER_API = 1
gpu, seen, subscriber = gpu_info(), [], ctypes.c_void_p()
x = torch.randn(64, 64, device="cuda")
callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(
    lambda *told: seen.append(told))
client = cupti().functions
assert client.cuptiSubscribe(ctypes.byref(subscriber), callback, None) == 0
sys.modules["cupti.cupti"] = ctypes
timing = Timer(gpu.l2_bytes, 0.1, lambda: None).time(lambda: torch.square(x), mode="hot")
print("timed by", timing.source, "since", timing.not_recorded)
try:
    CuptiCounters(gpu, "gh100").lookup(
        Call("t.py::t", "main", lambda: torch.square(x)), Selection(), ("duration_us",))
except GpuperfError as error:
    print("refused:", error)
assert client.cuptiEnableDomain(1, subscriber, DRIVER_API) == 0
torch.square(x)
assert client.cuptiEnableDomain(0, subscriber, DRIVER_API) == 0
assert client.cuptiUnsubscribe(subscriber) == 0
print("the client was told:", bool(seen))
"""


def test_cupti_python_keeps_its_subscription() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_CUPTI_PYTHON],
        cwd=ROOT,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "timed by events since cupti-python is imported and may use CUPTI" in done.stdout
    assert "refused: cupti-python is imported and may use CUPTI" in done.stdout
    assert "the client was told: True" in done.stdout


def test_recording_works_after_counting(counters: CuptiCounters, x: torch.Tensor) -> None:
    counters.lookup(call_of(lambda: torch.square(x)), Selection(), METRICS)
    counters.let_go()
    with recorded() as activities:
        torch.square(x)
    assert len(activities) == 1


TEST = """
import pytest, torch

@pytest.mark.gpuperf(kernels="elementwise", limits=["theoretical_occupancy >= 50", "stall.wait <= 100"])
def test_good(gpuperf):
    x = torch.randn(4096, 4096, device=gpuperf.device)
    got = gpuperf(torch.square, x, expected=lambda x: x.double().square().float(), bytes=2 * x.nbytes)
    assert got.profile.combined["memory_throughput"] > 10

@pytest.mark.gpuperf(kernels="nothing_like_it")
def test_no_match(gpuperf):
    x = torch.randn(64, 64, device=gpuperf.device)
    gpuperf.profile(torch.square, x)
    gpuperf.time(torch.square, x)

def test_under_a_profiler(gpuperf):
    x = torch.randn(64, 64, device=gpuperf.device)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        gpuperf.profile(torch.square, x)
"""


def test_session_reads_counters_without_ncu(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=TEST)
    result = pytester.runpytest_subprocess(
        *("--gpuperf", "-v", "--gpuperf-counters=cupti", "-ogpuperf_budget=0.05", "-p", "no:cacheprovider")
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*no kernel of square was profiled for the regex 'nothing_like_it'*"])
    result.stdout.fnmatch_lines(["*torch.profiler is running*"])
    path = next((pytester.path / ".gpuperf" / "runs").glob("*/run.json"))
    tests = {test.nodeid.partition("::")[2]: test for test in load_run(path).tests}
    assert tests["test_no_match"].measurements["main"].timing is not None
    profile = tests["test_good"].measurements["main"].profile
    assert profile is not None
    assert profile.source == "cupti"
    assert {"theoretical_occupancy", "registers_per_thread", "sm_throughput"} <= profile.combined.keys()
