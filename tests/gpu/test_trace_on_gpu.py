"""The kernel table of calls with known kernels, on a real GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trace.capture import capture
from pytest_gpuperf.features.trace.chrome_traces import read_chrome_trace
from pytest_gpuperf.features.trace.regions import CALL_MARK
from pytest_gpuperf.features.trace.summary import summarise
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.device.originals import elapsed_us, event, record
from suites.kernels.gemm import TILES, matmul_triton
from suites.kernels.square import square_triton

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from pytest_gpuperf.records import Trace

    Traced: TypeAlias = Callable[[Callable[[], object]], Trace]


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    """Trace a call."""

    def trace(fn: Callable[[], object]) -> Trace:
        return capture(fn, tmp_path / "traces" / "x.json.gz")

    return trace


def matrix(n: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(n, n, device="cuda", dtype=dtype)


def many_small(x: torch.Tensor) -> Callable[[], object]:
    """Launch fifty kernels of a microsecond each."""

    def run() -> None:
        for _ in range(50):
            x.add_(1)

    return run


def graph_of(fn: Callable[[], object]) -> torch.cuda.CUDAGraph:
    fn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return graph


def test_the_table_has_the_kernels_of_one_call(traced: Traced) -> None:
    a, b = matrix(4096), matrix(4096)
    found = traced(lambda: torch.softmax(a @ b, dim=-1).mul_(2))
    assert (found.launches, found.host_launches, found.copies, found.synchronizations) == (3, 3, 0, 0)
    assert found.occurrences == 5
    by_class = {row.kernel_class: row for row in found.kernels}
    assert set(by_class) == {"large_core", "reduction", "elementwise"}
    core = by_class["large_core"]
    assert core.tensor_cores is True
    assert core.share_pct > 50
    assert found.tensor_core_share_pct == pytest.approx(core.share_pct)
    assert all(row.theoretical_occupancy_pct for row in found.kernels)
    assert all(row.blocks_per_sm > 0 and row.waves for row in found.kernels)
    assert sum(found.class_shares_pct.values()) == pytest.approx(100)


def test_launches_agree_with_cupti(traced: Traced) -> None:
    layer = torch.nn.TransformerEncoderLayer(256, 4, batch_first=True, device="cuda").eval()
    x = torch.randn(4, 64, 256, device="cuda")

    def call() -> None:
        with torch.no_grad():
            layer(x)

    found = traced(call)
    with recorded() as activities:
        call()
    assert found.launches == sum(bool(one.name) for one in activities)
    time_us = sum(one.end_ns - one.start_ns for one in activities) / 1e3
    assert found.gpu_time_us == pytest.approx(time_us, rel=0.3)


def test_fp32_without_tf32_uses_no_tensor_cores(traced: Traced) -> None:
    a = matrix(2048, torch.float32)
    assert not torch.backends.cuda.matmul.allow_tf32
    found = traced(lambda: a @ a)
    assert (found.tensor_core_share_pct, found.tensor_cores_unknown_pct) == (0.0, 0.0)


def test_triton_kernels_are_classified_by_their_code(traced: Traced) -> None:
    a, x = matrix(1024, torch.float16), matrix(1024, torch.float32)
    found = traced(lambda: (matmul_triton(a, a, TILES[0]), square_triton(x)))
    assert found.launches == 2
    assert sorted(str(row.tensor_cores) for row in found.kernels) == ["False", "True"]


def test_graph_nodes_share_one_host_launch(traced: Traced) -> None:
    x = torch.zeros(1024, device="cuda")
    found = traced(graph_of(many_small(x)).replay)
    assert (found.launches, found.host_launches) == (50, 1)


def test_one_long_kernel_after_the_other_keeps_the_gpu_busy(traced: Traced) -> None:
    a = matrix(8192)
    out = torch.empty_like(a)

    def call() -> None:
        for _ in range(10):
            torch.mm(a, a, out=out)

    found = traced(call)
    assert found.launches == 10
    assert found.values["gpu_busy"] > 98
    assert found.launch_gap_us < 10


def test_small_kernels_leave_gaps_that_a_graph_closes(traced: Traced) -> None:
    x = torch.zeros(1024, device="cuda")
    eager = traced(many_small(x))
    graphed = traced(graph_of(many_small(x)).replay)
    assert eager.launches == graphed.launches == 50
    assert eager.values["gpu_busy"] < 70
    assert 0.5 < eager.launch_gap_us < 30
    assert graphed.launch_gap_us < eager.launch_gap_us / 1.5


def test_span_is_the_shortest_of_three(traced: Traced) -> None:
    x = torch.zeros(1024, device="cuda")
    call = many_small(x)
    found = traced(call)
    assert found.span_us <= found.profiled_span_us
    times = []
    for _ in range(5):
        start, end = event(), event()
        torch.cuda.synchronize()
        record(start)
        call()
        record(end)
        torch.cuda.synchronize()
        times.append(elapsed_us(start, end))
    assert found.span_us <= 1.5 * sorted(times)[2]
    assert found.busy_us <= found.span_us


def test_copies_and_waiting_are_counted(traced: Traced) -> None:
    x = torch.ones(1 << 20, device="cuda")
    found = traced(lambda: x.square().cpu())
    assert (found.launches, found.copies, found.copy_bytes) == (1, 1, 4 << 20)
    assert found.copy_kinds == {"DtoH": 1}
    assert found.synchronizations >= 1


def test_two_streams_are_one_call(traced: Traced) -> None:
    a, b = matrix(2048), matrix(2048)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def call() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.mm(a, a)
        torch.mm(b, b)
        torch.cuda.current_stream().wait_stream(side)

    found = traced(call)
    assert (found.launches, found.streams) == (2, 2)
    # `busy_us` comes from other calls than the kernels in the table.
    assert found.busy_us <= 1.05 * found.gpu_time_us


def test_a_backward_pass_belongs_to_its_call(traced: Traced) -> None:
    x = torch.randn(1024, 1024, device="cuda", requires_grad=True)

    def call() -> None:
        (x @ x).sum().backward()  # type: ignore[no-untyped-call]
        x.grad = None

    found = traced(call)
    assert sum(row.calls for row in found.kernels if "gemm" in row.name) == 3


def test_file_and_call_agree(traced: Traced, tmp_path: Path) -> None:
    a = matrix(1024)
    found = traced(lambda: a @ a)
    file = tmp_path / found.file
    read = summarise(read_chrome_trace(file))
    assert (read.region, read.occurrences, read.launches) == (CALL_MARK, 5, found.launches)
    assert read.gpu_time_us == found.gpu_time_us
    assert (read.gpu, read.kernels[0].grid) == (torch.cuda.get_device_name(), found.kernels[0].grid)


def test_nothing_on_the_gpu_is_refused(traced: Traced) -> None:
    with pytest.raises(GpuperfError, match="has no activity of a GPU"):
        traced(lambda: None)


def test_inside_another_profiler_nothing_is_traced(traced: Traced) -> None:
    with torch.profiler.profile(), pytest.raises(GpuperfError, match=r"torch\.profiler is running"):
        traced(lambda: None)
