"""Assign each report of a log to the test whose mark is the last before it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_gpuperf.features.sanitizer.log_reader import LoggedError, Said
from pytest_gpuperf.features.sanitizer.markers import is_marker
from pytest_gpuperf.records import SanitizerHit

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from pytest_gpuperf.records.passes import Event

_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Hits:
    """Reports of one test; equal reports are counted, and the first of them is kept."""

    def __init__(self) -> None:
        self.count = 0
        self._reports: dict[Hashable, tuple[str, LoggedError]] = {}
        self._counts: dict[Hashable, int] = {}

    def add(self, label: str, report: LoggedError) -> None:
        """Count a report of a call, or of work outside all calls."""
        # The text of a copy's error contains its address, the text of a race does not.
        key = (label, _ADDRESS.sub("", report.kind), report.kernel, report.places)
        self._reports.setdefault(key, (label, report))
        self._counts[key] = self._counts.get(key, 0) + 1
        self.count += 1

    def first(self, number: int) -> tuple[SanitizerHit, ...]:
        """Return the first `number` reports that differ."""
        return tuple(
            SanitizerHit(
                kind=report.kind,
                kernel=report.kernel,
                places=report.places,
                block=report.block,
                threads=report.threads,
                address=report.address,
                detail=report.detail,
                label=label,
                count=self._counts[key],
            )
            for key, (label, report) in list(self._reports.items())[:number]
        )


@dataclass(frozen=True)
class Assigned:
    """Log of one process, divided among its tests."""

    hits: dict[str, Hits]
    """By node id; the empty id holds reports before the first mark."""
    settled: set[str]
    """Tests that the log holds from beginning to end."""
    blind: bool
    """True if the log has no mark: the tool does not see the process."""
    words: list[str]
    """Messages of the tool about itself."""


def assign(marks: Sequence[Event], entries: Iterable[LoggedError | Said]) -> Assigned:
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
    reports: list[tuple[int, LoggedError]] = []
    words: list[str] = []
    for entry in entries:
        if isinstance(entry, Said):
            words.append(entry.text)
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
    return Assigned(hits, settled, blind=len(seen) == 1, words=words)
