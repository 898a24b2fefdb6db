"""Spread tests over workers with a GPU each, so that all end at about the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.session.expected_durations import expected_durations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DETOUR = 0.1
"""A test goes to the card of its baseline if that is busy for at most this part of an equal share longer."""


def spread(
    nodeids: Sequence[str], seconds: Mapping[str, float], homes: Mapping[str, str], cards: Sequence[str]
) -> list[list[str]]:
    """Return the tests of each worker, in the order of `nodeids`.

    The longest test comes first, and goes to the worker that has least to do (longest processing time first:
    R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: at most 4/3 of the shortest time).

    Args:
        nodeids: The tests.
        seconds: The durations that are known.
        homes: UUID of the card with which the baseline of a test was measured.
        cards: UUID of each worker's GPU; empty if it is not known.
    """
    times = expected_durations(nodeids, seconds)
    slack = DETOUR * sum(times.values()) / len(cards)
    busy = [0.0] * len(cards)
    place: dict[str, int] = {}
    # Not in the order of `nodeids`: the shards of a run may each have another one.
    for nodeid in sorted(nodeids, key=lambda nodeid: (-times[nodeid], nodeid)):
        worker = busy.index(min(busy))
        home = homes.get(nodeid)
        if home and home in cards and busy[cards.index(home)] <= busy[worker] + slack:
            worker = cards.index(home)
        place[nodeid] = worker
        busy[worker] += times[nodeid]
    parts: list[list[str]] = [[] for _ in cards]
    for nodeid in nodeids:
        parts[place[nodeid]].append(nodeid)
    return parts
