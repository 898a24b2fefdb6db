"""A run with every part of a measurement."""

from __future__ import annotations

from pytest_gpuperf.records import (
    AgainstTiming,
    ClockModel,
    Conditions,
    Correctness,
    Fingerprint,
    KernelProfile,
    Measurement,
    Profile,
    Settlement,
    Timing,
    Trace,
    TracedKernel,
    WarmUp,
    Workload,
)
from pytest_gpuperf.statistics.clock_model import normalise_blocks
from pytest_gpuperf.statistics.decision import trimmed_mean
from run_builders import record, run

MODEL = ClockModel(cycles=3000.0, fixed_us=3.3, reference_mhz=1500.0, share_error=0.01)
CLOCKS = tuple(1500.0 + 5 * (at % 3) for at in range(12))
BLOCKS = tuple(MODEL.time_us(mhz) for mhz in CLOCKS)
TIMING = Timing(
    mode="hot",
    time_us=trimmed_mean(BLOCKS),
    spread_pct=0.1,
    blocks_us=BLOCKS,
    calls_per_block=10,
    launch_gap_us=0.9,
    blocks_mhz=CLOCKS,
    clock_model=MODEL,
    normalised_us=trimmed_mean(normalise_blocks(BLOCKS, CLOCKS, MODEL)),
    work=Workload(bytes=1024, flops=512),
    warm_up=WarmUp(seconds=0.3, launches=100, steady=True),
    conditions=Conditions(sm_clock_mhz=1500, max_sm_clock_mhz=1980, memory_clock_mhz=3201, power_w=300.0),
)
COUNTERS = {"registers_per_thread": 32.0, "instructions": 1e6, "sm_throughput": 60.0, "dram__bytes.sum": 5.0}
KERNEL = TracedKernel(name="k", calls=3, total_us=3.0, mean_us=1.0, share_pct=60.0, waves=0.5)
MEASURED = Measurement(
    correctness=Correctness(passed=True, max_abs_diff=1e-6, rtol=1e-3, atol=1e-5, elements=4, mismatched=1),
    timing=TIMING,
    profile=Profile(
        kernels=(KernelProfile(name="k", grid=(8, 1, 1), block=(128, 1, 1), metrics={**COUNTERS}),),
        combined={**COUNTERS},
    ),
    trace=Trace(
        kernels=(KERNEL,),
        launches=3,
        host_launches=3,
        span_us=8.0,
        busy_us=5.0,
        gpu_time_us=5.0,
        gpu_busy_pct=62.5,
        launch_gap_us=1.0,
        copies=2,
        copy_us=2.0,
        class_shares_pct={"other": 60.0, "data_movement": 40.0},
    ),
    call=Fingerprint(mode="hot", bytes=8),
    settlement=Settlement(
        how="in turn",
        against=AgainstTiming(
            ref="main",
            commit="c0ffee1",
            mode="hot",
            log_ratios=(0.01, 0.02, 0.015),
            raw_log_ratios=(0.01, 0.02, 0.012),
            new_first=(False, True, False),
            old_us=5.2,
            new_us=5.3,
            old_mhz=1500.0,
            new_mhz=1500.0,
        ),
    ),
)
KNOWN = run(record(main=MEASURED), id="20261119-173012-3f9a", started_at="2026-11-19T17:30:12Z")
NEW = run(record(main=MEASURED))
