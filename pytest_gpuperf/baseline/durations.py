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


def load_durations(store: BaselineStore, slug: str) -> dict[str, float]:
    """Return the duration of each test that has one in its baseline, in seconds, by node id.

    Args:
        store: The baselines.
        slug: The model of GPU.

    Raises:
        GpuperfError: A baseline file is broken, of a newer schema, or for another GPU.
    """
    baselines = (store.load(slug, suite) for suite in store.suites(slug))
    tests = (item for baseline in baselines if baseline is not None for item in baseline.tests.items())
    return {nodeid: test.seconds for nodeid, test in tests if test.seconds}


def load_cards(store: BaselineStore, slug: str) -> dict[str, str]:
    """Return the UUID of the card of each test's newest session, by node id.

    Args:
        store: The baselines.
        slug: The model of GPU.

    Raises:
        GpuperfError: A baseline file is broken, of a newer schema, or for another GPU.
    """
    found: dict[str, str] = {}
    for suite in store.suites(slug):
        if (baseline := store.load(slug, suite)) is not None:
            for nodeid, test in baseline.tests.items():
                times = [one.time for one in test.measurements.values() if one.time is not None]
                if times and (card := card_of(times[0].sessions[-1], baseline.runs)):
                    found[nodeid] = card
    return found


def expected_durations(nodeids: Iterable[str], known: Mapping[str, float]) -> dict[str, float]:
    """Return the duration of each test, in seconds; the median of the known ones for a new test."""
    usual = median(known.values()) if known else UNKNOWN_S
    return {nodeid: known.get(nodeid, usual) for nodeid in nodeids}
