"""From a run to new baseline files: what would change, and accepting it."""

from __future__ import annotations

import copy
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pytest_gpuperf.baseline.schema import (
    BASELINE_SCHEMA,
    TIME_DIGITS,
    MeasurementBaseline,
    TestBaseline,
    round_counter,
    round_to_digits,
    suite_of,
)
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.static.parts import split_run
from pytest_gpuperf.verdict.compare import compare, distinct_kernels
from pytest_gpuperf.verdict.result import show_pair, show_value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records import Measurement, Run, TestRecord

Which = Literal["new", "changed", "all"]
"""`new`: what has nothing to be compared with, be it only the time or the counters of a test; `changed`: also
what moved beyond its tolerance; `all`: everything."""


@dataclass(frozen=True)
class Entry:
    """What an update does to one measurement of one test."""

    nodeid: str
    label: str
    """Empty where the whole test is refused."""
    kind: Literal["new", "changed", "refreshed", "refused"]
    """`refreshed`: moved within the tolerance only."""
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What an update would do."""

    files: Mapping[Path, dict[str, Any]]
    """The whole new content of each file that changes."""
    entries: tuple[Entry, ...]
    """In the order in which the tests ran."""

    def of_kind(self, *kinds: str) -> list[Entry]:
        """The entries of these kinds."""
        return [entry for entry in self.entries if entry.kind in kinds]


def plan(run: Run, store: BaselineStore, which: Which, tolerance_pct: float) -> Plan:
    """Work out what accepting a run would change; writes nothing.

    A test that failed by itself, a wrong output, and a label without any value are never accepted.
    Limits, tolerances, notes and keys that this version does not know stay as they are.

    Args:
        run: What was measured.
        store: The baselines to change; read from the disk.
        which: What to take over.
        tolerance_pct: By how much a time may move before it counts as changed, in per cent; the
            tolerance of a test in the baseline file comes first, then the one in its record.

    Raises:
        GpuperfError: A baseline file is broken.
    """
    plans = [_plan(part, store, which, tolerance_pct) for part in split_run(run)]
    files = {path: content for part in plans for path, content in part.files.items()}
    return Plan(files, tuple(entry for part in plans for entry in part.entries))


def _plan(run: Run, store: BaselineStore, which: Which, tolerance_pct: float) -> Plan:
    slug = run.environment.gpu.slug
    entries: list[Entry] = []
    before: dict[Path, dict[str, Any]] = {}
    after: dict[Path, dict[str, Any]] = {}
    known: dict[Path, Mapping[str, TestBaseline]] = {}
    for test in run.tests:
        suite = suite_of(test.nodeid)
        path = store.path(slug, suite)
        if path not in after:
            found = store.load_for_update(slug, suite)
            known[path] = found[0].tests if found else {}
            before[path] = found[1] if found else {}
            after[path] = copy.deepcopy(before[path])
        refusal = _refusal(test)
        if refusal:
            entries.append(Entry(test.nodeid, "", "refused", (refusal,)))
            continue
        baseline = known[path].get(test.nodeid, TestBaseline())
        tolerance = baseline.tolerance_pct or test.tolerance_pct or tolerance_pct
        for label, measurement in test.measurements.items():
            if measurement.timing is None and measurement.profile is None:
                continue  # only checked or warmed up: there is nothing to compare later
            if not _has_values(measurement):
                why = "neither a time nor counters were measured"
                entries.append(Entry(test.nodeid, label, "refused", (why,)))
                continue
            expected = baseline.measurements.get(label)
            taken = _only_new(measurement, expected) if which == "new" else measurement
            if not _has_values(taken):
                continue
            entry = _entry(test.nodeid, label, taken, expected, tolerance)
            if _wanted(entry, which):
                _put(after[path], run, test.nodeid, label, taken)
                entries.append(entry)
    files = {path: _finished(content, run) for path, content in after.items() if content != before[path]}
    return Plan(files, tuple(entries))


def accept(
    run: Run,
    store: BaselineStore,
    which: Which,
    tolerance_pct: float,
    *,
    incomplete: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Plan:
    """Make a run the baseline, and return what that changed.

    Args:
        run: What was measured.
        store: The baselines to change.
        which: What to take over.
        tolerance_pct: As in `plan`.
        incomplete: Whether to take a run that was interrupted.
        environ: Where `CI` is looked up.

    Raises:
        GpuperfError: `CI` is set, the run is incomplete, a baseline file is broken, or another process
            writes.
    """
    refuse_in_ci(environ)
    if not run.complete and not incomplete:
        raise GpuperfError(
            f"the run {run.id} was interrupted before its end",
            next_step="run it again, or take what there is with `gpuperf baseline accept --incomplete`",
        )
    with store.locked():
        result = plan(run, store, which, tolerance_pct)
        if result.files:
            store.write(result.files)
    return result


def refuse_in_ci(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse to change baselines where no person looks at the change.

    Raises:
        GpuperfError: `CI` is set.
    """
    if environ.get("CI", "").lower() not in ("", "0", "false"):
        raise GpuperfError(
            "the baselines were left as they are, because CI is set",
            expected="a person who looks at what changes",
            next_step="download the run.json artifact and type `gpuperf baseline accept run.json` "
            "on your machine",
        )


def _refusal(test: TestRecord) -> str:
    if test.failure:
        return f"the test failed: {test.failure}"
    for measurement in test.measurements.values():
        if measurement.correctness is not None and not measurement.correctness.passed:
            return "the output is wrong"
    return "" if test.measurements else "nothing was measured"


def _has_counters(measurement: Measurement) -> bool:
    return measurement.profile is not None and bool(measurement.profile.combined)


def _has_values(measurement: Measurement) -> bool:
    return measurement.timing is not None or _has_counters(measurement)


def _only_new(measurement: Measurement, known: MeasurementBaseline | None) -> Measurement:
    """Without the parts that the baseline can judge, so that taking it over hides no regression."""
    if known is None:
        return measurement
    timing = measurement.timing
    # A time that fell back to another mode is no new quantity, but one that was lost.
    judged = timing and known.time and (timing.mode == known.time.mode or timing.not_captured)
    return msgspec.structs.replace(
        measurement,
        timing=None if judged else timing,
        profile=None if known.counters else measurement.profile,
    )


def _entry(
    nodeid: str,
    label: str,
    measurement: Measurement,
    known: MeasurementBaseline | None,
    tolerance_pct: float,
) -> Entry:
    timing = measurement.timing
    if known is None:
        shown = f"time {show_value(timing.time_us)} µs ({timing.mode})" if timing else "counters"
        return Entry(nodeid, label, "new", (shown,))
    comparison = compare(measurement, known, tolerance_pct)
    lines = [*_time_lines(measurement, known), *map(str, comparison.counters)]
    if comparison.kernels:
        lines.append(comparison.kernels)
    added = []
    if timing is not None and known.time is None:
        added.append("time")
    if not known.counters and _has_counters(measurement):
        added.append("counters")
    elif measurement.profile is not None:
        added += sorted(measurement.profile.combined.keys() - known.counters.keys())
    if added:
        lines.append(f"new: {', '.join(added)}")
    kind: Literal["new", "changed", "refreshed"] = "changed" if added else "refreshed"
    if comparison.moved:
        kind = "changed"
    elif _has_values(_only_new(measurement, known)):
        kind = "new"
    return Entry(nodeid, label, kind, tuple(lines))


def _time_lines(measurement: Measurement, known: MeasurementBaseline) -> list[str]:
    timing = measurement.timing
    if timing is None or known.time is None:
        return []
    before, after = show_pair(known.time.mean_us, timing.time_us)
    if timing.mode != known.time.mode:
        return [f"time {before} µs ({known.time.mode}) -> {after} µs ({timing.mode})"]
    return [f"time {before} -> {after} µs ({100 * (timing.time_us / known.time.mean_us - 1):+.1f} %)"]


def _wanted(entry: Entry, which: Which) -> bool:
    kinds = {"new": ("new",), "changed": ("new", "changed"), "all": ("new", "changed", "refreshed")}
    return entry.kind in kinds[which]


def _put(content: dict[str, Any], run: Run, nodeid: str, label: str, measurement: Measurement) -> None:
    tests = content.setdefault("tests", {})
    target = tests.setdefault(nodeid, {}).setdefault("measurements", {}).setdefault(label, {})
    timing, profile = measurement.timing, measurement.profile
    if timing is not None:
        session = {
            "run": run.id,
            "time_us": round_to_digits(timing.time_us, TIME_DIGITS),
            "spread_pct": round_to_digits(timing.spread_pct, 2),
        }
        target["time"] = {**(target.get("time") or {}), "mode": timing.mode, "sessions": [session]}
    if profile is not None and profile.combined:
        target["kernels"] = list(distinct_kernels(profile))
        target["counters"] = {
            name: round_counter(name, value)
            for name, value in profile.combined.items()
            if isinstance(value, str) or math.isfinite(value)
        }
        target["counters_run"] = run.id


def _finished(content: dict[str, Any], run: Run) -> dict[str, Any]:
    gpu = run.environment.gpu
    content.setdefault("schema", BASELINE_SCHEMA)
    content.setdefault("gpu", {"name": gpu.name, "slug": gpu.slug})
    used = set()
    for test in content.get("tests", {}).values():
        for measurement in test.get("measurements", {}).values():
            used.add(measurement.get("counters_run"))
            used.update(session["run"] for session in (measurement.get("time") or {}).get("sessions", ()))
    notes = {**content.get("runs", {}), run.id: _note(run)}
    content["runs"] = {run_id: note for run_id, note in notes.items() if run_id in used}
    return content


def _note(run: Run) -> dict[str, Any]:
    environment = run.environment
    note = {
        "commit": environment.commit,
        "date": run.started_at,
        "gpu_uuid": environment.gpu.uuid,
        "toolchain": msgspec.to_builtins(environment.toolchain),
    }
    if environment.dirty is not None:
        note["dirty"] = environment.dirty
    return note
