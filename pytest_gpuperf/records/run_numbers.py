"""Check of the numbers in a run file: one that was edited or damaged is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.counters import WORDS, is_raw_name
from pytest_gpuperf.statistics.clock_model import normalise_blocks
from pytest_gpuperf.statistics.estimate import trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_gpuperf.records import MetricValue, TestRecord, Timing


def check_numbers(test: TestRecord, shown: str) -> None:
    """Refuse numbers that verdicts and baselines cannot calculate with.

    Args:
        test: The record of one test.
        shown: Name of the file in an error.

    Raises:
        GpuperfError: A number is not finite or is below 0, or a time is not above 0 at its SM clock or at
            that of its model.
    """
    timings = [measured.timing for measured in test.measurements.values() if measured.timing is not None]
    for timing in timings:
        if not 0 < timing.time_us < math.inf:
            raise GpuperfError(
                f"{shown} has a time of {timing.time_us} µs for {test.nodeid}", expected="a time above 0"
            )
        # A cold block can be below 0: the time of its flushes is subtracted, and may be longer.
        if not all(map(math.isfinite, timing.blocks_us)):
            raise GpuperfError(
                f"{shown} has {timing.blocks_us} as blocks_us of {test.nodeid}", expected="times"
            )
    for name, value in _numbers(test):
        if isinstance(value, str) or not 0 <= value < math.inf:
            raise GpuperfError(
                f"{shown} has {value!r} as {name} of {test.nodeid}", expected="a number, 0 or above"
            )
    for timing in timings:
        _check_clocks(timing, test.nodeid, shown)


def _check_clocks(timing: Timing, nodeid: str, shown: str) -> None:
    """Refuse a time that cannot be brought to another clock."""
    model, clocks = timing.clock_model, timing.blocks_mhz if timing.sm_clock_mhz else ()
    # Without a model of its own, the model of the baseline is used.
    blocks = [timing.blocks_us]
    if model is not None:
        if model.reference_mhz == 0:
            raise GpuperfError(f"{shown} has 0 as reference_mhz of {nodeid}", expected="a clock above 0")
        for mhz in (model.reference_mhz, *clocks):
            if not 0 < model.time_us(mhz) < math.inf:
                raise GpuperfError(
                    f"{shown} has a clock_model by which {nodeid} takes {model.time_us(mhz)} µs at {mhz} MHz",
                    expected="a time above 0",
                )
        if clocks:
            blocks.append(tuple(normalise_blocks(timing.blocks_us, timing.blocks_mhz, model)))
    for mean_us in map(trimmed_mean, blocks if clocks else ()):
        if not 0 < mean_us < math.inf:
            raise GpuperfError(
                f"{shown} has blocks_us of {nodeid} with a 20 % trimmed mean of {mean_us} µs",
                expected="a time above 0",
            )


def _numbers(test: TestRecord) -> Iterator[tuple[str, MetricValue]]:
    yield "tolerance_pct", test.tolerance_pct
    for measurement in test.measurements.values():
        timing, profile = measurement.timing, measurement.profile
        parts = (timing.warm_up, timing.conditions, timing.clock_model) if timing else ()
        for record in (timing, measurement.warm_up, *parts):
            for name in record.__struct_fields__ if record is not None else ():
                value = getattr(record, name)
                if isinstance(value, (int, float)):
                    yield name, value
        if measurement.trace is not None:
            yield from measurement.trace.values.items()
        if profile is not None:
            for metrics in (profile.combined, *(kernel.metrics for kernel in profile.kernels)):
                yield from _counters(metrics)


def _counters(metrics: Mapping[str, MetricValue]) -> Iterator[tuple[str, MetricValue]]:
    """Yield the counters that must be numbers; a raw metric may be anything."""
    for name, value in metrics.items():
        if name not in WORDS and not is_raw_name(name):
            yield name, value
