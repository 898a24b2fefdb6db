"""Range of counts of work between sessions of the same code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.baseline.rounding import round_counter
from pytest_gpuperf.judge.counters import chosen_otherwise, distinct_kernels, is_near_exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.records import MetricValue, Profile
    from pytest_gpuperf.records.baseline import MeasurementBaseline


def read_alike(one: Profile, other: Profile) -> bool:
    """Return True if counters are of the same kernels and launches, read in the same way."""
    first, second = (
        (profile.read_by, profile.launches, profile.regex, distinct_kernels(profile))
        for profile in (one, other)
    )
    return first == second


def stored_alike(profile: Profile, known: MeasurementBaseline) -> bool:
    """Return True if counters are of the same kernels and launches as those of a baseline."""
    return (
        profile.read_by == known.counters_by
        and distinct_kernels(profile) == known.kernels
        and not chosen_otherwise(profile, known)
    )


def sessions_and_range(
    names: Iterable[str], readings: Sequence[Profile], known: MeasurementBaseline | None, *, again: bool
) -> dict[str, Any]:
    """Return the number of sessions that have read the counters, and the range of each count.

    Sessions may have read different counters: the number is that of the counter with the fewest. Values are
    compared as a file rounds them, because stored ones are rounded.

    Args:
        names: The counters of the new baseline.
        readings: The counters of the new sessions, at least one, all read in the same way.
        known: The stored values if they are of the same code and read in the same way; else None.
        again: True if one of the new sessions may be stored already; then none is counted twice.

    Returns:
        Parts of the JSON object of a measurement; None for parts to remove.
    """
    ranges = {}
    sessions = []
    for name in filter(is_near_exact, names):
        seen = _rounded(name, [profile.combined[name] for profile in readings if name in profile.combined])
        new, old = len(seen), 0
        if known is not None and name in known.counters:
            seen += _rounded(name, [known.counters[name], *known.counters_range.get(name, ())])
            old = known.counters_sessions
        sessions.append(max(new, old) if again else new + old)
        if len(set(seen)) > 1:
            ranges[name] = [min(seen), max(seen)]
    fewest = min(sessions, default=1)
    return {"counters_sessions": fewest if fewest > 1 else None, "counters_range": ranges or None}


def _rounded(name: str, values: Iterable[MetricValue]) -> list[float]:
    rounded = [
        round_counter(name, value) for value in values if isinstance(value, str) or math.isfinite(value)
    ]
    return [value for value in rounded if not isinstance(value, str)]
