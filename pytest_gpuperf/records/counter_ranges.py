"""Range of each counter, by its name."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_gpuperf.records.counters import WORDS, is_raw_name
from pytest_gpuperf.records.quantities import CLOCK, DURATION, MAX_BLOCK, REGISTERS, SHARED_MEMORY, Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records.counters import MetricValue

_PERCENT = Range(0, 1000, "%")
_SUM = Range(0, 1e21)
_RAW = Range(-1e30, 1e30)
_BLOCKS = Range(0, 1_000_000, "blocks", whole=True)
_BYTES = Range(0, 2**40, "bytes", whole=True)
_FACTS: Mapping[str, Range] = {
    "kernels": Range(1, 10**9, whole=True),
    "registers_per_thread": REGISTERS,
    "block_size": Range(1, MAX_BLOCK, "threads", whole=True),
    "grid_size": Range(1, 1e19, "blocks", whole=True),
    "cluster_size": _BLOCKS,
    "sm_count": Range(0, 10_000, whole=True),
    "blocks_per_sm": _BLOCKS,
    "theoretical_occupancy": Range(0, 100, "%"),
    "sm_clock_mhz": CLOCK,
    "duration_us": DURATION,
    "spills": _BYTES,
    "stack_bytes": _BYTES,
    "code_bytes": _BYTES,
    "widest_load_bits": Range(0, 4096, "bits", whole=True),
}
_PERCENT_STARTS = ("pipe.", "stall.", "sampled.")
_PERCENT_ENDS = ("_throughput", "_active", "_hit_rate", "_occupancy", "_pct")


@lru_cache(maxsize=4096)
def counter_range(name: str) -> Range:
    """Return the range of a counter, by its short or raw name."""
    if is_raw_name(name):
        return _PERCENT if "pct_of_peak" in name else _RAW
    if name in _FACTS:
        return _FACTS[name]
    if name.startswith(_PERCENT_STARTS) or name.endswith(_PERCENT_ENDS):
        return _PERCENT
    if name.startswith("shared_memory"):
        return SHARED_MEMORY
    return _BLOCKS if name.startswith("occupancy_limit.") else _SUM


@lru_cache(maxsize=4096)
def simple_bounds(name: str) -> tuple[float, float, bool]:
    """Return the smallest and largest value of a counter that need no more checks, and if it is whole.

    If more has to be checked, these are bounds that no number is in: large runs have millions of counters.
    """
    known = counter_range(name)
    if name in WORDS:
        return math.inf, -math.inf, False
    return known.low, known.high, known.whole


def impossible(name: str, value: MetricValue) -> str:
    """Return the expected value if that of a counter is impossible; empty if it is possible.

    A raw metric may be a word, such as `nan`.
    """
    if isinstance(value, str):
        return "" if name in WORDS or is_raw_name(name) else str(counter_range(name))
    if name in WORDS:
        return "a word"
    known = counter_range(name)
    return "" if known.holds(value) else str(known)
