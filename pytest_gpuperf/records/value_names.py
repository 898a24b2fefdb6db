"""The values of a measurement by the names that limits and comparisons use, except counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_gpuperf.records.trace import EXACT_OF_TRACE, KERNEL_CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping


class Value(NamedTuple):
    """One value."""

    part: Literal["timing", "correctness", "trace"]
    """Field of a `Measurement` that has it."""
    unit: str = ""
    better: Literal["higher", "lower"] | None = None
    of_process: bool = False
    """True if it differs between processes as times do."""


PEAK_MEMORY, COMPILE = "peak_memory_mb", "compile_s"
VALUES: Mapping[str, Value] = {
    "time_us": Value("timing", "us", "lower", of_process=True),
    "spread_pct": Value("timing", "%"),
    "gb_per_s": Value("timing", "GB/s", "higher", of_process=True),
    "tflop_per_s": Value("timing", "TFLOP/s", "higher", of_process=True),
    "dram_share": Value("timing", "%", of_process=True),
    "peak_share": Value("timing", "%", of_process=True),
    COMPILE: Value("timing", "s", "lower"),
    PEAK_MEMORY: Value("timing", "MB", "lower"),
    "bus_gb_per_s": Value("timing", "GB/s", "higher", of_process=True),
    "skew_us": Value("timing", "us", "lower"),
    "exposed_us": Value("timing", "us", "lower"),
    "max_ulp": Value("correctness", "ulp", "lower"),
    "rms_ulp": Value("correctness", "ulp", "lower"),
    "error_ratio": Value("correctness", "", "lower"),
    "same_bits": Value("correctness", "", "higher"),
    "launches": Value("trace", "", "lower"),
    "host_launches": Value("trace"),
    "copies": Value("trace", "", "lower"),
    "memsets": Value("trace"),
    "synchronizations": Value("trace", "", "lower"),
    "gpu_time_us": Value("trace", "us", "lower"),
    "span_us": Value("trace", "us", "lower"),
    "gpu_busy": Value("trace", "%", "higher"),
    "launch_gap": Value("trace", "us", "lower"),
    "tensor_core_share": Value("trace", "%"),
    **{f"class.{name}": Value("trace", "%") for name in KERNEL_CLASSES},
}
EXACT_VALUES = (*EXACT_OF_TRACE, PEAK_MEMORY)
"""Values that are the same in every run of the same code: baselines have them without tolerance."""


def is_of(name: str, part: Literal["timing", "correctness", "trace"]) -> bool:
    """Return True if a value is in this part of a measurement."""
    return name in VALUES and VALUES[name].part == part
