"""All that a measurement says by name, what of it can be compared, and how it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.judge.compare import is_exact
from pytest_gpuperf.judge.limits import TIME_UNITS
from pytest_gpuperf.measure.ncu.comparison import change_of
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records.trace import TRACE_UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.metrics.metric import Better
    from pytest_gpuperf.records import Measurement, MetricValue
    from pytest_gpuperf.records.change import Change

MODE = "mode"
"""The row that says how times were taken."""
_TIMES = (*TIME_UNITS, MODE)
_BETTER: Mapping[str, Better] = {
    "time_us": "lower",
    "gb_per_s": "higher",
    "tflop_per_s": "higher",
    "gpu_time_us": "lower",
    "span_us": "lower",
    "launches": "lower",
    "copies": "lower",
    "synchronizations": "lower",
    "launch_gap": "lower",
    "gpu_busy": "higher",
}
"""Of what the catalogue of counters does not have."""


def values_of(measurement: Measurement) -> dict[str, MetricValue]:
    """Times, figures of the trace and counters, by the names that limits have for them, and `mode`."""
    values: dict[str, MetricValue] = {}
    timing, profile = measurement.timing, measurement.profile
    if timing is not None:
        values[MODE] = timing.mode
        values |= {name: value for name in TIME_UNITS if (value := getattr(timing, name)) is not None}
    values |= trace_figures(measurement)
    if profile is not None and not profile.unavailable:
        # What a row of several kernels has no common value of, one kernel has.
        values |= profile.kernels[0].metrics if len(profile.kernels) == 1 else {}
        values |= profile.combined
    return values


def trace_figures(measurement: Measurement) -> Mapping[str, float]:
    """The figures of what `gpuperf.trace` recorded, by name, such as `launches` and `gpu_busy`."""
    return {} if measurement.trace is None else measurement.trace.figures


def unit_of(name: str) -> str:
    """The unit of a value, `us` and `%` among them; empty for a pure number, a word and raw ncu names."""
    metric = METRICS.get(name)
    if metric is not None:
        return metric.unit
    return TIME_UNITS.get(name, TRACE_UNITS.get(name, ""))


def why_not_compared(name: str, old: Measurement, new: Measurement) -> str:
    """Why the values of two measurements are different quantities; empty where they are the same.

    Times of different modes are, and so are counters that depend on the GPU's state and were read by other
    tools, or with other caches.
    """
    if name in _TIMES:
        modes = [measured.timing.mode for measured in (old, new) if measured.timing]
        return "" if len(set(modes)) < 2 else f"{modes[0]} and {modes[1]} times"
    if name in trace_figures(new) or is_exact(name):
        return ""
    readers = [measured.profile.read_by for measured in (old, new) if measured.profile]
    return "" if len(set(readers)) < 2 else f"counters read by {readers[0]} and by {readers[1]}"


def change(name: str, old: Measurement, new: Measurement) -> Change | None:
    """How a value that both have changed; None where it did not, or the two are different quantities.

    Times come from one instrument on both sides where both have one in common.
    """
    before, after = _by_one_instrument(old, new) if name in TIME_UNITS else (old, new)
    one, other = values_of(before).get(name), values_of(after).get(name)
    if one is None or other is None or one == other or why_not_compared(name, old, new):
        return None
    return change_of(name, one, other, _BETTER.get(name))


def other_instrument(old: Measurement, new: Measurement) -> str:
    """`events and cupti` where two times of one mode have no instrument in common; else empty."""
    before, after = (measured.timing for measured in _by_one_instrument(old, new))
    if before is None or after is None or before.mode != after.mode or before.figure == after.figure:
        return ""
    return f"{before.figure} and {after.figure}"


def _by_one_instrument(old: Measurement, new: Measurement) -> tuple[Measurement, Measurement]:
    from msgspec.structs import replace

    if old.timing is None or new.timing is None or old.timing.figure == new.timing.figure:
        return old, new
    after = new.timing.by(old.timing.figure)
    if after is not None:
        return old, replace(new, timing=after)
    before = old.timing.by(new.timing.figure)
    return (old if before is None else replace(old, timing=before)), new
