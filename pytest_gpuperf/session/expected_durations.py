"""Expected durations of tests, by their baselines."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from pytest_gpuperf.records.baseline import card_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gpuperf.baseline.store import BaselineStore

UNKNOWN_S = 5.0
"""Duration of a test, in seconds, if none is known."""


def load_durations(store: BaselineStore, *slugs: str) -> dict[str, float]:
    """Return the duration of each test on some GPUs, by default on all, in seconds, by node id."""
    tests = (one for slug in slugs or store.slugs() for one in store.tests(slug))
    return {nodeid: test.seconds for nodeid, test, _ in tests if test.seconds}


def load_cards(store: BaselineStore, slug: str) -> dict[str, str]:
    """Return the UUID of the card of each test's newest session, by node id."""
    found: dict[str, str] = {}
    for nodeid, test, runs in store.tests(slug):
        times = [one.time for one in test.measurements.values() if one.time is not None]
        if times and (card := card_of(times[0].sessions[-1], runs)):
            found[nodeid] = card
    return found


def expected_durations(nodeids: Iterable[str], known: Mapping[str, float]) -> dict[str, float]:
    """Return the duration of each test, in seconds; the median of the known ones for a new test."""
    usual = median(known.values()) if known else UNKNOWN_S
    return {nodeid: known.get(nodeid, usual) for nodeid in nodeids}
