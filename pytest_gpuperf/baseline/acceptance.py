"""Merging runs into baseline files: the plan of changes, and accepting it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.baseline.accepted_measurement import OF_PART, Accepted, Effect, update
from pytest_gpuperf.baseline.rounding import round_to_digits
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.time_lower_bound import impossible_time
from pytest_gpuperf.judge.times import Origin
from pytest_gpuperf.records import NO_GPU, Measurement, Run
from pytest_gpuperf.records.baseline import (
    BASELINE_SCHEMA,
    Baseline,
    BaselineGpu,
    MeasurementBaseline,
    RunNote,
    TestBaseline,
    suite_of,
)
from pytest_gpuperf.settings.settings import in_ci

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.baseline.accepted_measurement import Which
    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records import GpuInfo, TestRecord

DURATION_DIGITS = 2
"""More would change with every run."""


@dataclass(frozen=True)
class UpdatePlan:
    """Plan of an update."""

    files: Mapping[Path, Baseline]
    """Complete new content of each file that changes."""
    entries: tuple[Effect, ...]
    """Effects on measurements, in the order in which the tests ran."""
    missing: tuple[str, ...] = ()
    """Tests of the same test files that have a baseline, and that no run has measured."""

    def of_kind(self, *kinds: str) -> list[Effect]:
        """Return the entries of these kinds."""
        return [entry for entry in self.entries if entry.kind in kinds]


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Return each run once, oldest first.

    Raises:
        GpuperfError: Two runs of one id differ, as a merged run and one of its shards.
    """
    by_id = {run.id: run for run in runs}
    if other := next((run for run in runs if run != by_id[run.id]), None):
        raise GpuperfError(f"two runs are {other.id} and differ", expected="a merged run or its shards")
    return sorted(by_id.values(), key=lambda run: (run.started_at, run.id))


def refusal(test: TestRecord, gpu: GpuInfo) -> str:
    """Return why no value of a test can become a baseline; empty if they can."""
    if test.is_wrong:
        return "the output is wrong"
    if test.failure:
        return f"the test failed: {test.failure}"
    findings = (impossible_time(one, gpu) for one in test.measurements.values())
    return next((finding.line for finding in findings if finding is not None), "")


def plan(
    runs: Run | Sequence[Run],
    store: BaselineStore,
    which: Which,
    tolerance_pct: float,
    *,
    incomplete: bool = False,
    compiled: bool = True,
) -> UpdatePlan:
    """Plan the changes from accepting runs, one after the other; writes nothing.

    Each time becomes a session of its baseline. A test that failed by itself, a wrong output, and a label
    without any value are never accepted. Limits, tolerances and notes stay as they are.

    Args:
        runs: At least one run of one model of GPU; several must be of the same code.
        store: The baselines to change; read from the disk.
        which: The values to accept.
        tolerance_pct: Slowdown that counts as none, in %; the tolerance of a test in the baseline file comes
            first, then the one in its record.
        incomplete: True to take runs that were interrupted.
        compiled: False to leave out compiled kernels: those of a recording are of a compiler of its time.

    Raises:
        GpuperfError: A run is incomplete, or a baseline file is broken.
    """
    runs = in_order([runs] if isinstance(runs, Run) else runs)
    for run in runs:
        if not (run.complete or incomplete):
            raise GpuperfError(
                f"the run {run.id} was interrupted before its end",
                next_step="run it again, or take what there is with `gpuperf baseline accept --incomplete`",
            )
    planner = _Planner(runs, store, which, tolerance_pct, compiled)
    entries = [entry for run in runs for test in run.tests for entry in planner.take(run, test)]
    return UpdatePlan(planner.changed(), tuple(entries), tuple(planner.missing()))


@dataclass(frozen=True)
class _Planner:
    """Baseline files while they change."""

    runs: Sequence[Run]
    store: BaselineStore
    which: Which
    tolerance_pct: float
    compiled: bool
    files: dict[Path, tuple[dict[str, TestBaseline], Baseline]] = field(default_factory=dict)
    """The tests of each file as they are, and the file as it will be."""

    @cached_property
    def wrong(self) -> set[str]:
        """Tests whose output was wrong in a run."""
        return {test.nodeid for run in self.runs for test in run.tests if test.is_wrong}

    def take(self, run: Run, test: TestRecord) -> Iterator[Effect]:
        """Put the values of a test into the files, and return the effects."""
        in_other = "the output is wrong in another run" if test.nodeid in self.wrong else ""
        if why := refusal(test, run.environment.gpu) or in_other:
            yield Effect(test.nodeid, "", "refused", (why,))
            return
        gpu = run.environment.gpu
        parts = [(gpu, test.measurements)]
        if gpu.slug != NO_GPU.slug:
            own, compiled = test.parts
            parts = [(gpu, own), *([(NO_GPU, compiled)] if self.compiled else [])]
        entries = [entry for of, part in parts for entry in self._take(run, test, of, part)]
        yield from entries
        if not test.measurements and not entries:
            yield Effect(test.nodeid, "", "refused", ("nothing was measured",))

    def _take(
        self, run: Run, test: TestRecord, gpu: GpuInfo, measurements: Mapping[str, Measurement]
    ) -> Iterator[Effect]:
        """Take a part of a test; what it no longer measures goes."""
        file = self._file(gpu, suite_of(test.nodeid))
        before = file.tests.get(test.nodeid, TestBaseline())
        known, seconds = dict(before.measurements), before.seconds
        if self.which != "new":
            for label, one in before.measurements.items():
                if gone := one.missing_in(measurements.get(label, Measurement())):
                    fields = [name for part_name in gone for name in OF_PART[part_name]]
                    empty = MeasurementBaseline()
                    known[label] = replace(one, **{name: getattr(empty, name) for name in fields})
                    yield Effect(test.nodeid, label, "changed", (f"no longer measured: {', '.join(gone)}",))
        # Notes of runs that no value is from are left out at the end.
        file.runs[run.id] = _note(run)
        accepted = Accepted(
            run.id,
            Origin(test.gpu_uuid or run.environment.gpu.uuid, run.environment.toolchain, file.runs),
            test.gpu_uuid,
            frozenset(one.id for one in self.runs),
            before.tolerance_pct or test.tolerance_pct or self.tolerance_pct,
        )
        for label, measurement in measurements.items():
            stored = known.get(label, MeasurementBaseline())
            if found := update(measurement, stored, accepted, self.which):
                kind, lines, known[label] = found
                seconds = round_to_digits(test.seconds, DURATION_DIGITS) if test.seconds else seconds
                yield Effect(test.nodeid, label, kind, tuple(lines))
            elif measurement.profile is not None and not measurement.has_values:
                why = "neither a time nor counters were measured"
                yield Effect(test.nodeid, label, "refused", (why,))
        left = {label: one for label, one in known.items() if one != MeasurementBaseline()}
        if left != before.measurements:
            file.tests[test.nodeid] = replace(before, measurements=left, seconds=seconds)

    def _file(self, gpu: GpuInfo, suite: str) -> Baseline:
        path = self.store.path(gpu.slug, suite)
        if path not in self.files:
            empty = Baseline(schema=BASELINE_SCHEMA, gpu=BaselineGpu(slug=gpu.slug, name=gpu.name))
            known = self.store.load(gpu.slug, suite) or empty
            file = replace(known, tests=dict(known.tests), runs=dict(known.runs))
            self.files[path] = known.tests, file
        return self.files[path][1]

    def missing(self) -> Iterator[str]:
        """Return the tests with a baseline in the test files of the runs that no run has."""
        measured = {test.nodeid for run in self.runs for test in run.tests}
        files = {nodeid.partition("::")[0] for nodeid in measured}
        stored = (nodeid for tests, _ in self.files.values() for nodeid in tests if nodeid not in measured)
        return (nodeid for nodeid in stored if nodeid.partition("::")[0] in files)

    def changed(self) -> dict[Path, Baseline]:
        """Return the files that change."""
        return {
            path: _with_used_notes(file)
            for path, (before, file) in self.files.items()
            if file.tests != before
        }


def _note(run: Run) -> RunNote:
    of, uuid = run.environment, run.environment.gpu.uuid
    return RunNote(
        date=run.started_at, commit=of.commit, dirty=of.dirty, gpu_uuid=uuid, toolchain=of.toolchain
    )


def _with_used_notes(file: Baseline) -> Baseline:
    """Keep only the notes of runs that a value or a session comes from."""
    measured = [one for test in file.tests.values() for one in test.measurements.values()]
    used = {one.counters_run for one in measured}
    used |= {session.run for time in file.times for session in time.sessions}
    return replace(file, runs={run: note for run, note in file.runs.items() if run in used})


def accept(
    runs: Run | Sequence[Run],
    store: BaselineStore,
    which: Which,
    tolerance_pct: float,
    *,
    incomplete: bool = False,
    compiled: bool = True,
) -> UpdatePlan:
    """Make runs the baseline, all of them or none, and return the changes; see `plan`.

    Raises:
        GpuperfError: `CI` is set, a run is incomplete, a baseline file is broken, or another process writes.
    """
    refuse_in_ci()
    with store.locked():
        result = plan(runs, store, which, tolerance_pct, incomplete=incomplete, compiled=compiled)
        if result.files:
            store.write(result.files)
    return result


def remove(nodeids: Collection[str], store: BaselineStore) -> dict[Path, Baseline]:
    """Remove tests from the baselines of all GPUs, and return the files that changed.

    Raises:
        GpuperfError: As `accept`, or no baseline has one of them.
    """
    refuse_in_ci()
    files, unknown = {}, {*nodeids}
    with store.locked():
        for slug, suite in sorted({(slug, suite_of(one)) for slug in store.slugs() for one in nodeids}):
            if (file := store.load(slug, suite)) is not None and not file.tests.keys().isdisjoint(nodeids):
                unknown -= file.tests.keys()
                kept = {nodeid: test for nodeid, test in file.tests.items() if nodeid not in nodeids}
                files[store.path(slug, suite)] = _with_used_notes(replace(file, tests=kept))
        if unknown:
            raise GpuperfError(
                f"no baseline has {min(unknown)}",
                expected="full node ids",
                next_step="type `gpuperf baseline status RUN`, which names deleted tests",
            )
        store.write(files)
    return files


def refuse_in_ci() -> None:
    """Refuse to change baselines in CI, because no person looks at the change.

    Raises:
        GpuperfError: `CI` is set.
    """
    if in_ci():
        raise GpuperfError(
            "the baselines were left as they are, because CI is set",
            expected="a person who looks at what changes",
            next_step="download the run.json artifact and type `gpuperf baseline accept run.json` on your "
            "machine",
        )
