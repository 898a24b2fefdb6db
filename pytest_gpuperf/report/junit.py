"""Properties of a test in the JUnit XML file: verdict, times and counters."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics import top_stall

if TYPE_CHECKING:
    from pytest_gpuperf.judge.result import TestResult

COUNTERS = (
    "sm_throughput",
    "memory_throughput",
    "dram_throughput",
    "achieved_occupancy",
    "theoretical_occupancy",
    "tensor_active",
    "registers_per_thread",
)
"""Counters to write, by short name, in the catalogue's units."""


TRACED = ("launches", "gpu_busy", "launch_gap", "copies", "synchronizations", "tensor_core_share")
"""Trace values to write, by the names of limits."""


def properties(result: TestResult) -> list[tuple[str, str]]:
    """Return names and values for pytest's `user_properties`, such as `("gpuperf.main.time_us", "5.3")`.

    Names are `gpuperf.<label>.<value>`; except for counters they contain the unit. Numbers have four digits.
    """
    written = [("gpuperf.verdict", result.status.value)]
    if result.replayed:
        written.append(("gpuperf.replayed", "true"))
    for label, measurement in result.record.measurements.items():
        values: dict[str, float | str | None] = {}
        if timing := measurement.timing:
            values |= {
                "time_us": timing.time_us,
                "spread_pct": timing.spread_pct,
                "mode": timing.mode,
                "gb_per_s": timing.gb_per_s,
                "tflop_per_s": timing.tflop_per_s,
            }
            if time := result.verdict.times.get(label):
                values |= {
                    "change_pct": time.decision.change_pct,
                    "change_low_pct": time.decision.low_pct,
                    "change_high_pct": time.decision.high_pct,
                }
        if measurement.correctness and (accuracy := measurement.correctness.accuracy):
            values |= accuracy.values
        if profile := measurement.profile:
            values |= {name: profile.combined.get(name) for name in COUNTERS}
            if top := top_stall(profile.combined):
                values |= {"top_stall": top[0].removeprefix("stall."), "top_stall_pct": top[1]}
        if trace := measurement.trace:
            values |= {name: trace.values.get(name) for name in TRACED}
        written += [
            (_named(label, name), value if isinstance(value, str) else f"{value:.4g}")
            for name, value in values.items()
            if value is not None
        ]
    return written


@lru_cache(maxsize=1024)
def _named(label: str, value: str) -> str:
    """Return one string for a name, which all tests of a large run share."""
    return f"gpuperf.{label}.{value}"
