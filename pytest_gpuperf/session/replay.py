"""The session that judges recorded runs again, without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, NoGpuError
from pytest_gpuperf.measure.static.kernel import is_static
from pytest_gpuperf.measure.trace.recorded import classify_again
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.runs import STATE_FOLDER, RunStore, load_run, newest_recordings, recording_path
from pytest_gpuperf.session.base import Session
from pytest_gpuperf.session.replay_instruments import ReplayInstruments

if TYPE_CHECKING:
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Run, TestRecord
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.settings.settings import Settings

JUDGED_AGAIN = ("", "AssertionError", "Failed")
"""Exceptions of a test's own assertions and of the plugin: the replay comes to its own ones."""


class ReplaySession(Session):
    """Answers from one run, or from the recordings of the GPU that was recorded last."""

    def __init__(self, settings: Settings, reason: str) -> None:
        if settings.against:
            raise GpuperfError(
                f"--gpuperf-against={settings.against} measures, and {reason or 'a replay does not'}",
                expected="a GPU",
                next_step="leave it out where a recorded run is judged again",
            )
        if settings.sanitize != "off":
            raise GpuperfError(
                f"--gpuperf-sanitize={settings.sanitize} runs kernels, and {reason or 'a replay does not'}",
                expected="a GPU",
                next_step="leave it out: a recorded run has what it found",
            )
        runs = recorded(settings, reason)
        if settings.update != "never":
            raise GpuperfError(
                f"--gpuperf-update={settings.update} with a replay, which measures nothing",
                next_step="accept a recorded run with `gpuperf baseline accept RUN`",
            )
        newest = runs[0]
        # A run that was asked for by name is shown as it was, by whatever compiler.
        instruments = ReplayInstruments(runs, compiles=settings.replay == "auto")
        super().__init__(settings, instruments, newest.environment, replayed_from=newest)
        self.counters_unavailable = newest.counters_unavailable
        tests = {test.nodeid: test for run in reversed(runs) for test in run.tests}
        self._failures = {nodeid: test.failure for nodeid, test in tests.items()}
        self.sanitized = {nodeid: test.sanitizer for nodeid, test in tests.items() if test.sanitizer}
        self._paired = {
            (test.nodeid, label): measurement.against
            for run in reversed(runs)
            for test in run.tests
            for label, measurement in test.measurements.items()
        }
        if reason:
            self.notices.append(f"nothing was measured: {reason}")

    @property
    def accept_command(self) -> str:
        """What to type to make the replayed run the baseline."""
        replay = self.settings.replay
        if replay == "auto" and self.replayed_from is not None:
            replay = show_path(recording_path(self.settings.baselines, self.replayed_from))
        return f"gpuperf baseline accept {replay}"

    @property
    def static_update_command(self) -> str:
        """What to type to make what is compiled now the baseline."""
        if self.settings.replay != "auto":
            return self.accept_command
        return "pytest --gpuperf --gpuperf-replay=never --gpuperf-update=changed"

    def is_replayed(self, record: TestRecord) -> bool:
        """Whether it was recorded before this session; kernels may have been compiled in it."""
        kinds = {is_static(measurement) for measurement in record.measurements.values()}
        return self.settings.replay != "auto" or kinds != {True}

    def judge(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge afresh; only what ended the test for another reason than its values is taken as it was."""
        for label, measurement in state.measurements.items():
            paired = self._paired.get((state.nodeid, label))
            if paired is not None:
                state.measurements[label] = replace(measurement, against=paired)
        recorded = self._failures.get(state.nodeid, "")
        if not failure and recorded not in JUDGED_AGAIN:
            failure = recorded
        return super().judge(state, failure)


def recorded(settings: Settings, reason: str) -> list[Run]:
    """The runs to replay, of one GPU model, the newest first.

    Args:
        settings: The options.
        reason: Why nothing can be measured.

    Raises:
        NoGpuError: There is no recording.
        GpuperfError: It cannot be read.
    """
    if settings.replay != "auto":
        # The newest of this machine, of which a recording is none.
        recordings = None if settings.replay == "latest" else settings.baselines
        store = RunStore(settings.root / STATE_FOLDER, recordings)
        return [classify_again(load_run(store.resolve(settings.replay)))]
    runs = newest_recordings(settings.baselines)
    if not runs:
        raise NoGpuError(
            f"{reason}, and there is no recording below {settings.baselines.name}/ to replay instead",
            next_step="type `pytest --gpuperf` and `gpuperf recording add` where there is a GPU, then commit "
            f"{settings.baselines.name}/",
        )
    slug = runs[0].environment.gpu.slug
    return [classify_again(run) for run in runs if run.environment.gpu.slug == slug]
