"""The values of a measurement by name, and the change of one that two measurements share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.features.compare.value_change import change_of
from pytest_gpuperf.judge.counters import is_read_alike
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records.value_names import VALUES, is_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import Measurement, MetricValue
    from pytest_gpuperf.records.change import Change

MODE = "mode"
"""Name of the row with the timing mode."""
_TIMES = tuple(name for name in VALUES if is_of(name, "timing"))


def values_of(measurement: Measurement) -> dict[str, MetricValue]:
    """Return times, errors, trace values and counters by the names that limits use, and `mode`."""
    values: dict[str, MetricValue] = {}
    timing, profile = measurement.timing, measurement.profile
    if timing is not None:
        values[MODE] = timing.mode
        values |= {name: value for name in _TIMES if (value := getattr(timing, name)) is not None}
    accuracy = measurement.accuracy
    if accuracy is not None:
        values |= accuracy.values
    values |= trace_values(measurement)
    if profile is not None and not profile.unavailable:
        # One kernel has values that have no combination for several kernels.
        values |= profile.kernels[0].metrics if len(profile.kernels) == 1 else {}
        values |= profile.combined
    return values


def trace_values(measurement: Measurement) -> Mapping[str, float]:
    """Return the values that `gpuperf.trace` recorded, such as `launches` and `gpu_busy`."""
    return {} if measurement.trace is None else measurement.trace.values


def unit_of(name: str) -> str:
    """Return the unit of a value, such as `us` and `%`; empty for pure numbers, words and raw ncu names."""
    metric = METRICS.get(name)
    if metric is not None:
        return metric.unit
    return VALUES[name].unit if name in VALUES else ""


def why_not_compared(name: str, old: Measurement, new: Measurement) -> str:
    """Return the reason why two values are different quantities; empty if they are the same quantity.

    Times of different modes are different quantities. So are counters that depend on the GPU's state, if
    other tools read them or if the caches were in another state, and errors of other types.
    """
    if name in (*_TIMES, MODE):
        modes = [measured.timing.mode for measured in (old, new) if measured.timing]
        return "" if len(set(modes)) < 2 else f"{modes[0]} and {modes[1]} times"
    if is_of(name, "correctness"):
        kinds = [one.accuracy.kind for one in (old, new) if one.accuracy is not None]
        same = name == "same_bits" or len(set(kinds)) < 2
        return "" if same else f"errors of {kinds[0]} and of {kinds[1]}"
    if name in trace_values(new) or is_read_alike(name):
        return ""
    readers = [measured.profile.read_by for measured in (old, new) if measured.profile]
    return "" if len(set(readers)) < 2 else f"counters read by {readers[0]} and by {readers[1]}"


def change(name: str, old: Measurement, new: Measurement) -> Change | None:
    """Return the change of a value; None without a change, and if the two are different quantities.

    Times of both sides come from the same source if they have one in common.
    """
    before, after = _by_one_source(old, new) if name in _TIMES else (old, new)
    one, other = values_of(before).get(name), values_of(after).get(name)
    if one is None or other is None or one == other or why_not_compared(name, old, new):
        return None
    return change_of(name, one, other, VALUES[name].better if name in VALUES else None)


def other_sources(old: Measurement, new: Measurement) -> str:
    """Return `events and cupti` if two times of one mode have no source in common; otherwise empty."""
    before, after = (measured.timing for measured in _by_one_source(old, new))
    if before is None or after is None or before.mode != after.mode or before.source == after.source:
        return ""
    return f"{before.source} and {after.source}"


def _by_one_source(old: Measurement, new: Measurement) -> tuple[Measurement, Measurement]:

    if old.timing is None or new.timing is None or old.timing.source == new.timing.source:
        return old, new
    after = new.timing.by(old.timing.source)
    if after is not None:
        return old, replace(new, timing=after)
    before = old.timing.by(new.timing.source)
    return (old if before is None else replace(old, timing=before)), new
