from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from judging import H200, HINTS
from present import present
from pytest_gpuperf.baseline.acceptance import refusal
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.judge.time_lower_bound import floor_of, impossible_time
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records import Conditions, Correctness, GpuInfo, KernelProfile, Measurement, Profile
from pytest_gpuperf.records.run_store import load_run
from run_builders import record, timing

FULL_CLOCK = Conditions(max_sm_clock_mhz=1980)
RECORDINGS = sorted((Path(__file__).parents[2] / "baselines").glob("*/recordings/*"))
MIB = 2**20


def timed(time_us: float, *, written: int = 0, arguments: int = 256 * MIB, **kwargs: Any) -> Measurement:
    checked = Correctness(
        passed=True, argument_bytes=arguments, output_bytes=256 * MIB, written_bytes=written
    )
    found = timing(time_us, **kwargs)
    work = replace(found.work, argument_bytes=arguments)
    found = replace(found, work=work, conditions=FULL_CLOCK)
    return Measurement(correctness=checked, timing=found)


def floor_us(measurement: Measurement, gpu: GpuInfo = H200) -> float:
    found = floor_of(measurement, gpu)
    return 0.0 if found is None else found.time_us


def test_memoised_output_is_impossible_with_its_arithmetic() -> None:
    found = present(impossible_time(timed(1.02, bytes=512 * MIB), H200))
    assert found.status is Status.INVALID
    assert found.line == (
        "time_us 1.02 is impossible: (536.9 MB of bytes= - 62.9 MB that L2 can hold) / 4.81 TB/s of DRAM = "
        "98.4 µs, 96.5 times as long"
    )
    assert found.details[0].startswith("if bytes= is too large, correct it first")
    assert "results kept from earlier calls" in found.next_step


def test_copy_at_the_peak_of_dram_is_possible() -> None:
    at_peak = (512 * MIB) / 4814.304 / 1e3
    assert impossible_time(timed(at_peak, bytes=512 * MIB), H200) is None


def test_data_that_fit_in_l2_have_its_peak() -> None:
    resident = timed(4.0, arguments=32 * MIB, bytes=32 * MIB)
    assert 1.5 < floor_us(resident) < 3
    assert impossible_time(resident, H200) is None


def test_bytes_beyond_arguments_and_outputs_are_no_claim() -> None:
    """Passes over data in a cache move more bytes than there are."""
    many_passes = floor_us(timed(50.0, bytes=100 * 512 * MIB))
    assert many_passes == floor_us(timed(50.0, bytes=512 * MIB))


def test_new_outputs_are_written_without_a_declaration() -> None:
    found = present(impossible_time(timed(1.0, written=256 * MIB), H200))
    assert "268.4 MB of new outputs" in found.line
    assert found.details == ()
    assert floor_us(timed(1.0)) == 0


def test_check_of_another_size_is_no_claim() -> None:
    small = timed(1.0, written=256 * MIB)
    assert small.timing is not None
    timing_of_less = replace(small.timing, work=replace(small.timing.work, argument_bytes=4096))
    assert impossible_time(replace(small, timing=timing_of_less), H200) is None


def test_unknown_sizes_or_peaks_make_no_claim() -> None:
    declared = timed(1.0, bytes=512 * MIB, flops=10**15)
    unknown_clock = replace(declared, timing=timing(1.0, bytes=10**12))
    assert impossible_time(unknown_clock, H200) is None
    assert impossible_time(declared, GpuInfo(name="new", slug="new", compute_capability="13.0")) is None


def test_declared_bytes_of_a_closure_pass_l2() -> None:
    assert impossible_time(timed(30.0, arguments=0, bytes=512 * MIB), H200) is None
    found = present(impossible_time(timed(1.0, arguments=0, bytes=512 * MIB), H200))
    assert found.line.startswith("time_us 1 is impossible: 536.9 MB of bytes= / 18.25 TB/s of L2 = 29.4 µs")


def test_operations_are_taken_in_the_fastest_type() -> None:
    """4283 TFLOP/s of sparse float8 at 1980 MHz."""
    assert floor_us(timed(1.0, flops=4283 * 10**6)) == pytest.approx(1.0, rel=1e-3)
    assert "flops=" in present(impossible_time(timed(1.0, flops=4283 * 10**9), H200)).details[0]


def counted(time_us: float, **counters: float) -> Measurement:
    kernels = (KernelProfile(name="k", metrics={name.replace("__", "."): v for name, v in counters.items()}),)
    return replace(timed(time_us), profile=Profile(kernels=kernels * 2))


def test_counted_work_is_claimed_by_half() -> None:
    beyond = 2 * (512 * MIB - H200.l2_bytes)
    assert floor_us(counted(1.0, dram_bytes=512 * MIB)) == pytest.approx(beyond / 4814.304 / 2e3)
    # Sparse bfloat16 has 2141 TFLOP/s at 1980 MHz.
    assert floor_us(counted(1.0, flops__tensor_bf16=2141e6)) == pytest.approx(1.0, rel=1e-3)
    assert floor_us(counted(1.0, flops__tensor_tf32=2141e6)) == pytest.approx(2.0, rel=1e-3)


def test_kernels_whose_data_stay_in_l2_make_no_claim() -> None:
    assert floor_us(counted(1.0, dram_bytes=60e6)) == 0


def test_impossible_time_fails_and_is_no_baseline() -> None:
    test = record(main=timed(1.0, bytes=512 * MIB))
    found = judge(test, measured=Expected(hints=HINTS, gpu=H200))
    assert (found.status, found.fails) == (Status.INVALID, True)
    assert "accept" not in found.message()
    assert refusal(test, H200).startswith("time_us 1 is impossible")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_no_recorded_time_is_impossible(path: Path) -> None:
    recorded = load_run(path)
    found = recorded.environment.gpu
    gpu = replace(found, dram_gb_per_s=found.dram_gb_per_s or H200.dram_gb_per_s)
    times = 0
    for test in recorded.tests:
        for measured in test.measurements.values():
            if measured.timing is not None:
                times += 1
                # The strictest claim: all declared bytes are distinct.
                work = measured.timing.work
                work = replace(work, argument_bytes=max(1, measured.timing.bytes))
                timing = replace(measured.timing, work=work)
                assert impossible_time(replace(measured, timing=timing), gpu) is None, test.nodeid
    assert times > 10


def test_short_time_may_be_half_a_microsecond_below_the_floor() -> None:
    floor = floor_us(timed(1.0, bytes=20 * MIB))
    assert 1 < floor < 10
    assert impossible_time(timed(floor - 0.49, bytes=20 * MIB), H200) is None
    assert impossible_time(timed(floor - 0.51, bytes=20 * MIB), H200) is not None
