"""Merging runs into baseline files: the plan of changes, and accepting it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_gpuperf.baseline.entry import Entry, gone_entry, only_new
from pytest_gpuperf.baseline.gather import gather, in_order
from pytest_gpuperf.baseline.update import ChangingFile, Update
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.origin import Origin
from pytest_gpuperf.judge.parts import split_run, unmeasured
from pytest_gpuperf.records import NO_GPU, Measurement, Run
from pytest_gpuperf.records.baseline import TestBaseline, suite_of
from pytest_gpuperf.settings.settings import in_ci

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.baseline.entry import Which
    from pytest_gpuperf.baseline.store import BaselineStore


@dataclass(frozen=True)
class UpdatePlan:
    """Plan of an update."""

    files: Mapping[Path, dict[str, Any]]
    """Complete new content of each file that changes."""
    entries: tuple[Entry, ...]
    """Effects on measurements, in the order in which the tests ran."""

    def of_kind(self, *kinds: str) -> list[Entry]:
        """Return the entries of these kinds."""
        return [entry for entry in self.entries if entry.kind in kinds]


def plan(
    runs: Run | Sequence[Run],
    store: BaselineStore,
    which: Which,
    tolerance_pct: float,
) -> UpdatePlan:
    """Plan the changes from accepting runs; writes nothing.

    Each time becomes a session of its baseline. A test that failed by itself, a wrong output, and a label
    without any value are never accepted. Limits, tolerances, notes and keys that this
    version does not know stay as they are.

    Args:
        runs: At least one run; several must be of the same code, and the oldest of them is compared.
        store: The baselines to change; read from the disk.
        which: The values to accept.
        tolerance_pct: Slowdown that counts as none, in %; the tolerance of a test in the baseline file comes
            first, then the one in its record.

    Raises:
        GpuperfError: A baseline file is broken, or the runs are of several models of GPU.
    """
    runs = [runs] if isinstance(runs, Run) else runs
    parts = [part for run in runs for part in _parts(run, store)]
    of_gpus = [part for part in parts if part.environment.gpu.slug != NO_GPU.slug]
    compiled = [part for part in parts if part.environment.gpu.slug == NO_GPU.slug]
    plans = [_plan(group, store, which, tolerance_pct) for group in (of_gpus, compiled) if group]
    files = {path: content for part in plans for path, content in part.files.items()}
    entries = tuple(entry for part in plans for entry in part.entries)
    return UpdatePlan(files, entries)


def _parts(run: Run, store: BaselineStore) -> list[Run]:
    """Split a run; a test that has lost all of a part is in it without values, so that its baseline goes."""
    load = cache(store.load_for_update)
    parts = {part.environment.gpu.slug: part for part in split_run(run)}
    for gpu in dict.fromkeys((run.environment.gpu, NO_GPU)):
        part = parts.get(gpu.slug, replace(run, environment=replace(run.environment, gpu=gpu), tests=()))
        measured = {test.nodeid for test in part.tests}
        lost = []
        for test in run.tests:
            if test.nodeid not in measured and not test.failure:
                found = load(gpu.slug, suite_of(test.nodeid))
                if found is not None and found[0].tests.get(test.nodeid, TestBaseline()).measurements:
                    lost.append(replace(test, measurements={}))
        if lost:
            parts[gpu.slug] = replace(part, tests=(*part.tests, *lost))
    return list(parts.values())


def _plan(runs: Sequence[Run], store: BaselineStore, which: Which, tolerance_pct: float) -> UpdatePlan:
    """Plan the changes from runs of one GPU, or of none."""
    runs = in_order(runs)
    slug = runs[0].environment.gpu.slug
    entries: list[Entry] = []
    tests = gather(runs)
    suites = dict.fromkeys(suite_of(test.nodeid) for test in tests)
    files = {
        store.path(slug, suite): ChangingFile(store.load_for_update(slug, suite), runs) for suite in suites
    }
    cards, toolchain = runs[0].cards, runs[0].environment.toolchain
    for test in tests:
        path = store.path(slug, suite_of(test.nodeid))
        entries += [Entry(test.nodeid, label, "refused", (why,)) for label, why in test.refused]
        baseline = files[path].tests.get(test.nodeid, TestBaseline())
        tolerance = baseline.tolerance_pct or test.tolerance_pct or tolerance_pct
        if test.measured == {} and not baseline.measurements:
            entries.append(Entry(test.nodeid, "", "refused", ("nothing was measured",)))
        if which != "new" and test.measured is not None:
            for label, stored in baseline.measurements.items():
                if gone := unmeasured(stored, test.measured.get(label, Measurement())):
                    files[path].drop(test.nodeid, label, gone)
                    entries.append(gone_entry(test.nodeid, label, gone))
        origin = Origin(cards.get(test.nodeid, ""), toolchain, files[path].notes)
        for label, found in test.labels.items():
            known = baseline.measurements.get(label)
            if known is not None and known.time is not None:
                found = found.by(known.time.source)
            taken = only_new(found, known) if which == "new" and known is not None else found
            if taken.has_values:
                update = Update(test.nodeid, label, taken, known, origin, tolerance)
                entry = update.apply(files[path], which)
                if entry is not None:
                    entries.append(entry)
                    files[path].note_duration(test.nodeid, test.seconds)
    contents = {path: file.changed() for path, file in files.items()}
    return UpdatePlan({path: content for path, content in contents.items() if content}, tuple(entries))


def accept(
    runs: Run | Sequence[Run],
    store: BaselineStore,
    which: Which,
    tolerance_pct: float,
    *,
    incomplete: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> UpdatePlan:
    """Make runs the baseline, all of them or none, and return the changes.

    Args:
        runs: As in `plan`.
        store: The baselines to change.
        which: The values to accept.
        tolerance_pct: As in `plan`.
        incomplete: True to accept a run that was interrupted.
        environ: The environment variables, for `CI`.

    Raises:
        GpuperfError: `CI` is set, a run is incomplete, a baseline file is broken, the runs are of several
            models of GPU, or another process writes.
    """
    refuse_in_ci(environ)
    for run in [runs] if isinstance(runs, Run) else runs:
        if not run.complete and not incomplete:
            raise GpuperfError(
                f"the run {run.id} was interrupted before its end",
                next_step="run it again, or take what there is with `gpuperf baseline accept --incomplete`",
            )
    with store.locked():
        result = plan(runs, store, which, tolerance_pct)
        if result.files:
            store.write(result.files)
    return result


def refuse_in_ci(
    environ: Mapping[str, str] = os.environ,
    next_step: str = "download the run.json artifact and type `gpuperf baseline accept run.json` "
    "on your machine",
) -> None:
    """Refuse to change baselines in CI, because no person looks at the change.

    Raises:
        GpuperfError: `CI` is set.
    """
    if in_ci(environ):
        raise GpuperfError(
            "the baselines were left as they are, because CI is set",
            expected="a person who looks at what changes",
            next_step=next_step,
        )
