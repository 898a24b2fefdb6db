"""Small records for tests of baselines, verdicts and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.judge.times import Origin
from pytest_gpuperf.records import (
    RUN_SCHEMA,
    AgainstTiming,
    ClockModel,
    Correctness,
    Environment,
    GpuInfo,
    KernelProfile,
    Measurement,
    Profile,
    Run,
    Settlement,
    TestRecord,
    Timing,
    TimingMode,
    Toolchain,
    Workload,
)
from pytest_gpuperf.records.baseline import RunNote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import MetricValue

NODEID = "suites/test_square.py::test_triton[1823x781]"
BUSY = {"sm_throughput": 30.0, "memory_throughput": 40.0, "waves": 8.0, "duration_us": 50.0}
"""Counters of a latency-bound kernel with enough blocks."""
MODEL = ClockModel(cycles=180_000, fixed_us=10, reference_mhz=2000)
"""100 µs at 2000 MHz, 90 % of it cycles."""
H200 = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", uuid="GPU-1")


def timing(time_us: float = 5.3, mode: TimingMode = "hot", bytes: int = 0, flops: int = 0) -> Timing:
    return Timing(
        mode=mode,
        time_us=time_us,
        spread_pct=0.1,
        blocks_us=(time_us,),
        blocks_mhz=(1980.0,),
        calls_per_block=10,
        work=Workload(bytes=bytes or None, flops=flops or None),
    )


def at_clock(mhz: float, slower: float = 1.0) -> Timing:
    """Return the time of a kernel of the model at a clock, times a factor."""
    time_us = slower * MODEL.time_us(mhz)
    return msgspec.structs.replace(
        timing(time_us), blocks_us=(time_us,) * 20, blocks_mhz=(mhz,) * 20, clock_model=MODEL
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


def origin_of(
    *sessions: str, card: str = H200.uuid, commit: str = "c0ffee1234", dirty: bool = False, **now: str
) -> Origin:
    """Return the origin of a time on `card` whose sessions are of one card; `now` are other versions."""
    before = Toolchain(gpuperf="0.1.0", triton="3.6", torch="2.11", driver="580")
    note = RunNote(gpu_uuid=H200.uuid, toolchain=before, commit=commit, dirty=dirty)
    runs = dict.fromkeys(sessions or ("r",), note)
    return Origin(card, msgspec.structs.replace(before, **now), runs)


def in_turn(measurement: Measurement, *log_ratios: float, sessions: tuple[str, ...] = ("r",)) -> Measurement:
    """Return a measurement that was settled by restarts with these ratios."""
    us = measurement.timing.time_us if measurement.timing is not None else 0.0
    pair = AgainstTiming(ref="c0ffee1", commit="c0ffee1234", log_ratios=log_ratios, old_us=us, new_us=us)
    settlement = Settlement(how="in turn", against=pair, sessions=sessions)
    return msgspec.structs.replace(measurement, settlement=settlement)


def one_test(**kwargs: Any) -> Run:
    """Return a run of the test `NODEID`; `kwargs` are the arguments of `measured`."""
    return run(record(main=measured(**kwargs)))
