"""The session that judges recorded runs again, without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.instruments.replay import ReplayInstruments
from pytest_gpuperf.runs import STATE_FOLDER, RunStore, load_run, newest_recordings
from pytest_gpuperf.session.base import Session

if TYPE_CHECKING:
    from pytest_gpuperf.options import Settings
    from pytest_gpuperf.records import Run


class ReplaySession(Session):
    """Answers from one run, or from the recordings of the GPU that was recorded last."""

    def __init__(self, settings: Settings) -> None:
        runs = recorded(settings)
        if settings.update != "never":
            raise GpuperfError(
                f"--gpuperf-update={settings.update} with a replay, which measures nothing",
                next_step="accept a recorded run with `gpuperf baseline accept RUN`",
            )
        newest = runs[0]
        super().__init__(settings, ReplayInstruments(runs), newest.environment, replayed_from=newest)
        self.counters_unavailable = newest.counters_unavailable


def recorded(settings: Settings) -> list[Run]:
    """The runs to replay, of one GPU model, the newest first.

    Raises:
        GpuperfError: There is none, or it cannot be read.
    """
    if settings.replay != "auto":
        return [load_run(RunStore(settings.root / STATE_FOLDER).resolve(settings.replay))]
    runs = newest_recordings(settings.baselines)
    if not runs:
        raise GpuperfError(
            f"there is no CUDA GPU, and no recording below {settings.baselines.name}/ to replay instead",
            next_step="run on a GPU, then store the run with `gpuperf recording add`",
        )
    slug = runs[0].environment.gpu.slug
    return [run for run in runs if run.environment.gpu.slug == slug]
