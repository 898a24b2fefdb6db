"""Diagnoses shown below a failed test."""

from __future__ import annotations

from msgspec.structs import replace

from judging import verdict
from pytest_gpuperf.features.explain.diagnosis_rows import explain_lines
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.records import Conditions, KernelProfile, Measurement, Profile, Timing, Workload
from run_builders import BUSY, record
from run_builders import measured as timed
from run_builders import timing as timing_of


def measured(*kernels: KernelProfile, timing: Timing | None = None, **profile: str) -> Measurement:
    return Measurement(timing=timing, profile=Profile(kernels=kernels, **profile))  # type: ignore[arg-type]


def kernel(name: str, **metrics: float) -> KernelProfile:
    return KernelProfile(name=name, metrics={key.replace("__", "."): value for key, value in metrics.items()})


def test_failed_test_shows_three_diagnoses_with_next_steps() -> None:
    one = kernel("k", **BUSY, stall__barrier=40.0, stall__long_scoreboard=40.0, bank_conflict_pct=30.0)
    lines = explain_lines(measured(one))
    assert [text.partition(":")[0] for text in lines] == [
        "latency-bound",
        "  next",
        "synchronisation-bound",
        "  next",
        "memory-latency",
        "  next",
    ]


def test_of_several_kernels_the_long_ones_are_shown_by_name() -> None:
    long = kernel("long_kernel", sm_throughput=20.0, memory_throughput=85.0, duration_us=90.0)
    short = kernel("short_kernel", sm_throughput=20.0, memory_throughput=85.0, duration_us=10.0)
    lines = explain_lines(measured(long, short))
    assert lines[0] == "long_kernel, 90 % of the time:"
    assert len(lines) == 3


def test_launches_of_one_kernel_are_told_apart_by_their_place() -> None:
    sizes = ((8, 60.0), (4, 40.0))
    one, other = (kernel("copy", **BUSY | {"grid_size": n, "duration_us": us}) for n, us in sizes)
    lines = explain_lines(measured(one, other))
    heads = [line for line in lines if "copy" in line]
    assert heads == ["#0 copy, 60 % of the time:", "#1 copy, 40 % of the time:"]


def test_without_counters_nothing_is_explained() -> None:
    assert explain_lines(Measurement()) == ()
    assert explain_lines(measured(kernel("k", **BUSY), unavailable="no ncu")) == ()
    assert explain_lines(Measurement(profile=Profile())) == ()


def test_limited_time_shows_the_clock_of_its_blocks() -> None:
    timing = Timing(
        mode="hot",
        time_us=200.0,
        spread_pct=0.1,
        blocks_us=(201.0, 199.0),
        blocks_mhz=(1380.0, 1390.0),
        calls_per_block=10,
        conditions=Conditions(sm_clock_mhz=1530, throttle_reasons=("sw_power_cap",)),
    )
    found = " ".join(explain_lines(measured(kernel("k", **BUSY), timing=timing)))
    assert "power-limited: the GPU held its clock back to 1385 MHz (sw_power_cap)" in found


def test_diagnosis_stands_below_a_broken_limit() -> None:
    large = replace(timing_of(1.0), work=Workload(peak_memory_mb=2.0))
    test = record(main=replace(timed(1.0, {"sm_throughput": 5.0}), timing=large))
    limits = parse_limits(["peak_memory_mb <= 1", "sm_throughput >= 10"])
    _, _, explained, *_ = verdict(test, limits=limits).message().splitlines()
    assert explained == "    launch-bound: the kernel takes 1.0 µs, less than its launch from the host"
