"""Assign each report of a log to the test whose mark is the last before it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.features.sanitizer.markers import is_marker

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from pytest_gpuperf.records import SanitizerHit
    from pytest_gpuperf.records.passes import Event

_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Hits:
    """Errors of one test; equal errors are counted, and the first of them is kept."""

    def __init__(self) -> None:
        self.count = 0
        self._alike: dict[Hashable, SanitizerHit] = {}

    def add(self, label: str, hit: SanitizerHit) -> None:
        """Count an error of a call, or of work outside all calls."""
        # The text of a copy's error contains its address, the text of a race does not.
        key = (label, _ADDRESS.sub("", hit.kind), hit.kernel, hit.places)
        first = self._alike.get(key)
        self._alike[key] = replace(first, count=first.count + 1) if first else replace(hit, label=label)
        self.count += 1

    def first(self, number: int) -> tuple[SanitizerHit, ...]:
        """Return the first `number` errors that differ."""
        return tuple(self._alike.values())[:number]


@dataclass(frozen=True)
class HitsByTest:
    """Log of one process, divided among its tests."""

    hits: dict[str, Hits]
    """By node id; the empty id holds reports before the first mark."""
    settled: set[str]
    """Tests that the log holds from beginning to end."""
    blind: bool
    """True if the log has no mark: the tool does not see the process."""
    words: list[str]
    """Messages of the tool about itself."""


def assign(marks: Sequence[Event], entries: Iterable[SanitizerHit | str]) -> HitsByTest:
    """Give each report to the test of the last mark before it.

    If marks that were set are missing in the log, the reports between their neighbours belong to no test
    (except if only one test is possible), and the tests there are not settled.

    Args:
        marks: In the order in which they were set. A mark with an empty node id ends the last test; without
            it the process ended in that test.
        entries: The log.
    """
    positions = {mark.range: position for position, mark in enumerate(marks)}
    seen = [-1]
    reports: list[tuple[int, SanitizerHit]] = []
    words: list[str] = []
    for entry in entries:
        if isinstance(entry, str):
            words.append(entry)
        elif entry.kernel in positions:
            seen.append(max(seen[-1], positions[entry.kernel]))
        elif not is_marker(entry.kernel):
            reports.append((seen[-1], entry))

    owner: dict[int, str] = {}
    unsettled: set[str] = set()
    for position, following in pairwise([*dict.fromkeys(seen), len(marks)]):
        owners = {mark.nodeid for mark in marks[max(position, 0) : following]}
        if position < 0:
            owners.add("")
        if len(owners) > 1:
            unsettled |= owners
        tests = owners - {""}
        if len(tests) <= 1:
            owner[position] = tests.pop() if tests else ""
    hits: dict[str, Hits] = {}
    for position, report in reports:
        if position in owner:
            label = marks[position].label if position >= 0 else ""
            hits.setdefault(owner[position], Hits()).add(label, report)
    settled = {mark.nodeid for mark in marks} - unsettled - {""}
    return HitsByTest(hits, settled, blind=len(seen) == 1, words=words)
