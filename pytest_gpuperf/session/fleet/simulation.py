"""The expected time of a fleet, by the durations in the baselines."""

from __future__ import annotations

import heapq
from itertools import cycle, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_gpuperf.session.fleet.groups import make_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.session.fleet.messages import Test

Limit = Literal["tests", "starts", "longest group", "scheduler"]


class Costs(NamedTuple):
    """Time that is not that of tests."""

    start_s: float
    """From the start of a process to its first test."""
    group_ms: float
    """Of the scheduler and the command for each group; they handle one group after the other."""
    test_ms: float
    """As `group_ms`, for each test."""


class Plan(NamedTuple):
    """A simulated fleet."""

    gpus: int
    tests: int
    groups: int
    test_s: float
    """Sum of the durations of the tests."""
    seconds: float
    utilisation_pct: float
    """Share of the GPUs' time in which tests run."""
    limit: Limit
    """The largest lower bound of the time: the tests or the starts of processes divided by the GPUs, the
    longest group, or the scheduler."""


def repeated(tests: Sequence[Test], count: int) -> list[Test]:
    """Return as many tests as asked for; the known ones come again under other file names.

    Args:
        tests: At least one test.
        count: Number of tests.
    """
    copies = ((test, number // len(tests)) for number, test in enumerate(islice(cycle(tests), count)))
    return [type(test)(f"{copy}/{test.nodeid}" if copy else test.nodeid, test.gpus) for test, copy in copies]


def simulate(tests: Sequence[Test], durations: Mapping[str, float], gpus: int, costs: Costs) -> Plan:
    """Hand out groups to GPUs as a fleet does, the longest first.

    Args:
        tests: At least one test.
        durations: Durations by node id, in seconds; the copies of a test last as long.
        gpus: Number of GPUs, of one model.
        costs: The other costs.
    """
    own = {test.nodeid: _known(test.nodeid, durations) for test in tests}
    known = {nodeid: seconds for nodeid, seconds in own.items() if seconds}
    groups = make_groups("", tests, known, gpus, gpus)
    free = [0.0] * gpus
    handled_s = end_s = 0.0
    dispatch_s = [(costs.group_ms + costs.test_ms * len(group.tests)) / 1000 for group in groups]
    for group, own_s in sorted(zip(groups, dispatch_s, strict=True), key=lambda pair: -pair[0].seconds):
        handled_s = max(handled_s, heapq.heappop(free)) + own_s
        ended_s = handled_s + costs.start_s + group.seconds
        heapq.heappush(free, ended_s)
        end_s = max(end_s, ended_s)
    test_s = sum(group.seconds for group in groups)
    bounds: dict[Limit, float] = {
        "tests": test_s / gpus,
        "starts": len(groups) * costs.start_s / gpus,
        "longest group": costs.start_s + max(group.seconds for group in groups),
        "scheduler": sum(dispatch_s),
    }
    limit = max(bounds, key=lambda name: bounds[name])
    utilisation_pct = 100 * test_s / (gpus * end_s) if end_s else 0.0
    return Plan(gpus, len(tests), len(groups), test_s, end_s, utilisation_pct, limit)


def _known(nodeid: str, durations: Mapping[str, float]) -> float:
    copy, _, rest = nodeid.partition("/")
    return durations.get(nodeid) or (durations.get(rest, 0.0) if copy.isdecimal() else 0.0)
