"""Replay histories commit by commit, as CI does, and compare the alerts with the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from benchmarks.history_power.rules import Reported, Rule
    from benchmarks.history_power.series import Series

TOLERANCE = 3
"""Commits by which two alerts, or an alert and the truth, may differ and still mean the same change."""


class Replayed(NamedTuple):
    """Alerts on one history."""

    series: Series
    false: int
    """Number of alerts, in either direction, that belong to no planted change."""
    delay: int
    """Number of sessions of changed code when the change was found; 0 if it never was."""
    covered: bool | None
    """True if the range at the end of the history has the whole change; None if nothing is reported there."""
    width: int = 0
    """Number of commits in that range."""


def replay(series: Series, rule: Rule) -> Replayed:
    """Apply a rule to each prefix of a history.

    An alert finds the change if it is `slower` and its commit range is that of the change, give or take three
    commits. Another one counts as false, unless it repeats an earlier one. An alert that was there before the
    change counts when the change comes, which favours rules with false alerts.
    """
    false: list[Reported] = []
    delay = 0
    reported: list[Reported] = []
    for count in range(1, len(series.points) + 1):
        reported = rule(series.points[:count])
        for alert in reported:
            if series.first >= 0 and _alike((alert.before, alert.after), (series.first - 1, series.last)):
                if alert.slower and not delay and count > series.first:
                    delay = count - series.first
            elif not any(_alike((alert.before, alert.after), (old.before, old.after)) for old in false):
                false.append(alert)
    own = [
        alert
        for alert in reported
        if series.first >= 0 and _alike((alert.before, alert.after), (series.first - 1, series.last))
    ]
    return Replayed(
        series,
        false=len(false),
        delay=delay,
        covered=any(alert.before < series.first and alert.after >= series.last for alert in own)
        if own
        else None,
        width=min((alert.after - alert.before for alert in own), default=0),
    )


def _alike(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return True if two commit ranges overlap or are at most `TOLERANCE` apart."""
    return one[0] < other[1] + TOLERANCE and other[0] < one[1] + TOLERANCE
