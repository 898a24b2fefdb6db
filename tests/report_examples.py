"""Hand-made results for the reports."""

from __future__ import annotations

from pytest_gpuperf.judge.result import Finding, Status, TestResult, TimeComparison
from pytest_gpuperf.records import (
    Conditions,
    Environment,
    GpuInfo,
    KernelProfile,
    Measurement,
    MetricValue,
    Profile,
    Run,
    TestRecord,
    Timing,
    Toolchain,
    WarmUp,
    Workload,
)
from pytest_gpuperf.statistics.decision import Decision, Outcome

ENVIRONMENT = Environment(
    gpu=GpuInfo(name="NVIDIA H200", slug="nvidia-h200"),
    toolchain=Toolchain(driver="580.95.05", torch="2.11.0+cu128", triton="3.6.0", ncu="2025.3.1.0"),
    commit="abc1234def",
)
RECORDED = Run(schema=1, id="r", started_at="2026-11-20T10:00:00Z", environment=ENVIRONMENT)
METRICS: dict[str, MetricValue] = {
    "duration_us": 5.1,
    "sm_throughput": 31.2,
    "memory_throughput": 78.4,
    "achieved_occupancy": 77.1,
    "theoretical_occupancy": 100.0,
    "registers_per_thread": 32.0,
    "waves": 1.7,
    "stall.long_scoreboard": 62.0,
    "stall.wait": 10.0,
}


def timing(
    time_us: float = 5.3,
    *,
    spread_pct: float = 0.4,
    bytes: int = 0,
    flops: int = 0,
    steady: bool = True,
    conditions: Conditions | None = None,
) -> Timing:
    return Timing(
        mode="hot",
        time_us=time_us,
        spread_pct=spread_pct,
        blocks_us=(time_us,),
        calls_per_block=10,
        work=Workload(bytes=bytes or None, flops=flops or None),
        warm_up=WarmUp(seconds=0.1, launches=10, steady=steady),
        conditions=conditions,
    )


def profile(*kernels: str, metrics: dict[str, MetricValue] | None = None, unavailable: str = "") -> Profile:
    values = METRICS if metrics is None else metrics
    return Profile(
        kernels=tuple(KernelProfile(name=name, metrics=values) for name in kernels),
        combined=values,
        unavailable=unavailable,
    )


def compared(change_pct: float) -> TimeComparison:
    decision = Decision(
        outcome=Outcome.PASS,
        change_pct=change_pct,
        low_pct=change_pct - 0.5,
        high_pct=change_pct + 0.5,
        replicates=5,
    )
    return TimeComparison(decision, actual_us=5.3, baseline_us=5.3)


def result(
    nodeid: str = "suites/test_square.py::test_square",
    status: Status = Status.PASS,
    *,
    measurements: dict[str, Measurement] | None = None,
    change_pct: float | None = 0.3,
    line: str = "",
    replayed: bool = False,
) -> TestResult:
    if measurements is None:
        measurements = {"main": Measurement(timing=timing(), profile=profile("square_kernel"))}
    times = {} if change_pct is None else dict.fromkeys(measurements, compared(change_pct))
    findings = (Finding(status, line, "main"),) if line else ()
    record = TestRecord(nodeid=nodeid, measurements=measurements)
    return TestResult(record, status, findings, times, replayed=replayed)
