"""Replay: judge recorded runs again, without a GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, NoGpuError
from pytest_gpuperf.records import (
    AgainstTiming,
    Correctness,
    Fuzzing,
    Profile,
    Timing,
    Trace,
    WarmUp,
)
from pytest_gpuperf.records.run import show_selection
from pytest_gpuperf.records.run_store import STATE_FOLDER, RunStore, load_run, recordings_of
from pytest_gpuperf.records.static_profiles import kernels_of
from pytest_gpuperf.session.judge import Judge
from pytest_gpuperf.session.run_report import RunReport
from pytest_gpuperf.session.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import LaunchedCode, Run, StaticKernel
    from pytest_gpuperf.records.call import Call, Selection
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.progress import News
    from pytest_gpuperf.session.runner import Start
    from pytest_gpuperf.session.worker_messages import Link
    from pytest_gpuperf.settings.settings import Settings

Part = TypeVar("Part")

LONGEST_REASON = 100
"""Characters of the reason for a skip, which pytest shows on one line."""
JUDGED_AGAIN = ("", "AssertionError", "Failed")
"""Exceptions of a test's own assertions and of the plugin: the replay raises its own."""


class RecordedSource:
    """Finds each call in recorded runs by its test and label.

    Args:
        runs: Recorded runs of one GPU model, at least one; if two hold a test, the first counts.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.skipped: dict[str, str] = {}
        """Why tests were skipped, by node id."""
        self._newest = runs[0]
        self._runs = {test.nodeid: run for run in reversed(runs) for test in run.tests}
        self.tests = {test.nodeid: test for run in reversed(runs) for test in run.tests}
        """The recorded tests, by node id."""

    def run_of(self, nodeid: str) -> Run:
        """Return the run that has a test; the newest for an unknown one."""
        return self._runs.get(nodeid, self._newest)

    def check(self, call: Call) -> Correctness:
        """Return the recorded comparison."""
        return self._recorded(call, "correctness", Correctness)

    def fuzz(self, call: Call) -> Fuzzing:
        """Return the recorded search."""
        return self._recorded(call, "fuzz", Fuzzing)

    def warm_up(self, call: Call) -> WarmUp:
        """Return the recorded warm-up."""
        return self._recorded(call, "warm_up", WarmUp)

    def code(self, call: Call) -> LaunchedCode | None:
        """Return the recorded code; None if there is none."""
        test = self.tests.get(call.nodeid)
        measured = test.measurements.get(call.label) if test is not None else None
        return measured.code if measured is not None else None

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Return the recorded time, with the rates of the present test."""
        timing = self._recorded(call, "timing", Timing)
        if mode not in ("auto", timing.mode):
            self.skip(call, f"the recording has mode {timing.mode!r}, the test asks for {mode!r}")
        return replace(timing, work=replace(timing.work, bytes=bytes or None, flops=flops or None))

    def in_turn(self, first: Call, other: Call, *, mode: str) -> AgainstTiming:
        """Return the recorded ratio."""
        del first, mode
        return self._recorded(other, "in_turn", AgainstTiming)

    def profile(self, call: Call, kernels: Selection) -> Profile:
        """Return the recorded counters, if they are of the kernels that are asked for now."""
        profile = self._recorded(call, "profile", Profile)
        reasons = (profile.unavailable, self._runs[call.nodeid].counters_unavailable)
        of_all_tests = len({_WORKER.sub("/ncu/", reason) for reason in reasons}) == 1
        if profile.unavailable and not (of_all_tests or profile.tolerated):
            raise GpuperfError(profile.unavailable)
        regex = kernels.regex or ""
        if not profile.unavailable and (profile.regex, profile.launches) != (regex, kernels.recorded):
            self.skip(
                call,
                f"the recording has {show_selection(profile.regex, profile.launches)}, "
                f"the test asks for {show_selection(regex, kernels.recorded)}",
            )
        return profile

    def trace(self, call: Call) -> Trace:
        """Return the recorded kernel table."""
        return self._recorded(call, "trace", Trace)

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Return the recorded kernels of a call that compiles."""
        test = self.tests.get(call.nodeid)
        recorded = kernels_of(test.measurements if test else {}, call.label)
        if not recorded:
            self.skip(call, "the recording has no compiled kernels of this test")
        return recorded

    def skip(self, call: Call, why: str) -> NoReturn:
        """Skip the test of a call, and note why; pytest joins tests with the same reason."""
        why = why if len(why) <= LONGEST_REASON else f"{why[: LONGEST_REASON - 1]}…"
        self.skipped.setdefault(call.nodeid, why)
        pytest.skip(why)

    def _recorded(self, call: Call, part: str, kind: type[Part]) -> Part:
        test = self.tests.get(call.nodeid)
        measured = test.measurements.get(call.label) if test else None
        found = getattr(measured, part, None)
        if found is None and test is not None and test.failed:
            raise GpuperfError(
                f"the recorded test was ended by {test.failure} before its {part.replace('_', '-')}"
            )
        if not isinstance(found, kind):
            gpu = self._newest.environment.gpu.name
            self.skip(call, f"not recorded on {gpu}; `gpuperf record` adds it after a run on that GPU")
        return found


class ReplayRunner(Runner):
    """Answers from one run, or from the recordings of the GPU with the newest recording."""

    def __init__(self, settings: Settings, reason: str, news: News, link: Link | None = None) -> None:
        if settings.against:
            raise GpuperfError(
                f"--gpuperf-against={settings.against} measures, and {reason or 'a replay does not'}",
                expected="a GPU",
                next_step="leave it out to judge a recorded run again",
            )
        if settings.sanitize != "off":
            raise GpuperfError(
                f"--gpuperf-sanitize={settings.sanitize} runs kernels, and {reason or 'a replay does not'}",
                expected="a GPU",
                next_step="leave it out: a recorded run keeps what it found",
            )
        runs = recorded_runs(settings, reason)
        if settings.update != "never":
            raise GpuperfError(
                f"--gpuperf-update={settings.update} with a replay, which measures nothing",
                next_step="accept a recorded run with `gpuperf baseline accept RUN`",
            )
        self._runs = runs
        self._reason = reason
        self._recorded = RecordedSource(runs)
        newest = runs[0]
        judge = self._judge = Judge(settings, newest.environment, runs)
        skipped = self._recorded.skipped
        report = self._report = RunReport(judge, news, replayed_from=newest, skipped=skipped, link=link)
        super().__init__(settings, self._recorded, report)
        news.no_counters = newest.counters_unavailable

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Compile; a run that was named is shown as it was recorded, by whatever compiler."""
        return super().static(call) if self.settings.replay == "auto" else self._recorded.static(call)

    def begin(self, states: Sequence[ItemState], start: Start) -> None:
        """Say which runs have the selected tests, and take over what compute-sanitizer found."""
        del start
        # All workers select the same tests, and each runs some of them.
        used = {id(self._recorded.run_of(nodeid)) for nodeid in self._report.facts.lines}
        newest, *others = [run for run in self._runs if id(run) in used] or self._runs[:1]
        self._report.replay_from(newest)
        if self._reason:
            several = f"; each test is of the newest of {len(others) + 1} recordings that has it"
            self._report.news.note(f"nothing was measured: {self._reason}{several if others else ''}")
        for state in states:
            if (test := self._recorded.tests.get(state.nodeid)) is not None:
                state.sanitized = test.sanitizer

    def judge(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge again; only an exception for another reason than the test's values is taken as recorded."""
        if (test := self._recorded.tests.get(state.nodeid)) is not None:
            for label, measurement in state.measurements.items():
                known = test.measurements.get(label)
                if known is not None and known.settlement is not None:
                    state.measurements[label] = replace(measurement, settlement=known.settlement)
            failure = failure or ("" if test.failure in JUDGED_AGAIN else test.failure)
        return self._judge.test(state, failure)


_WORKER = re.compile(r"/ncu/\d+/")
"""Each of several processes has its own folder for ncu."""


def recorded_runs(settings: Settings, reason: str) -> list[Run]:
    """Return the runs to replay, of one GPU model, the newest first.

    Args:
        settings: The options.
        reason: Why nothing can be measured.

    Raises:
        NoGpuError: No recording exists.
        GpuperfError: A recording cannot be read.
    """
    if settings.replay != "auto":
        # `latest` is the newest run of this machine; recordings do not count.
        baselines = None if settings.replay == "latest" else settings.baselines
        store = RunStore(settings.root / STATE_FOLDER, baselines)
        return [load_run(store.resolve(settings.replay))]
    found = recordings_of(settings.baselines, settings.replay_gpu)
    if not found:
        raise NoGpuError(
            # The whole path: pytest's rootdir may be another folder than the reader thinks.
            f"{reason}, and there is no recording below {settings.baselines}/ to replay instead",
            next_step="type `pytest --gpuperf` and `gpuperf record` on a machine with a GPU, then "
            f"commit {settings.baselines.name}/",
        )
    return list(found.values())
