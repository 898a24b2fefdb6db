"""Counters read in the process by CUPTI, on a real GPU: beside ncu's, what they cost, and what is refused."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from profiled_kernels import METRICS, REPEATS, longest

from pytest_gpuperf.counters.catalogue import METRICS as CATALOGUE
from pytest_gpuperf.counters.catalogue import ncu_metric_names
from pytest_gpuperf.counters.chips import chip_of
from pytest_gpuperf.counters.in_process import InProcessCounters
from pytest_gpuperf.counters.isolated_reader import read_report_isolated
from pytest_gpuperf.counters.ncu import find_ncu
from pytest_gpuperf.counters.ncu_report_reader import ncu_python_dirs
from pytest_gpuperf.counters.presets import PRESETS
from pytest_gpuperf.counters.selection import Selection
from pytest_gpuperf.cupti.activity import recorded
from pytest_gpuperf.cupti.binding import CuptiError
from pytest_gpuperf.device.gpu import gpu_info
from pytest_gpuperf.instruments.base import Call
from pytest_gpuperf.runs import load_run

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ.setdefault("TEARDOWN_CUPTI", "1")

ROOT = Path(__file__).parent.parent.parent
SCRIPT = Path(__file__).parent / "profiled_kernels.py"
NAMES = (
    "square_torch",
    "square_triton",
    "square_small",
    "copy",
    "transpose",
    "gemm_bf16",
    "gemm_triton",
    "gemm_fp32",
    "softmax",
    "sum_rows",
    "layer_norm",
    "gather",
    "exp_sin",
)
COMPARED = (
    "sm_throughput",
    "memory_throughput",
    "dram_throughput",
    "l2_throughput",
    "l1_throughput",
    "achieved_occupancy",
    "tensor_active",
    "instructions",
    *(name for name in METRICS if name.startswith("stall.")),
)
FACTS = [name for name in (*PRESETS["launch"], "shared_memory.dynamic") if name != "occupancy_limit.barriers"]
RELATIVE, POINTS, SMALL_STALL = 0.02, 0.5, 5.0

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]
needs_ncu = pytest.mark.skipif(find_ncu() is None, reason="needs ncu")


def environment() -> dict[str, str]:
    paths = [str(ROOT), str(SCRIPT.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "LC_ALL": "C"}


@pytest.fixture(scope="module")
def by_cupti(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Rows of the script by name, with `error` where a call could not be profiled."""
    path = tmp_path_factory.mktemp("cupti") / "rows.jsonl"
    rows: list[dict[str, Any]] = []
    while len(rows) < len(NAMES):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "profile", str(path), str(len(rows))],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if len(rows) < len(NAMES):
            # It ended while this one was profiled.
            error = f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
            row = {"index": len(rows), "name": NAMES[len(rows)], "error": error}
            rows.append(row)
            with path.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
    return {row["name"]: row for row in rows}


@pytest.fixture(scope="module")
def by_ncu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Rows of the same shape, read by ncu with the caches and clocks left alone."""
    ncu = find_ncu()
    assert ncu is not None
    folder = tmp_path_factory.mktemp("ncu")
    report = folder / "report.ncu-rep"
    chip = chip_of(gpu_info().compute_capability)
    names = ncu_metric_names(METRICS, chip.name if chip else "")
    command = [
        *(str(ncu.path), "--config-file", "off", "--clock-control", "none", "--cache-control", "none"),
        *("--profile-from-start", "off", "--nvtx", "--metrics", ",".join(names), "--export", str(report)),
        *(sys.executable, str(SCRIPT), "launch"),
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout + done.stderr
    rows: dict[str, Any] = {name: {"kernels": []} for name in NAMES}
    kernels = read_report_isolated(report, names, search=ncu_python_dirs(ncu.path))
    for name in NAMES:
        found = [kernel for kernel in kernels if name in kernel.ranges]
        each = len(found) // REPEATS
        for start in range(0, len(found), each):
            kernel = longest(tuple(kernel.profile() for kernel in found[start : start + each]))
            rows[name]["kernels"].append(
                {"name": kernel.name, "grid": kernel.grid, "block": kernel.block, "metrics": kernel.metrics}
            )
    # What differs can be looked at where the CUPTI rows are.
    (folder / "ncu.json").write_text(json.dumps(rows))
    return rows


def median(row: dict[str, Any], metric: str) -> float:
    values = [kernel["metrics"].get(metric) for kernel in row["kernels"]]
    return statistics.median(values) if None not in values else float("nan")


def differing(cupti: dict[str, Any], ncu: dict[str, Any]) -> list[str]:
    """Metrics on which the two do not agree, with both values."""
    found = []
    for name in COMPARED:
        one, other = median(cupti, name), median(ncu, name)
        if one != one and (other != other or other == 0):
            continue
        if name.startswith("stall.") and max(one, other) < SMALL_STALL:
            continue
        tolerance = max(RELATIVE * other, POINTS if CATALOGUE[name].unit == "%" else 0)
        if not abs(one - other) <= tolerance:
            found.append(f"{name}: {one:.5g} by CUPTI, {other:.5g} by ncu")
    return found


def rows_of(name: str, by_cupti: dict[str, Any], by_ncu: dict[str, Any]) -> tuple[Any, Any]:
    cupti, ncu = by_cupti[name], by_ncu[name]
    assert "error" not in cupti, cupti["error"]
    assert len(cupti["kernels"]) == len(ncu["kernels"]) == REPEATS
    return cupti, ncu


@needs_ncu
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_ncu(name: str, by_cupti: dict[str, Any], by_ncu: dict[str, Any]) -> None:
    assert differing(*rows_of(name, by_cupti, by_ncu)) == []


@needs_ncu
@pytest.mark.parametrize("name", NAMES)
def test_the_launch_is_as_ncu_has_it(name: str, by_cupti: dict[str, Any], by_ncu: dict[str, Any]) -> None:
    for one, other in zip(*(row["kernels"] for row in rows_of(name, by_cupti, by_ncu)), strict=True):
        assert (one["name"], list(one["grid"]), list(one["block"])) == (
            other["name"],
            list(other["grid"]),
            list(other["block"]),
        )
        facts = [{fact: row["metrics"].get(fact) for fact in FACTS} for row in (one, other)]
        assert facts[0] == pytest.approx(facts[1], rel=1e-5)


@pytest.fixture
def counters() -> InProcessCounters:
    gpu = gpu_info()
    chip = chip_of(gpu.compute_capability)
    return InProcessCounters(gpu, chip.name if chip else "")


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4096, 4096, device="cuda")


def call_of(fn: Callable[[], object]) -> Call:
    return Call("test_k.py::test_k", "main", fn)


@pytest.mark.parametrize(("metrics", "most_s"), [(METRICS, 0.3), (PRESETS["one-pass"], 0.03)])
def test_a_kernel_costs_little_after_the_first(
    counters: InProcessCounters, x: torch.Tensor, metrics: tuple[str, ...], most_s: float
) -> None:
    call = call_of(lambda: torch.square(x))
    counters.lookup(call, Selection(), metrics, list)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        counters.lookup(call, Selection(), metrics, list)
        seconds.append(time.perf_counter() - began)
    assert statistics.median(seconds) <= most_s, seconds


def test_outputs_and_inputs_are_what_they_were(counters: InProcessCounters, x: torch.Tensor) -> None:
    y = torch.zeros_like(x)
    counters.lookup(call_of(lambda: y.add_(1)), Selection(), METRICS, list)
    # Two calls to warm up, one that is recorded, one that is counted in many passes.
    assert torch.equal(y, torch.full_like(y, 4))


def test_several_kernels_come_in_the_order_of_their_launches(
    counters: InProcessCounters, x: torch.Tensor
) -> None:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def chain() -> None:
        torch.softmax(x, -1)
        with torch.cuda.stream(side):
            torch.square(x)
        torch.cuda.current_stream().wait_stream(side)
        (x @ x).sum()

    found = counters.lookup(call_of(chain), Selection(), PRESETS["sol"], list)
    names = [kernel.name for kernel in found.kernels]
    assert "SoftMax" in names[0]
    assert "elementwise" in names[1]
    assert found.combined["kernels"] == len(names) >= 4
    gemm = counters.lookup(call_of(chain), Selection("gemm|nvjet|cutlass"), PRESETS["sol"], list)
    assert gemm.combined["kernels"] == 1
    assert (gemm.source, gemm.cache_control) == ("cupti", "none")


def test_backward_is_seen_too(counters: InProcessCounters) -> None:
    w = torch.randn(512, 512, device="cuda", requires_grad=True)

    def backward() -> None:
        (w @ w).sum().backward()  # type: ignore[no-untyped-call]

    found = counters.lookup(call_of(backward), Selection("gemm|nvjet|cutlass"), PRESETS["sol"], list)
    assert found.combined["kernels"] == 3


def test_nodes_of_a_graph_are_seen_one_by_one(counters: InProcessCounters, x: torch.Tensor) -> None:
    y = torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    torch.square(x, out=y)
    with torch.cuda.graph(graph):
        torch.square(x, out=y)
        torch.exp(x, out=y)
    found = counters.lookup(call_of(graph.replay), Selection(), PRESETS["sol"], list)
    assert found.combined["kernels"] == 2


def node_us(x: torch.Tensor) -> float:
    """Microseconds of a node of a graph of small kernels."""
    small = x[:64, :64].contiguous()
    graph = torch.cuda.CUDAGraph()
    small.mul_(1)
    with torch.cuda.graph(graph):
        for _ in range(200):
            small.mul_(1)
    times: list[float] = []
    for _ in range(20):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        events[0].record()
        graph.replay()
        events[1].record()
        torch.cuda.synchronize()
        times.append(1e3 * events[0].elapsed_time(events[1]) / 200)
    return statistics.median(times)


def test_graphs_are_as_fast_afterwards_as_before(counters: InProcessCounters, x: torch.Tensor) -> None:
    node_us(x)
    before = node_us(x)
    counters.lookup(call_of(lambda: torch.square(x)), Selection(), METRICS, list)
    assert node_us(x) == pytest.approx(before, abs=0.1)


def test_it_is_refused_while_torch_profiler_runs(counters: InProcessCounters, x: torch.Tensor) -> None:
    call = call_of(lambda: torch.square(x))
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]),
        pytest.raises(CuptiError, match=r"torch.profiler is running"),
    ):
        counters.lookup(call, Selection(), METRICS, list)
    assert counters.lookup(call, Selection(), PRESETS["one-pass"], list).combined["kernels"] == 1


UNDER_NCU = """
import torch
from pytest_gpuperf.counters.in_process import InProcessCounters
from pytest_gpuperf.counters.selection import Selection
from pytest_gpuperf.device.gpu import gpu_info
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.instruments.base import Call
x = torch.randn(64, 64, device="cuda")
try:
    print(InProcessCounters(gpu_info(), "gh100").lookup(
        Call("t.py::t", "main", lambda: torch.square(x)), Selection(), ("duration_us",), list))
except GpuperfError as error:
    print("refused:", error)
"""


@needs_ncu
def test_it_is_refused_under_ncu() -> None:
    ncu = find_ncu()
    assert ncu is not None
    command = [str(ncu.path), "--metrics", "gpu__time_duration.sum", sys.executable, "-c", UNDER_NCU]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert "refused: another profiler holds CUPTI in this process" in done.stdout, done.stdout + done.stderr


def test_recording_works_after_counting(counters: InProcessCounters, x: torch.Tensor) -> None:
    counters.lookup(call_of(lambda: torch.square(x)), Selection(), METRICS, list)
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


def test_a_session_reads_its_counters_without_ncu(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=TEST)
    result = pytester.runpytest_subprocess(
        "--gpuperf", "-v", "--gpuperf-counters=cupti", "--gpuperf-budget=0.05", "-p", "no:cacheprovider"
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
