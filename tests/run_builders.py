"""Small records for tests of baselines, verdicts and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.judge.gate import Gate
from pytest_gpuperf.records import (
    RUN_SCHEMA,
    Correctness,
    Environment,
    GpuInfo,
    KernelProfile,
    Measurement,
    Profile,
    Run,
    TestRecord,
    Timing,
    TimingMode,
    Toolchain,
)
from pytest_gpuperf.records.baseline import Baseline, BaselineGpu, RunNote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import MetricValue
    from pytest_gpuperf.records.baseline import TestBaseline

NODEID = "suites/test_square.py::test_triton[1823x781]"
BUSY = {"sm_throughput": 30.0, "memory_throughput": 40.0, "waves": 8.0, "duration_us": 50.0}
"""Counters of a latency-bound kernel with enough blocks."""
H200 = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", uuid="GPU-1")


def timing(time_us: float = 5.3, mode: TimingMode = "hot", bytes: int = 0, flops: int = 0) -> Timing:
    return Timing(
        mode=mode,
        time_us=time_us,
        spread_pct=0.1,
        blocks_us=(time_us,),
        calls_per_block=10,
        bytes=bytes,
        flops=flops,
    )


def profile(combined: Mapping[str, MetricValue], *kernels: str, unavailable: str = "") -> Profile:
    return Profile(
        kernels=tuple(KernelProfile(name=name) for name in kernels or ("square_kernel",)),
        combined=dict(combined),
        unavailable=unavailable,
    )


def launches(*metrics: Mapping[str, MetricValue]) -> list[KernelProfile]:
    return [KernelProfile(name="kernel", metrics=dict(row)) for row in metrics]


def measured(
    time_us: float | None = 5.3,
    counters: Mapping[str, MetricValue] | None = None,
    *kernels: str,
    mode: TimingMode = "hot",
    correct: bool = True,
) -> Measurement:
    return Measurement(
        correctness=Correctness(passed=correct, failure="" if correct else "off by 3 at (0, 1)"),
        timing=None if time_us is None else timing(time_us, mode),
        profile=None if counters is None else profile(counters, *kernels),
    )


def queued(not_captured: str, time_us: float = 5.3) -> Measurement:
    timed = msgspec.structs.replace(timing(time_us, "queued"), not_captured=not_captured)
    return Measurement(timing=timed)


def record(nodeid: str = NODEID, failure: str = "", **measurements: Measurement) -> TestRecord:
    return TestRecord(nodeid=nodeid, measurements=measurements, failure=failure)


def run(
    *tests: TestRecord,
    id: str = "20261120-173012-3f9a",
    gpu: GpuInfo = H200,
    complete: bool = True,
    started_at: str = "2026-11-20T17:30:12+00:00",
) -> Run:
    return Run(
        schema=RUN_SCHEMA,
        id=id,
        started_at=started_at,
        environment=Environment(
            gpu=gpu, toolchain=Toolchain(gpuperf="0.1.0", triton="3.6"), commit="c0ffee1234", dirty=False
        ),
        complete=complete,
        tests=tests,
    )


def gate_of(tests: Mapping[str, TestBaseline], *, card: str = H200.uuid, comparisons: int = 1) -> Gate:
    """Return a gate with one baseline file and sessions of one card."""
    runs = {
        session.run: RunNote(gpu_uuid=H200.uuid)
        for test in tests.values()
        for measurement in test.measurements.values()
        if measurement.time is not None
        for session in measurement.time.sessions
    }
    baseline = Baseline(schema=1, gpu=BaselineGpu(slug=H200.slug), runs=runs, tests=dict(tests))
    return Gate([baseline], card=card, comparisons=comparisons)


def one_test(**kwargs: Any) -> Run:
    """Return a run of the test `NODEID`; `kwargs` are the arguments of `measured`."""
    return run(record(main=measured(**kwargs)))
