"""What a run of the benchmark has found, as its JSON file holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import results_file
from pytest_gpuperf.records import Environment, MetricValue, Record

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
REPEATS = 3
"""Readings of each call by each."""

LEAST_BYTES = {
    "square_torch": 2 * 8192 * 4096 * 4,
    "square_triton": 2 * 8192 * 4096 * 4,
    "square_small": 2 * 1823 * 781 * 4,
    "cast": 4096 * 4096 * (2 + 4),
    "transpose": 2 * 8192 * 4096 * 4,
    "gemm_bf16": 3 * 4096 * 4096 * 2,
    "gemm_triton": 3 * 4096 * 4096 * 2,
    "gemm_fp32": 3 * 2048 * 2048 * 4,
    "softmax": 2 * 8192 * 4096 * 4,
    "sum_rows": (8192 * 4096 + 8192) * 4,
    "layer_norm": (2 * 8192 * 4096 + 2 * 4096) * 4,
    "gather": 0,
    "entropy": 2 * 8192 * 4096 * 4,
}
"""The calls, with the bytes of their inputs and outputs, each once; 0 where those depend on the data."""


class Reading(Record, frozen=True, kw_only=True):
    """One kernel, profiled once."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: dict[str, MetricValue]


class Agreement(Record, frozen=True, kw_only=True):
    """One call."""

    cupti: tuple[Reading, ...] = ()
    cupti_seconds: tuple[float, ...] = ()
    """Wall-clock time of each lookup; the first of a session, of a kernel that is compiled and of another set
    of metrics has its set-up in it."""
    apart_seconds: tuple[float, ...] = ()
    """The same where CUPTI is let go of after each, and so attached anew by each."""
    one_pass_seconds: tuple[float, ...] = ()
    """The same as `cupti_seconds` with the preset `one-pass`, for which the first sets the profiler up."""
    one_pass_apart_seconds: tuple[float, ...] = ()
    """The same as `apart_seconds` with that preset."""
    ncu: tuple[Reading, ...] = ()
    nsight_python: Reading | None = None
    """Means of as many readings, as it gives them; None where it gave none."""
    failure: str = ""
    """Why CUPTI has not read it; empty where it has."""


class Results(Record, frozen=True, kw_only=True):
    """All of a run."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    calls: dict[str, Agreement]
    ncu_seconds: float | None = None
    """Wall-clock time of the process under ncu and of reading its report; None where it was not taken."""
    plain_seconds: float | None = None
    """That of the same process without ncu; None where it was not taken."""
    nsight_python: str = ""
    """Its version; empty where it is not installed."""
    nsight_python_seconds: float | None = None
    """Wall-clock time until it has its data frame; None where it was not taken."""
    nsight_python_failure: str = ""
    """What it said last where it failed."""


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)
