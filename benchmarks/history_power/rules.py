"""Rules that find changes in a history: this package's, and three in common use.

A rule takes a history up to its newest commit and returns the commit ranges that it would report.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.change_points import LEVEL, HistoryPoint, Noise, find_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Reported(NamedTuple):
    """Reported change."""

    before: int
    """Index of the last point of the old level."""
    after: int
    """Index of the first point of the new level."""
    slower: bool


Rule: TypeAlias = "Callable[[Sequence[HistoryPoint]], list[Reported]]"

_SHIPPED = Noise()
SENSITIVE_LEVEL = 0.01
"""Level at which this package, without indifference zone, is compared with a rule that has false alerts."""
OTAVA_WINDOW = 50
OTAVA_P = 0.001
ASV_THRESHOLD = 0.05
HUD_DAYS = 4
HUD_LEAST = 2


def ours(level: float = LEVEL, thresholds: Noise = _SHIPPED) -> Rule:
    """Return the rule of this package with a one-sided p-value."""

    def rule(points: Sequence[HistoryPoint]) -> list[Reported]:
        found = find_steps(points, thresholds, level=level)
        return [Reported(step.before, step.after, step.ratio > 1) for step in found]

    return rule


def otava(points: Sequence[HistoryPoint]) -> list[Reported]:
    """Return the change points by apache-otava with its default options."""
    from otava.analysis import compute_change_points

    times = [point.time for point in points]
    found, _ = compute_change_points(times, window_len=OTAVA_WINDOW, max_pvalue=OTAVA_P, min_magnitude=0.0)
    return [Reported(at.index - 1, at.index, bool(at.stats.mean_2 > at.stats.mean_1)) for at in found]


def asv(points: Sequence[HistoryPoint]) -> list[Reported]:
    """Return the regressions that `asv publish` lists by default: steps up by 5 % and more."""
    from asv.step_detect import detect_regressions, detect_steps

    _, _, found = detect_regressions(detect_steps([point.time for point in points]), ASV_THRESHOLD)
    return [Reported(before, after, True) for before, after, _, _ in found or ()]


def hud(limit: float) -> Rule:
    """Return the rule of the PyTorch HUD, with a point for each day.

    The speeds of the last four days are compared with the median of the four days before. The test is a
    regression if at least the last two are below it by `limit`. Source: `regression_utils.py` in
    pytorch/test-infra, where the limit is 5 to 35 %, depending on the suite.
    """

    def rule(points: Sequence[HistoryPoint]) -> list[Reported]:
        if len(points) < 2 * HUD_DAYS:
            return []
        speeds = [1 / point.time for point in points[-2 * HUD_DAYS :]]
        baseline = median(speeds[:HUD_DAYS])
        slow = 0
        while slow < HUD_DAYS and speeds[-1 - slow] < (1 - limit) * baseline:
            slow += 1
        after = len(points) - slow
        return [Reported(after - 1, after, True)] if slow >= HUD_LEAST else []

    return rule


SENSITIVE = f"gpuperf, p < {SENSITIVE_LEVEL:g}, no zone"
OURS, OTAVA, ASV, HUD, HUD_5 = "gpuperf", "apache-otava", "asv", "PyTorch HUD, 15 %", "PyTorch HUD, 5 %"
RULES: dict[str, Rule] = {
    OURS: ours(),
    SENSITIVE: ours(SENSITIVE_LEVEL, replace(_SHIPPED, indifference_pct=0.0)),
    OTAVA: otava,
    ASV: asv,
    HUD: hud(0.15),
    HUD_5: hud(0.05),
}


def versions() -> dict[str, str]:
    """Return the versions of the packages that have rules here.

    Raises:
        GpuperfError: One of them is not installed.
    """
    try:
        return {name: version(name) for name in (OTAVA, ASV)}
    except PackageNotFoundError as error:
        raise GpuperfError(
            f"{error.name} is not installed", next_step=f"type `pip install {OTAVA} {ASV}`"
        ) from None
