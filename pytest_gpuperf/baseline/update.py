"""Update of a baseline file with runs, one measurement after the other."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.baseline.entry import Entry, make_entry
from pytest_gpuperf.baseline.notes import keep_used_notes
from pytest_gpuperf.baseline.readings import sessions_and_range, stored_alike
from pytest_gpuperf.baseline.rounding import round_counter, round_to_digits, stored_accuracy
from pytest_gpuperf.baseline.sessions import merged_time, told
from pytest_gpuperf.judge.counters import chosen_otherwise, compare_counters, distinct_kernels
from pytest_gpuperf.judge.times import compare_time, judgement_of
from pytest_gpuperf.records.baseline import BASELINE_SCHEMA, same_quantity
from pytest_gpuperf.records.change import show_signed
from pytest_gpuperf.records.counters import STATIC_SOURCE
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.baseline.entry import Which
    from pytest_gpuperf.baseline.gather import Taken
    from pytest_gpuperf.judge.origin import Origin
    from pytest_gpuperf.judge.times import BaselineComparison
    from pytest_gpuperf.records import Profile, Run
    from pytest_gpuperf.records.baseline import Baseline, MeasurementBaseline

_OF_PART = {
    "time": ("time", "code", "call"),
    "counters": (
        "kernels",
        "counters",
        "counters_run",
        "counters_by",
        "counters_sessions",
        "counters_range",
        "launches",
        "regex",
    ),
}
DURATION_DIGITS = 2
"""More would change with every run."""


class ChangingFile:
    """Baseline file while it changes.

    Args:
        found: The file as a record and as a JSON object; None if it does not exist.
        runs: The accepted runs.
    """

    def __init__(self, found: tuple[Baseline, dict[str, Any]] | None, runs: Sequence[Run]) -> None:
        self._runs = runs
        self.tests = found[0].tests if found else {}
        self.notes = found[0].runs if found else {}
        self._before = found[1] if found else {}
        self._after = copy.deepcopy(self._before)
        self.dates = {run_id: note.date for run_id, note in self.notes.items()}
        self.dates.update({run.id: run.started_at for run in runs})

    def known_time(self, nodeid: str, label: str) -> dict[str, Any]:
        """Return the JSON object of a time; empty without one."""
        measurements = self._before.get("tests", {}).get(nodeid, {}).get("measurements", {})
        return measurements.get(label, {}).get("time") or {}

    def put(self, nodeid: str, label: str, part: dict[str, Any]) -> None:
        """Replace parts of one measurement; parts that are None are removed."""
        target: dict[str, Any] = self._after
        for key in ("tests", nodeid, "measurements", label):
            target = target.setdefault(key, {})
        target.update(part)
        for key in [key for key, value in part.items() if value is None]:
            del target[key]

    def drop(self, nodeid: str, label: str, gone: Sequence[str]) -> None:
        """Remove parts of one measurement that its test no longer measures; all of it if nothing is left."""
        measurements = self._after["tests"][nodeid]["measurements"]
        for part in gone:
            for key in _OF_PART.get(part, (part,)):
                measurements[label].pop(key, None)
        if not {"time", "counters", "trace", "accuracy"}.intersection(measurements[label]):
            del measurements[label]

    def note_duration(self, nodeid: str, seconds: float) -> None:
        """Keep the duration of a test whose values were taken; 0 leaves it as it is."""
        if seconds and (test := self._after.get("tests", {}).get(nodeid)) is not None:
            test["seconds"] = round_to_digits(seconds, DURATION_DIGITS)

    def changed(self) -> dict[str, Any] | None:
        """Return the complete new content; None if nothing has changed."""
        if self._after == self._before:
            return None
        gpu = self._runs[0].environment.gpu
        self._after.setdefault("schema", BASELINE_SCHEMA)
        self._after.setdefault("gpu", {"name": gpu.name, "slug": gpu.slug})
        keep_used_notes(self._after, self._runs)
        return self._after


@dataclass(frozen=True)
class Update:
    """New values of runs for one measurement of one test."""

    nodeid: str
    label: str
    taken: Taken
    known: MeasurementBaseline | None
    origin: Origin
    tolerance_pct: float

    def apply(self, file: ChangingFile, which: Which) -> Entry | None:
        """Put the values into the file and return the effect; None if they are not wanted."""
        comparison = None if self.known is None else self._compare(self.known)
        replaces, why = self._replaces(comparison)
        part = self._counters(comparison)
        if self.taken.trace is not None:
            part["trace"] = self.taken.trace.exact
        if self.taken.accuracy is not None:
            part["accuracy"] = stored_accuracy(self.taken.accuracy)
        line = ""
        if self.taken.times:
            before = file.known_time(self.nodeid, self.label)
            cards = self.taken.cards
            time = merged_time(before, self.taken.times, replace=replaces, dates=file.dates, cards=cards)
            runs = [run.id for run, _ in self.taken.times]
            line = told(before, time, runs, replaced=replaces, why=why)
            part["time"] = time
            part["code"] = None if self.taken.code is None else msgspec.to_builtins(self.taken.code)
            part["call"] = None if self.taken.call is None else msgspec.to_builtins(self.taken.call)
        entry = make_entry(self.nodeid, self.label, self.taken, self.known, comparison, line)
        if not entry.wanted(which):
            return None
        file.put(self.nodeid, self.label, part)
        return entry

    def _compare(self, known: MeasurementBaseline) -> BaselineComparison:
        measurement = self.taken.measurement
        judgement = judgement_of(measurement, known, self.origin, self.tolerance_pct)
        time = judgement.time if judgement is not None else None
        return compare_time(measurement, known, compare_counters(measurement, known), time)

    def _replaces(self, comparison: BaselineComparison | None) -> tuple[bool, str]:
        """Return True if the stored sessions go, and why: the time moved, or is another quantity."""
        known = None if self.known is None else self.known.time
        if not self.taken.times or self.known is None or known is None or comparison is None:
            return False, ""
        if not same_quantity(self.taken.times[0][1], known):
            return True, f"they were taken {known.mode} by {known.source}"
        called = self.known.call
        if called is not None and self.taken.call is not None and called.difference(self.taken.call):
            return True, "they are of another call"
        # The runs are of one code, so if one of them is stored, that is the code of the sessions.
        stored = {session.run for session in known.sessions}
        time = comparison.time
        if time is None or not stored.isdisjoint(run.id for run, _ in self.taken.times):
            return False, ""
        moved = time.decision.outcome is not Outcome.PASS
        return moved, f"time moved {show_signed(time.decision.change_pct)} %" if moved else ""

    def _counters(self, comparison: BaselineComparison | None) -> dict[str, Any]:
        profile = self.taken.profile
        if profile is None or not profile.combined:
            return {}
        counters = {
            name: round_counter(name, value)
            for name, value in profile.combined.items()
            if isinstance(value, str) or math.isfinite(value)
        }
        if profile.preset and self.known is not None and not chosen_otherwise(profile, self.known):
            # Only some were requested; the others stay.
            counters = {**self.known.counters, **counters}
        part = {
            "kernels": list(distinct_kernels(profile)),
            "counters": counters,
            "counters_run": self.taken.profile_run,
            "counters_by": profile.read_by,
            **self._sessions(counters, profile, comparison),
        }
        # A compiler reports all kernels.
        chosen = {"launches": profile.launches or "all", "regex": profile.regex}
        return part if profile.source == STATIC_SOURCE else {**part, **chosen}

    def _sessions(
        self, names: Iterable[str], profile: Profile, comparison: BaselineComparison | None
    ) -> dict[str, Any]:
        """Return the number of sessions that have read the counters, and their range."""
        known = self.known
        readings = [found for _, found in self.taken.readings]
        if known is None or comparison is None or not stored_alike(profile, known):
            return sessions_and_range(names, readings, None, again=False)
        timed = known.time.sessions if known.time else ()
        stored = {known.counters_run, *(session.run for session in timed)}
        again = not stored.isdisjoint(run_id for run_id, _ in self.taken.readings)
        # A count that moved beyond its tolerance is of other code: the range between the two would hide
        # changes to come.
        moved = comparison.time is not None and comparison.time.decision.outcome is not Outcome.PASS
        other = not again and (comparison.counters.work or comparison.counters.kernels or moved)
        return sessions_and_range(names, readings, None if other else known, again=again)
