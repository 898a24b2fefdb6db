"""Values of several runs of the same code that a baseline can take, test by test."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.readings import read_alike
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.floor import impossible_time
from pytest_gpuperf.records import Correctness, Measurement
from pytest_gpuperf.records.baseline import same_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import (
        Accuracy,
        Fingerprint,
        LaunchedCode,
        Profile,
        Run,
        Settlement,
        TestRecord,
        Timing,
        TimingSource,
        Trace,
    )


@dataclass(frozen=True)
class Taken:
    """Values of the runs under one label of one test."""

    times: tuple[tuple[Run, Timing], ...] = ()
    """Times in the order of the runs, all of one mode and source."""
    profile: Profile | None = None
    """Counters of the newest run that has read any; earlier ones stay in the baseline."""
    profile_run: str = ""
    readings: tuple[tuple[str, Profile], ...] = ()
    """Id and counters of each run that has read them in the same way, including the newest."""
    trace: Trace | None = None
    """Trace of the newest run that has one."""
    accuracy: Accuracy | None = None
    """Accuracy of the newest run that has one."""
    code: LaunchedCode | None = None
    """Code of the newest of `times`; None if it is not known."""
    call: Fingerprint | None = None
    """The call of the newest of `times`; None if it is not known."""
    settlement: Settlement | None = None
    """Settlement of the first of `times`; None if it was no suspect."""
    cards: Mapping[str, str] = field(default_factory=dict)
    """UUID of the card by run id, if it is another one than the run's."""

    @property
    def measurement(self) -> Measurement:
        """Measurement to compare with the baseline: the first time, the counters, trace and accuracy."""
        time = self.times[0][1] if self.times else None
        checked = Correctness(passed=True, accuracy=self.accuracy) if self.accuracy is not None else None
        return Measurement(
            correctness=checked,
            timing=time,
            profile=self.profile,
            trace=self.trace,
            code=self.code,
            settlement=self.settlement,
        )

    def by(self, source: TimingSource) -> Taken:
        """Return the values with the times of another source, if all runs have them."""
        times = [(run, timing.by(source)) for run, timing in self.times]
        found = tuple((run, timing) for run, timing in times if timing is not None)
        return replace(self, times=found) if len(found) == len(times) else self

    @property
    def has_counters(self) -> bool:
        """True if counters were read; a profile may also only say why they were not."""
        return self.profile is not None and bool(self.profile.combined)

    @property
    def has_values(self) -> bool:
        """True if there is a value to compare with later."""
        parts = (self.trace, self.accuracy)
        return bool(self.times) or self.has_counters or any(part is not None for part in parts)


@dataclass(frozen=True)
class Gathered:
    """Values of the runs in one test."""

    nodeid: str
    refused: tuple[tuple[str, str], ...] = ()
    """Labels that cannot be taken, empty for the whole test, with the reasons."""
    labels: Mapping[str, Taken] = field(default_factory=dict)
    measured: Mapping[str, Measurement] | None = None
    """All that the newest run measured; None if the test failed in each."""
    tolerance_pct: float = 0.0
    """Tolerance of the test; 0 if it has none."""
    seconds: float = 0.0
    """Duration of the test in the newest run; 0 if unknown."""


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Return each run once, oldest first.

    Raises:
        GpuperfError: The runs are of several models of GPU.
    """
    slugs = sorted({run.environment.gpu.slug for run in runs})
    if len(slugs) > 1:
        raise GpuperfError(
            f"the runs are of several models of GPU: {', '.join(slugs)}",
            expected="runs of one model",
            next_step="accept those of each model by themselves",
        )
    return sorted({run.id: run for run in runs}.values(), key=lambda run: (run.started_at, run.id))


def gather(runs: Sequence[Run]) -> list[Gathered]:
    """Collect the values of each test from all runs.

    A test that is wrong in one run is taken from none of them. A test that ended with an exception is left
    out of that run only: a test that asserts on counters fails if they are off, and its other times are good.

    Args:
        runs: Runs of the same code, oldest first.

    Returns:
        The tests in the order in which they ran.
    """
    records: dict[str, list[tuple[Run, TestRecord]]] = {}
    for run in runs:
        for test in run.tests:
            records.setdefault(test.nodeid, []).append((run, test))
    return [_gathered(nodeid, found) for nodeid, found in records.items()]


def _gathered(nodeid: str, records: list[tuple[Run, TestRecord]]) -> Gathered:
    wrong = [test for _, test in records if _is_wrong(test)]
    if wrong:
        return Gathered(nodeid, (("", f"the output is wrong{_share(wrong, records)}"),))
    failed = [test for _, test in records if test.failure]
    refused = [("", why) for why in dict.fromkeys(map(_impossible, records)) if why]
    if failed:
        refused.append(("", f"the test failed: {failed[0].failure}{_share(failed, records)}"))
    good = [(run, test) for run, test in records if not (test.failure or _impossible((run, test)))]
    by_label: dict[str, list[tuple[Run, Measurement]]] = {}
    for run, test in good:
        for label, measurement in test.measurements.items():
            # A call that was only warmed up has nothing to compare later.
            parts = (_accuracy(measurement), measurement.timing, measurement.profile, measurement.trace)
            if any(part is not None for part in parts):
                by_label.setdefault(label, []).append((run, measurement))
    labels = {}
    cards = {run.id: test.gpu_uuid for run, test in good if test.gpu_uuid}
    for label, measurements in by_label.items():
        taken, why = _taken(measurements)
        if why:
            refused.append((label, why))
        if taken.has_values:
            labels[label] = replace(taken, cards=cards)
    tolerance, seconds = (good[0][1].tolerance_pct, good[-1][1].seconds) if good else (0.0, 0.0)
    return Gathered(
        nodeid, tuple(refused), labels, good[-1][1].measurements if good else None, tolerance, seconds
    )


def _taken(measurements: list[tuple[Run, Measurement]]) -> tuple[Taken, str]:
    """Return the values that can be taken, and the reason why others cannot."""
    times = [(run, found.timing) for run, found in measurements if found.timing is not None]
    first = times[0][1] if times else None
    # At the border between the sources a run has both.
    times = [(run, (first and timing.by(first.source)) or timing) for run, timing in times]
    same = [(run, timing) for run, timing in times if first is not None and same_quantity(timing, first)]
    others = [timing for _, timing in times if first is not None and not same_quantity(timing, first)]
    profiled = [(run, found.profile) for run, found in measurements if found.profile is not None]
    # A profile without counters shows that some were requested.
    run, profile = next(
        ((run, profile) for run, profile in reversed(profiled) if profile.combined),
        profiled[0] if profiled else (None, None),
    )
    readings = tuple(
        (run.id, found) for run, found in profiled if profile is not None and read_alike(found, profile)
    )
    traces = [found.trace for _, found in measurements if found.trace is not None]
    trace = traces[-1] if traces else None
    accuracies = [found for _, measurement in measurements if (found := _accuracy(measurement)) is not None]
    accuracy = accuracies[-1] if accuracies else None
    timed = [found for _, found in measurements if found.timing is not None] or [Measurement()]
    newest = timed[-1]
    code = newest.code if newest.code is not None and newest.code.kernels else None
    settlement = timed[0].settlement
    # One against a commit that the user named tells nothing of the baseline.
    settlement = settlement if settlement is not None and settlement.sessions else None
    run_id = run.id if run else ""
    taken = Taken(tuple(same), profile, run_id, readings, trace, accuracy, code, newest.call, settlement)
    if not taken.has_values:
        return taken, "neither a time nor counters were measured"
    if others and first is not None:
        how = f"{others[0].mode} by {others[0].source}, not {first.mode} by {first.source}"
        return taken, f"the time was taken {how}{_share(others, times)}"
    return taken, ""


def _accuracy(measurement: Measurement) -> Accuracy | None:
    correctness = measurement.correctness
    return correctness.accuracy if correctness is not None else None


def _impossible(record: tuple[Run, TestRecord]) -> str:
    """Return why a time of a test is impossible; empty if none is."""
    run, test = record
    findings = (impossible_time(measured, run.environment.gpu) for measured in test.measurements.values())
    return next((finding.line for finding in findings if finding is not None), "")


def _is_wrong(test: TestRecord) -> bool:
    return any(measured.is_wrong for measured in test.measurements.values())


def _share(some: Sequence[object], of_all: Sequence[object]) -> str:
    return f" in {len(some)} of {len(of_all)} runs" if len(of_all) > 1 else ""
