"""Diagnoses of kernels profiled on an H200, and of invented kernels."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from pytest_gpuperf.features.explain.diagnosis import diagnose
from pytest_gpuperf.features.ncu.csv_reader import read_csv
from pytest_gpuperf.metrics import METRICS
from run_builders import BUSY

if TYPE_CHECKING:
    from pytest_gpuperf.records import KernelProfile

CAPTURES = Path(__file__).parents[2] / "data" / "captures"


@pytest.fixture(scope="module")
def captured() -> dict[str, KernelProfile]:
    text = gzip.decompress((CAPTURES / "torch_mixed_raw_wide.csv.gz").read_bytes()).decode()
    return {kernel.name: kernel.profile() for kernel in reversed(read_csv(text))}


def test_captured_kernels_have_known_diagnoses(captured: dict[str, KernelProfile]) -> None:
    lines = [
        f"{name[:40]}: {str(diagnosis).partition(';')[0]}"
        for name, kernel in captured.items()
        for diagnosis in diagnose(kernel.metrics, name=f"{kernel.name} {kernel.demangled}")
    ]
    assert "\n".join(lines) == snapshot("""\
radixSortKVInPlace: memory-bound: L1 and shared memory are at 71 % of their peak
radixSortKVInPlace: shared-memory-latency: warps wait for shared memory or special functions in 78 % of their cycles
gatherTopK: compute-bound: the SMs are at 61 % of their peak, by the issue slots (61 %)
gatherTopK: synchronisation-bound: warps wait for others at barriers in 35 % of their cycles
gatherTopK: memory-latency: warps wait for data from L1, L2 or DRAM in 34 % of their cycles
DeviceScanByKeyKernel: too-small-grid: 3 blocks are 1 % of those that the GPU holds at once
DeviceScanByKeyKernel: synchronisation-bound: warps wait for others at barriers in 27 % of their cycles
DeviceScanByKeyInitKernel: too-small-grid: one block is 0.1 % of those that the GPU holds at once
DeviceScanByKeyInitKernel: launch-bound: the kernel takes 1.8 µs, less than its launch from the host
computeBlockwiseKthCounts: too-small-grid: 32 blocks are 3 % of those that the GPU holds at once
computeBlockwiseKthCounts: launch-bound: the kernel takes 2.9 µs, less than its launch from the host
computeBlockwiseWithinKCounts: latency-bound: neither compute (35 %) nor memory (13 %) comes near its peak
computeBlockwiseWithinKCounts: synchronisation-bound: warps wait for others at barriers in 38 % of their cycles
computeBlockwiseWithinKCounts: memory-latency: warps wait for data from L1, L2 or DRAM in 32 % of their cycles
computeDigitCumSum: latency-bound: neither compute (54 %) nor memory (26 %) comes near its peak
computeDigitCumSum: memory-latency: warps wait for data from L1, L2 or DRAM in 37 % of their cycles
computeBlockDigitCounts: latency-bound: neither compute (50 %) nor memory (41 %) comes near its peak
computeBlockDigitCounts: memory-latency: warps wait for data from L1, L2 or DRAM in 73 % of their cycles
fill: too-small-grid: 16 blocks are 3 % of those that the GPU holds at once
fill: launch-bound: the kernel takes 1.8 µs, less than its launch from the host
vectorized_elementwise_kernel: memory-bound: DRAM is at 83 % of its peak
cunn_SoftMaxForwardReg: compute-bound: the SMs are at 72 % of their peak, by the issue slots (72 %)
sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_ti: too-small-grid: 256 blocks are 16 % of those that the GPU holds at once
sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_ti: tensor-cores-idle: tensor cores are busy 0.0 % of the time in a product of matrices, of float32 by its name
nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coo: compute-bound: the SMs are at 90 % of their peak, by the tensor pipe (90 %)
square_kernel: memory-bound: DRAM is at 79 % of its peak\
""")  # noqa: E501


@given(
    st.dictionaries(
        st.sampled_from([name for name in METRICS if name != "occupancy_limiter"]),
        st.floats(0, 1e9, allow_nan=False),
    )
)
def test_any_metrics_may_be_missing(metrics: dict[str, float]) -> None:
    for diagnosis in diagnose(metrics):
        assert diagnosis.line
        assert diagnosis.next_step
        assert "nan" not in diagnosis.line
        assert "None" not in diagnosis.line


ROOF = {"sm_throughput": 90.0, "memory_throughput": 60.0, "waves": 8.0}
WAITS = {"stall.barrier": 40.0, "stall.long_scoreboard": 40.0}
OCCUPANCY = {"sm_throughput": 15.0, "memory_throughput": 50.0, "waves": 2.0, "theoretical_occupancy": 50.0}
SMALL_GRID = {"sm_throughput": 90.0, "memory_throughput": 30.0, "waves": 0.5, "grid_size": 66.0}


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ({**BUSY, "l2_throughput": 83.0}, ["memory-bound"]),
        ({**BUSY, "l2_throughput": 66.0}, ["latency-bound"]),
        # A saturated unit hides stalls.
        ({**ROOF, **WAITS}, ["compute-bound"]),
        (
            {**ROOF, **WAITS, "sm_throughput": 75.0},
            ["compute-bound", "synchronisation-bound", "memory-latency"],
        ),
        (
            {**BUSY, "stall.long_scoreboard": 20.0, "stall.lg_throttle": 10.0},
            ["latency-bound", "memory-latency"],
        ),
        ({**BUSY, "stall.long_scoreboard": 20.0}, ["latency-bound"]),
        (
            {**BUSY, "stall.mio_throttle": 18.0, "stall.short_scoreboard": 12.0},
            ["latency-bound", "shared-memory-latency"],
        ),
        ({**BUSY, "stall.math_pipe_throttle": 20.0}, ["latency-bound", "math-throttled"]),
        # Without the speed of light, waiting cannot be judged.
        ({"stall.barrier": 60.0, "waves": 8.0}, []),
        (SMALL_GRID, ["compute-bound"]),
        ({**OCCUPANCY, "achieved_occupancy": 49.8}, ["latency-bound"]),
        ({**OCCUPANCY, "achieved_occupancy": 30.0}, ["latency-bound", "occupancy-limited"]),
        ({**ROOF, "theoretical_occupancy": 6.0, "achieved_occupancy": 6.0}, ["compute-bound"]),
        ({"instructions": 1000.0, "local_spill_instructions": 49.0}, []),
        ({"global_load_bytes_per_sector": 26.1, "global_store_bytes_per_sector": 32.0}, []),
        ({"global_load_sectors_per_request": 16.0}, []),
        ({"global_load_bytes_per_sector": 4.0, "instructions": 1e6, "global_load_requests": 9e3}, []),
        ({"bank_conflict_pct": 9.9}, []),
        ({"bank_conflict_pct": 10.0}, ["bank-conflicts"]),
    ],
)
def test_metrics_lead_to_their_rules(metrics: dict[str, float], found: list[str]) -> None:
    assert [diagnosis.code for diagnosis in diagnose(metrics)] == found


@pytest.mark.parametrize(
    ("name", "chip", "metrics", "said"),
    [
        ("matmul_naive(float const*, float const*, float*, int)", "", {}, "float32 by its name"),
        ("void gemm_tiled<__half>(__half const*)", "", {}, "half precision by its name"),
        ("conv2d_direct", "", {"flops.fp16": 0.0, "flops.fp32": 8e9}, "float32 by its operations"),
        ("my_matmul", "", {"flops.fp16": 9e9, "flops.fp32": 8e3}, "half precision by its operations"),
        ("void gemm_tiled<__half>(__half const*)", "", {"tensor_active": 40.0}, ""),
        ("my_matmul", "gh100", {}, ""),
        ("elementwise_kernel(float*)", "gh100", {}, ""),
        ("dgemm_kernel(double*)", "gh100", {}, ""),
        ("sgemm_kernel", "tu102", {}, ""),
    ],
)
def test_missed_tensor_cores_are_evident(name: str, chip: str, metrics: dict[str, float], said: str) -> None:
    found = diagnose({"tensor_active": 0.0, **metrics}, name=name, chip=chip)
    assert [diagnosis.code for diagnosis in found] == ["tensor-cores-idle"] * bool(said)
    assert all(said in diagnosis.line for diagnosis in found)
