"""Verdict on one test, with the parts that a session adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_gpuperf.judge.result import Hints
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records import GpuInfo
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TestBaseline, TimeBaseline
from run_builders import origin_of

if TYPE_CHECKING:
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import MetricValue, TestRecord

H200 = GpuInfo(
    name="NVIDIA H200",
    slug="nvidia-h200",
    compute_capability="9.0",
    multiprocessors=132,
    l2_bytes=62_914_560,
    dram_gb_per_s=4814.304,
)
"""With the rate of 3201 MHz and 6016 bits."""
HINTS = Hints(
    accept="accept it with: gpuperf baseline accept", no_baseline="make one with: gpuperf baseline accept"
)


def baseline(
    time_us: float = 5.3, counters: dict[str, MetricValue] | None = None, **kwargs: Any
) -> TestBaseline:
    times = TimeBaseline(mode="hot", sessions=(Session(run="r", time_us=time_us),))
    known = MeasurementBaseline(time=times, counters=counters or {}, kernels=("square_kernel",))
    return TestBaseline(measurements={"main": known}, **kwargs)


def verdict(test: TestRecord, known: TestBaseline | None = None, **kwargs: Any) -> TestResult:
    origin = kwargs.pop("origin", None) or origin_of()
    tolerance_pct = kwargs.pop("tolerance_pct", 0.0)
    test = replace(test, limits=(*test.limits, *map(str, kwargs.pop("limits", ()))))
    measured = Expected(known, origin, tolerance_pct, HINTS, Path("baselines/h200/test_square.json"))
    return judge(test, measured, **kwargs)
