"""Results of the benchmark, as in its JSON file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import results_file
from pytest_gpuperf.records import Environment, MetricValue, Record

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
REPEATS = 5
"""Readings of each call by each tool."""

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
"""Calls with the bytes of their inputs and outputs, each once; 0 if these depend on the data."""


class Reading(Record, frozen=True, kw_only=True):
    """One kernel, profiled once."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: dict[str, MetricValue]


class Agreement(Record, frozen=True, kw_only=True):
    """Readings of one call by all tools."""

    cupti: tuple[Reading, ...] = ()
    cupti_seconds: tuple[float, ...] = ()
    """Wall-clock time of each lookup. The first of a session, of a compiled kernel and of another set of
    metrics includes its set-up."""
    apart_seconds: tuple[float, ...] = ()
    """The same with CUPTI detached after each lookup, and attached again by the next."""
    one_pass_seconds: tuple[float, ...] = ()
    """The same as `cupti_seconds` with the preset `one-pass`; the first includes its set-up."""
    one_pass_apart_seconds: tuple[float, ...] = ()
    """The same as `apart_seconds` with that preset."""
    ncu: tuple[Reading, ...] = ()
    nsight_python: Reading | None = None
    """Means of as many readings; None if there are none."""
    failure: str = ""
    """Reason why CUPTI did not read the call; empty if it did."""


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the benchmark."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    calls: dict[str, Agreement]
    ncu_seconds: float | None = None
    """Wall-clock time of the process under ncu and of reading its report; None if not measured."""
    plain_seconds: float | None = None
    """Wall-clock time of the same process without ncu; None if not measured."""
    nsight_python: str = ""
    """Version of nsight-python; empty if not installed."""
    nsight_python_seconds: float | None = None
    """Wall-clock time until its data frame exists; None if not measured."""
    nsight_python_failure: str = ""
    """Last line that it wrote, if it failed."""


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)
