"""Pinned sessions: a second set of sessions to compare a time with, until someone pins again.

A loss below the detectable size passes and is accepted, and the next one starts from there. The distance to a
fixed release shows their sum.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.baseline.notes import keep_used_notes
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.baseline import Times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records.baseline import Baseline, TimeBaseline


@dataclass(frozen=True)
class PinnedSuite:
    """Change of one baseline file by pinning or unpinning."""

    slug: str
    suite: str
    tests: tuple[str, ...]
    """Tests whose times were chosen."""
    before: tuple[str, ...]
    """Their earlier pins: `v1.2 of 2026-11-20`."""


def pin(store: BaselineStore, name: str, date: str, only: Sequence[str] = ()) -> list[PinnedSuite]:
    """Pin the present sessions of each time, so that later updates leave a copy of them.

    Args:
        store: The baselines to change, of all GPUs.
        name: Name of the pin, mostly a release; may be empty.
        date: UTC, ISO 8601.
        only: Node ids, or the parts of them before a `/`, `::` or `[`; empty for all.

    Raises:
        GpuperfError: No time was found, a baseline file is broken, or another process writes.
    """

    def keep(time: dict[str, Any]) -> None:
        kept = {key: copy.deepcopy(time[key]) for key in Times.__struct_fields__ if key in time}
        time["pinned"] = {**({"name": name} if name else {}), "date": date, **kept}

    return _change(store, only, keep, lambda _: True, "there is no time to pin")


def unpin(store: BaselineStore, only: Sequence[str] = ()) -> list[PinnedSuite]:
    """Remove the pinned sessions.

    Args:
        store: The baselines to change, of all GPUs.
        only: As in `pin`.

    Raises:
        GpuperfError: No pin was found, a baseline file is broken, or another process writes.
    """

    def forget(time: dict[str, Any]) -> None:
        del time["pinned"]

    return _change(store, only, forget, lambda time: time.pinned is not None, "nothing is pinned")


def _change(
    store: BaselineStore,
    only: Sequence[str],
    change: Callable[[dict[str, Any]], object],
    concerned: Callable[[TimeBaseline], bool],
    nothing: str,
) -> list[PinnedSuite]:
    with store.locked():
        files: dict[Path, dict[str, Any]] = {}
        suites: list[PinnedSuite] = []
        for path in (store.path(slug, suite) for slug in store.slugs() for suite in store.suites(slug)):
            slug, suite = path.parent.name, path.stem
            found = store.load_for_update(slug, suite)
            if found is None:  # a link to nothing
                continue
            baseline, content = found
            chosen = [
                (nodeid, label, time)
                for nodeid, label, time in _times(baseline)
                if concerned(time) and (not only or any(_chooses(part, nodeid) for part in only))
            ]
            if not chosen:
                continue
            for nodeid, label, _ in chosen:
                change(content["tests"][nodeid]["measurements"][label]["time"])
            keep_used_notes(content)
            files[path] = content
            nodeids = dict.fromkeys(nodeid for nodeid, _, _ in chosen)
            before = dict.fromkeys(str(time.pinned) for _, _, time in chosen if time.pinned is not None)
            suites.append(PinnedSuite(slug, suite, tuple(nodeids), tuple(before)))
        tests = [nodeid for changed in suites for nodeid in changed.tests]
        missing = [part for part in only if not any(_chooses(part, nodeid) for nodeid in tests)]
        if missing or not tests:
            raise GpuperfError(
                f"{nothing}{' in ' if missing else ''}{', '.join(missing)}",
                next_step="`gpuperf baseline status` shows what there is",
            )
        store.write(files)
    return suites


def _times(baseline: Baseline) -> Iterator[tuple[str, str, TimeBaseline]]:
    for nodeid, test in baseline.tests.items():
        for label, measurement in test.measurements.items():
            if measurement.time is not None:
                yield nodeid, label, measurement.time


def _chooses(part: str, nodeid: str) -> bool:
    """Return True if `part` selects a test, as on pytest's command line."""
    return nodeid == part or nodeid.startswith((f"{part.rstrip('/')}/", f"{part}::", f"{part}["))
