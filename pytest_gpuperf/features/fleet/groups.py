"""Groups of tests, which one process runs on one GPU, and the order in which they go to workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from pytest_gpuperf.session.expected_durations import expected_durations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_gpuperf.features.fleet.messages import Test

GROUPS_PER_GPU = 4
"""Groups that each GPU gets on average: more balance better, and each starts a process."""
LEAST_S = 30.0
"""Shortest duration of a group, in seconds, as long as there are more tests in the file."""
MOST_S = 600.0
"""Longest duration of a group of several tests, in seconds: a lost worker loses at most that."""
MOST_TESTS = 500
"""Maximum number of tests of a group, whose names fit on a command line."""
LOST_GROUPS = 2
"""Workers lost with a group before each of its tests runs alone."""
LOST_TESTS = 3
"""Workers lost with a test that runs alone before it is not tried again."""


@dataclass(frozen=True)
class TestGroup:
    """Tests of one file that one process runs."""

    model: str
    """Model of the GPU."""
    tests: tuple[str, ...]
    gpus: int
    """Number of GPUs that it needs on one host."""
    seconds: float
    """Expected duration, without the start of the process."""
    lost_on: tuple[str, ...] = ()
    """Workers that were lost while they ran it."""


def make_groups(
    model: str, tests: Sequence[Test], durations: Mapping[str, float], gpus: int, most_gpus: int
) -> list[TestGroup]:
    """Divide tests into groups, each of tests of one file in their order.

    Args:
        model: Model of the GPUs.
        tests: The tests in pytest's order.
        durations: Expected duration of tests by node id, in seconds; it may lack some.
        gpus: Number of GPUs of the fleet.
        most_gpus: Number of GPUs of the largest host; a test that needs more gets all of them, and skips.
    """
    seconds = expected_durations((test.nodeid for test in tests), durations)
    wanted_s = sum(seconds.values()) / max(1, gpus * GROUPS_PER_GPU)
    limit_s = min(max(wanted_s, LEAST_S), MOST_S)
    groups: list[TestGroup] = []
    for (_, needed), same in groupby(tests, key=lambda test: (test.nodeid.partition("::")[0], test.gpus)):
        part: list[str] = []
        for nodeid in (test.nodeid for test in same):
            full = sum(map(seconds.__getitem__, part)) + seconds[nodeid] > limit_s
            if part and (full or len(part) == MOST_TESTS):
                groups.append(_group(model, part, min(needed, most_gpus), seconds))
                part = []
            part.append(nodeid)
        groups.append(_group(model, part, min(needed, most_gpus), seconds))
    return groups


def _group(model: str, part: Sequence[str], gpus: int, seconds: Mapping[str, float]) -> TestGroup:
    return TestGroup(model, tuple(part), gpus, sum(map(seconds.__getitem__, part)))


class GroupQueue:
    """Groups that wait for a GPU, the longest first; before them those that need several GPUs at once.

    Args:
        groups: The groups.
    """

    def __init__(self, groups: Iterable[TestGroup]) -> None:
        self._groups: list[TestGroup] = []
        self.add(groups)

    def add(self, groups: Iterable[TestGroup]) -> None:
        """Add groups."""
        self._groups += groups
        self._groups.sort(key=lambda group: (group.gpus, group.seconds))

    def __iter__(self) -> Iterator[TestGroup]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def take(self, free: Mapping[str, Mapping[str, int]]) -> tuple[TestGroup, str] | None:
        """Take the next group for which a worker has free GPUs.

        A host that has few free GPUs comes first, so that whole hosts stay free for tests on several GPUs. A
        group whose worker was lost goes elsewhere if it can.

        Args:
            free: Number of free GPUs by worker and model.

        Returns:
            The group and its worker; None if none can start now.
        """
        tried: set[tuple[str, int]] = set()
        for index in reversed(range(len(self._groups))):
            group = self._groups[index]
            if (group.model, group.gpus) in tried:
                continue
            able = [name for name, gpus in free.items() if gpus.get(group.model, 0) >= group.gpus]
            if able:
                worker = min(able, key=lambda name: (name in group.lost_on, free[name][group.model], name))
                return self._groups.pop(index), worker
            tried.add((group.model, group.gpus))
        return None

    def put_back(self, group: TestGroup, worker: str) -> bool:
        """Run a group of a lost worker again: first all of it, then each test alone.

        Returns:
            False if its only test has lost too many workers: it is not tried again.
        """
        lost_on = (*group.lost_on, worker)
        if len(group.tests) == 1:
            if len(lost_on) >= LOST_TESTS:
                return False
            self.add([replace(group, lost_on=lost_on)])
        elif len(lost_on) < LOST_GROUPS:
            self.add([replace(group, lost_on=lost_on)])
        else:
            share_s = group.seconds / len(group.tests)
            self.add(replace(group, tests=(nodeid,), seconds=share_s, lost_on=()) for nodeid in group.tests)
        return True
