"""All pictures of one measurement of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.roofline_picture import roofline
from pytest_gpuperf.features.page.time_pictures import blocks, sessions
from pytest_gpuperf.records.run import STATIC_SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.features.page.picture import Picture
    from pytest_gpuperf.judge.result import TimeComparison
    from pytest_gpuperf.records import Measurement, MetricValue, Profile
    from pytest_gpuperf.records.baseline import MeasurementBaseline, RunNote


def pictures_of(
    measurement: Measurement,
    *,
    baseline: MeasurementBaseline | None,
    runs: Mapping[str, RunNote],
    comparison: TimeComparison | None,
) -> list[Picture]:
    """Return the pictures of a measurement, without those whose values were not measured.

    Args:
        measurement: The measured values.
        baseline: The expected values.
        runs: Origins of the sessions in the baseline, by run id.
        comparison: The judged time.
    """
    profile, timing = measurement.profile, measurement.timing
    found: list[Picture | None] = []
    if baseline is not None and baseline.time is not None:
        by_sessions = comparison if comparison is not None and comparison.how != "in turn" else None
        found.append(sessions(baseline.time, runs, by_sessions))
    if timing is not None and len(timing.blocks_us) > 1:
        found.append(blocks(timing))
    if profile is not None and profile.combined:
        found.append(roofline(profile.combined, _before(profile, baseline)))
    return [picture for picture in found if picture is not None]


def _before(profile: Profile, baseline: MeasurementBaseline | None) -> Mapping[str, MetricValue]:
    """Return the counters of the baseline if they were read in the same way."""
    if baseline is None or (baseline.counters_by != profile.read_by and profile.source != STATIC_SOURCE):
        return {}
    return baseline.counters
