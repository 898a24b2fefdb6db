"""The kernel table of a region, from events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.trace.kernel_table import region_line
from pytest_gpuperf.features.trace.regions import CALL_MARK
from pytest_gpuperf.features.trace.summary import summarise, with_span
from trace_builders import H200_PROPERTIES, TraceBuilder

if TYPE_CHECKING:
    from pytest_gpuperf.features.trace.chrome_traces import TraceActivity
    from pytest_gpuperf.records import Trace


@pytest.fixture
def trace() -> TraceBuilder:
    return TraceBuilder()


def table(trace: TraceBuilder, annotation: str | None = None) -> Trace:
    return summarise(trace.read(), annotation=annotation)


def test_idle_time_is_the_gaps_between_activities(trace: TraceBuilder) -> None:
    for start in (100.0, 110.0, 130.0):
        trace.kernel("k", start, 6.0)
    found = table(trace)
    assert (found.span_us, found.busy_us) == (36.0, 18.0)
    assert found.gpu_busy_pct == 50.0
    assert found.launch_gap_us == 9.0


def test_graph_nodes_share_one_host_launch(trace: TraceBuilder) -> None:
    number = trace.call("cudaGraphLaunch", 90.0)
    for start in (100.0, 103.0, 106.0):
        trace.kernel("k", start, 2.0, correlation=number)
    found = table(trace)
    assert (found.launches, found.host_launches) == (3, 1)


def test_copies_and_fills_count_as_data_movement(trace: TraceBuilder) -> None:
    trace.kernel("square_kernel", 100.0, 5.0)
    trace.copy(110.0, 2.0, 4096)
    trace.copy(120.0, 2.0, 8192, "DtoH (Device -> Pinned)")
    trace.copy(130.0, 1.0, 64, "memset")
    found = table(trace)
    assert (found.launches, found.copies, found.memsets) == (1, 2, 1)
    assert (found.copy_bytes, found.copy_us, found.memset_us) == (12288, 4.0, 1.0)
    assert found.copy_kinds == {"DtoH": 1, "HtoD": 1}
    assert found.class_shares_pct["data_movement"] == 50.0


def test_waiting_host_calls_are_synchronizations(trace: TraceBuilder) -> None:
    trace.kernel("k", 100.0, 5.0)
    for name in ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cuEventSynchronize"):
        trace.call(name, 200.0)
    for name in ("cudaStreamWaitEvent", "cudaEventRecord", "cudaStreamIsCapturing"):
        trace.call(name, 200.0)
    assert table(trace).synchronizations == 3


def test_a_kernel_launched_with_another_grid_is_another_row(trace: TraceBuilder) -> None:
    trace.kernel("k", 100.0, 5.0, grid=(10, 1, 1))
    trace.kernel("k", 110.0, 5.0, grid=(10, 1, 1))
    trace.kernel("k", 120.0, 8.0, grid=(20, 1, 1))
    rows = [(row.grid[0], row.calls, row.total_us) for row in table(trace).kernels]
    assert rows == [(10, 2, 10.0), (20, 1, 8.0)]


def test_occupancy_is_computed_if_kineto_reads_zero(trace: TraceBuilder) -> None:
    # 168 registers and 1 block of 384 threads are typical of a warp-specialised GEMM on Hopper.
    trace.kernel("nvjet_tst_128x256_64x4", 100.0, 50.0, grid=(132, 1, 1), block=(384, 1, 1), registers=168,
                 shared=213000)  # fmt: skip
    [row] = table(trace).kernels
    assert row.theoretical_occupancy_pct == 18.75
    assert (row.blocks_per_sm, row.waves) == (1.0, 1.0)


def test_table_shows_the_median_call(trace: TraceBuilder) -> None:
    for call, dur in enumerate((30.0, 5.0, 7.0)):
        trace.annotation(CALL_MARK, 1000.0 * call, 20.0)
        # The kernel runs long after the host's annotation has ended.
        trace.kernel("k", 1000.0 * call + 400, dur, launched=1000.0 * call + 10)
    found = table(trace)
    assert (found.gpu_time_us, found.occurrences, found.region) == (7.0, 3, CALL_MARK)


def test_waits_between_calls_do_not_count(trace: TraceBuilder) -> None:
    for call in range(3):
        trace.annotation(CALL_MARK, 1000.0 * call, 20.0)
        trace.kernel("k", 1000.0 * call + 30, 5.0, launched=1000.0 * call + 10)
        trace.call("cudaStreamSynchronize", 1000.0 * call + 15)
        trace.call("cudaDeviceSynchronize", 1000.0 * call + 500)
    assert table(trace).synchronizations == 1


def test_unrecorded_launch_belongs_to_the_call_around_it(trace: TraceBuilder) -> None:
    for call in range(3):
        trace.annotation(CALL_MARK, 1000.0 * call, 20.0)
        trace.kernel("square_kernel", 1000.0 * call + 400, 5.0, correlation=7_000_000 + call)
    assert table(trace).launches == 1


def test_steps_of_the_profiler_can_be_selected(trace: TraceBuilder) -> None:
    for step in range(3):
        trace.annotation(f"ProfilerStep#{step}", 1000.0 * step, 900.0)
        for start in range(step + 1):
            trace.kernel("k", 1000.0 * step + 100 + 20 * start, 10.0)
    assert table(trace).launches == 6
    found = table(trace, r"ProfilerStep#\d+")
    assert (found.launches, found.region, found.occurrences) == (2, "ProfilerStep#1", 3)


def test_busier_of_two_gpus_counts(trace: TraceBuilder) -> None:
    trace.kernel("a", 100.0, 5.0, device=0)
    trace.kernel("b", 100.0, 50.0, device=1)
    other = {**H200_PROPERTIES, "id": 1, "name": "NVIDIA B200", "computeMajor": 10}
    found = summarise(trace.read(deviceProperties=[H200_PROPERTIES, other]))
    assert ([row.name for row in found.kernels], found.gpu) == (["b"], "NVIDIA B200")
    assert found.other_gpus == (0,)
    assert region_line(found).endswith("not shown: GPU 0, which worked too")


def test_tensor_core_share_states_the_unknown_part(trace: TraceBuilder) -> None:
    trace.kernel("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", 100.0, 60.0)
    trace.kernel("ampere_sgemm_128x64_nn", 200.0, 30.0)
    trace.kernel("my_kernel", 300.0, 10.0)
    found = table(trace)
    assert (found.tensor_core_share_pct, found.tensor_cores_unknown_pct) == (60.0, 10.0)


def test_code_overrules_the_name_on_tensor_cores(trace: TraceBuilder) -> None:
    trace.kernel("my_kernel", 100.0, 60.0)

    def code(kernel: TraceActivity) -> bool | None:
        return kernel.name == "my_kernel"

    assert summarise(replace(trace.read(), tensor_cores=code)).tensor_core_share_pct == 100.0


def test_another_span_changes_busy_share_and_gap(trace: TraceBuilder) -> None:
    for start in (100.0, 110.0, 120.0):
        trace.kernel("void at::native::vectorized_elementwise_kernel<4, Add>", start, 5.0)
    profiled = table(trace)
    assert profiled.launch_gap_us == 5.0
    found = with_span(profiled, 17.0, 15.0, "events")
    assert (found.span_source, found.span_us, found.profiled_span_us) == ("events", 17.0, 25.0)
    assert found.gpu_busy_pct == pytest.approx(100 * 15 / 17)
    assert found.launch_gap_us == pytest.approx(1.0)


@given(
    st.lists(
        st.tuples(st.floats(100, 1e5), st.floats(0, 500), st.integers(7, 9), st.sampled_from("abc")),
        min_size=1,
        max_size=20,
    )
)
def test_shares_sum_to_whole_and_busy_within_span(kernels: list[tuple[float, float, int, str]]) -> None:
    trace = TraceBuilder()
    for start, dur, stream, name in kernels:
        trace.kernel(name, start, dur, stream=stream)
    found = table(trace)
    assert found.launches == sum(row.calls for row in found.kernels) == len(kernels)
    if found.gpu_time_us:
        assert sum(row.share_pct for row in found.kernels) == pytest.approx(100)
        assert sum(found.class_shares_pct.values()) == pytest.approx(100)
    assert found.busy_us <= found.span_us + 1e-6
    assert found.busy_us <= found.gpu_time_us + 1e-6
    assert 0 <= found.values["gpu_busy"] <= 100
