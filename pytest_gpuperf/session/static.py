"""The session of a machine with neither a GPU nor a recording: it compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.device.environment import environment
from pytest_gpuperf.records import NO_GPU
from pytest_gpuperf.session.keeping import KeepingSession
from pytest_gpuperf.session.static_instruments import StaticInstruments

if TYPE_CHECKING:
    from pytest_gpuperf.errors import GpuperfError
    from pytest_gpuperf.settings.settings import Settings


class StaticSession(KeepingSession):
    """Compiles, judges and keeps the run; a test that needs a GPU fails.

    Args:
        settings: The options.
        missing: What such a test is told.
    """

    def __init__(self, settings: Settings, missing: GpuperfError) -> None:
        self.open_run(settings)
        super().__init__(settings, StaticInstruments(missing), environment(NO_GPU, settings.root, ""))
