"""Diagnoses of kernels profiled on an H200, and of invented kernels."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.judge.explain import RULES, diagnose, explain_lines
from pytest_gpuperf.judge.explain.bounds import PIPES
from pytest_gpuperf.judge.explain.explain import diagnose_kernel
from pytest_gpuperf.measure.ncu.csv_reader import read_csv
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records.runs import newest_recordings
from run_builders import BUSY

if TYPE_CHECKING:
    from pytest_gpuperf.records import KernelProfile, Measurement, MetricValue

ROOT = Path(__file__).parents[2]
CAPTURES = Path(__file__).parents[1] / "data" / "captures"


def codes(name: str = "", chip: str = "", /, **metrics: MetricValue) -> list[str]:
    known = {key.replace("__", "."): value for key, value in metrics.items()}
    return [diagnosis.code for diagnosis in diagnose(known, name=name, chip=chip)]


def line(code: str, name: str = "", /, **metrics: MetricValue) -> str:
    known = {key.replace("__", "."): value for key, value in metrics.items()}
    return next(diagnosis.line for diagnosis in diagnose(known, name=name) if diagnosis.code == code)


@pytest.fixture(scope="module")
def captured() -> dict[str, KernelProfile]:
    text = gzip.decompress((CAPTURES / "torch_mixed_raw_wide.csv.gz").read_bytes()).decode()
    return {kernel.name: kernel.profile() for kernel in reversed(read_csv(text))}


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ("square_kernel", ["memory-bound: DRAM is at 79 % of its peak"]),
        ("vectorized_elementwise_kernel", ["memory-bound: DRAM is at 83 % of its peak"]),
        # Its producer warps wait at barriers and for memory, while the tensor cores are saturated.
        (
            "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
            ["compute-bound: the SMs are at 90 % of their peak, by the tensor pipe (90 %)"],
        ),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_"
            "execute_kernel__5x_cublas",
            [
                "too-small-grid: 256 blocks are 16 % of those that the GPU holds at once",
                "tensor-cores-idle: tensor cores are busy 0.0 % of the time in a product of matrices, "
                "of float32 by its name",
            ],
        ),
        (
            "cunn_SoftMaxForwardReg",
            ["compute-bound: the SMs are at 72 % of their peak, by the issue slots (72 %)"],
        ),
        (
            "fill",
            [
                "too-small-grid: 16 blocks are 3 % of those that the GPU holds at once",
                "launch-bound: the kernel takes 1.8 µs, less than its launch from the host",
            ],
        ),
        (
            "computeBlockDigitCounts",
            [
                "latency-bound: neither compute (50 %) nor memory (41 %) comes near its peak",
                "memory-latency: warps wait for data from L1, L2 or DRAM in 73 % of their cycles",
            ],
        ),
        (
            "computeBlockwiseWithinKCounts",
            [
                "latency-bound: neither compute (35 %) nor memory (13 %) comes near its peak",
                "synchronisation-bound: warps wait for others at barriers in 38 % of their cycles",
                "memory-latency: warps wait for data from L1, L2 or DRAM in 32 % of their cycles",
            ],
        ),
        (
            "radixSortKVInPlace",
            [
                "memory-bound: L1 and shared memory are at 71 % of their peak",
                "shared-memory-latency: warps wait for shared memory or special functions in 78 % of their "
                "cycles",
            ],
        ),
    ],
)
def test_captured_kernels_have_known_diagnoses(
    captured: dict[str, KernelProfile], kernel: str, found: list[str]
) -> None:
    assert [str(diagnosis).partition(";")[0] for diagnosis in diagnose_kernel(captured[kernel])] == found


def recorded() -> dict[str, Measurement]:
    return {
        test.nodeid.partition("::")[2]: test.measurements["main"]
        for run in reversed(newest_recordings(ROOT / "baselines"))
        if run.environment.gpu.slug == "nvidia-h200"
        for test in run.tests
        if "main" in test.measurements
    }


RECORDED = recorded()


@pytest.mark.parametrize(
    ("test", "first"),
    [
        ("test_square_torch[8192]", "memory-bound: DRAM is at"),
        ("test_square_triton[8192]", "memory-bound: DRAM is at"),
        ("test_square_compiled[8192]", "memory-bound: DRAM is at"),
        ("test_square_cuda[8192]", "latency-bound: neither compute"),
        ("test_square_torch[256]", "too-small-grid: 1024 blocks are 48 %"),
        ("test_square_cuda[256]", "launch-bound: the kernel takes"),
        ("test_large_cublas", "compute-bound: the SMs are at"),
        ("test_large_triton[128x256x64]", "compute-bound: the SMs are at"),
        ("test_odd_triton[128x128x64]", "spilling: 35 % of the instructions"),
        ("test_small_batched_cublas", "too-small-grid: 64 blocks are"),
    ],
)
def test_recorded_kernels_have_known_diagnoses(test: str, first: str) -> None:
    if test not in RECORDED:
        pytest.skip(f"no recording of {test}")
    assert explain_lines(RECORDED[test])[0].startswith(first)


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


def test_missing_metrics_give_no_diagnosis() -> None:
    assert diagnose({}) == ()


def test_every_rule_has_code_source_and_threshold() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.source
        assert f"{rule.threshold:g}" in rule.condition or not rule.threshold


@pytest.mark.parametrize("pipe", PIPES)
def test_compute_bound_names_the_pipe(pipe: str) -> None:
    metrics = {"sm_throughput": 88.0, "memory_throughput": 20.0, pipe: 88.0, "pipe.uniform": 90.0}
    (found,) = diagnose(metrics)
    assert found.code == "compute-bound"
    assert f"by {PIPES[pipe][0]} (88 %)" in found.line


def test_occupancy_near_its_limit_is_not_called_low() -> None:
    metrics = {"sm_throughput": 15.0, "memory_throughput": 50.0, "waves": 2.0, "theoretical_occupancy": 50.0}
    for achieved, said in ((49.8, False), (30.0, True)):
        codes = [found.code for found in diagnose({**metrics, "achieved_occupancy": achieved})]
        assert ("occupancy-limited" in codes) is said


@pytest.mark.parametrize(
    ("dram", "l2", "level"),
    [(85.0, 91.0, "DRAM"), (20.0, 83.0, "L2"), (3.0, 6.0, "L1 and shared memory")],
)
def test_memory_bound_names_the_level(dram: float, l2: float, level: str) -> None:
    metrics = {"dram_throughput": dram, "l2_throughput": l2}
    assert level in line("memory-bound", sm_throughput=20.0, memory_throughput=85.0, **metrics)


def test_l2_at_its_roof_bounds_despite_ncu_memory_throughput() -> None:
    assert codes(**BUSY, l2_throughput=83.0) == ["memory-bound"]
    assert codes(**BUSY, l2_throughput=66.0) == ["latency-bound"]


def test_saturated_unit_hides_stalls() -> None:
    waits = {"stall__barrier": 40.0, "stall__long_scoreboard": 40.0}
    assert codes(sm_throughput=90.0, memory_throughput=60.0, waves=8.0, **waits) == ["compute-bound"]
    assert codes(sm_throughput=75.0, memory_throughput=60.0, waves=8.0, **waits) == [
        "compute-bound",
        "synchronisation-bound",
        "memory-latency",
    ]


@pytest.mark.parametrize(
    ("stalls", "code", "share"),
    [
        ({"stall__barrier": 25.0}, "synchronisation-bound", 25),
        ({"stall__long_scoreboard": 20.0, "stall__lg_throttle": 10.0}, "memory-latency", 30),
        ({"stall__mio_throttle": 18.0, "stall__short_scoreboard": 12.0}, "shared-memory-latency", 30),
        ({"stall__math_pipe_throttle": 20.0}, "math-throttled", 20),
    ],
)
def test_waiting_counts_from_its_threshold_on(stalls: dict[str, float], code: str, share: int) -> None:
    assert codes(**BUSY, **stalls) == ["latency-bound", code]
    assert f"{share} % of their cycles" in line(code, **BUSY, **stalls)
    fewer = {name: value - 0.5 for name, value in stalls.items()}
    assert codes(**BUSY, **fewer) == ["latency-bound"]


def test_waiting_without_the_speed_of_light_cannot_be_judged() -> None:
    assert codes(stall__barrier=60.0, waves=8.0) == []


def test_small_grid_names_the_number_of_idle_sms() -> None:
    fits = {f"occupancy_limit__{k}": 2.0 for k in ("warps", "blocks", "registers", "shared_mem")}
    small = {"sm_throughput": 4.0, "memory_throughput": 12.0, "waves": 72 / 264, "grid_size": 72.0}
    assert line("too-small-grid", **small, **fits) == (
        "72 blocks are 27 % of those that the GPU holds at once; 60 of 132 SMs get none"
    )
    assert "1 of 73 SMs get none" in line("too-small-grid", **small, sm_count=73.0)


def test_a_small_grid_that_keeps_the_gpu_busy_is_fine() -> None:
    assert codes(sm_throughput=90.0, memory_throughput=30.0, waves=0.5, grid_size=66.0) == ["compute-bound"]


@pytest.mark.parametrize(
    ("limiter", "said"),
    [
        ("registers", "fit on it, by their 128 registers a thread"),
        ("shared_mem", "fit on it, by their shared memory"),
    ],
)
def test_low_occupancy_names_its_limiter(limiter: str, said: str) -> None:
    occupancy = {"theoretical_occupancy": 25.0, "achieved_occupancy": 24.0, "registers_per_thread": 128.0}
    assert said in line("occupancy-limited", **BUSY, **occupancy, occupancy_limiter=limiter)


def test_low_occupancy_of_a_kernel_near_a_roof_is_fine() -> None:
    busy = {"sm_throughput": 84.0, "memory_throughput": 60.0, "waves": 8.0}
    assert codes(**busy, theoretical_occupancy=6.0, achieved_occupancy=6.0) == ["compute-bound"]


def test_missing_warps_are_uneven_work() -> None:
    assert "only 30 %" in line(
        "occupancy-limited", **BUSY, theoretical_occupancy=100.0, achieved_occupancy=30.0
    )


def test_few_spills_are_ignored() -> None:
    assert codes(instructions=1000.0, local_spill_instructions=49.0) == []
    assert codes(instructions=1000.0, local_spill_instructions=50.0) == ["spilling"]
    assert "255" in line(
        "spilling", instructions=100.0, local_spill_instructions=50.0, registers_per_thread=255.0
    )


@pytest.mark.parametrize(
    ("name", "extra", "said"),
    [
        ("matmul_naive(float const*, float const*, float*, int)", {}, "float32 by its name"),
        ("void gemm_tiled<__half>(__half const*)", {}, "half precision by its name"),
        ("conv2d_direct", {"flops__fp16": 0.0, "flops__fp32": 8e9}, "float32 by its operations"),
        ("my_matmul", {"flops__fp16": 9e9, "flops__fp32": 8e3}, "half precision by its operations"),
    ],
)
def test_tensor_cores_are_missed_in_products_that_they_take(
    name: str, extra: dict[str, float], said: str
) -> None:
    assert said in line("tensor-cores-idle", name, tensor_active=0.0, **extra)
    assert codes(name, tensor_active=40.0, **extra) == []


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("my_matmul", "gh100"),
        ("elementwise_kernel(float*)", "gh100"),
        ("dgemm_kernel(double*)", "gh100"),
        ("sgemm_kernel", "tu102"),
        ("convert_f32_to_f16", "gh100"),
    ],
)
def test_tensor_cores_are_not_missed_without_evidence(name: str, chip: str) -> None:
    assert codes(name, chip, tensor_active=0.0) == []


def test_uncoalesced_accesses_are_detected_by_bytes_or_sectors() -> None:
    assert codes(global_load_bytes_per_sector=26.1, global_store_bytes_per_sector=32.0) == []
    assert (
        line("uncoalesced", global_load_bytes_per_sector=4.0) == "loads use 4 of each 32 bytes that they move"
    )
    assert codes(global_load_sectors_per_request=16.0) == []
    assert "store touches 32 sectors" in line("uncoalesced", global_store_sectors_per_request=32.0)


def test_few_accesses_are_ignored() -> None:
    few = {"instructions": 1e6, "global_load_requests": 9e3}
    assert codes(global_load_bytes_per_sector=4.0, **few) == []


def test_bank_conflicts_count_from_a_tenth_on() -> None:
    assert codes(bank_conflict_pct=9.9) == []
    assert codes(bank_conflict_pct=10.0) == ["bank-conflicts"]
