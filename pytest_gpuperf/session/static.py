"""The way to run without a GPU and without a recording: kernels are only compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.device.environment import environment
from pytest_gpuperf.records import NO_GPU
from pytest_gpuperf.session.keeping import KeepingRunner

if TYPE_CHECKING:
    from pytest_gpuperf.errors import NoGpuError
    from pytest_gpuperf.session.link import Link
    from pytest_gpuperf.settings.settings import Settings


class StaticRunner(KeepingRunner):
    """Compiles, judges and keeps the run; a test that needs a GPU fails.

    Args:
        settings: The options.
        missing: Why nothing can be measured.
        link: Leads to the controller; None if this process does everything.
    """

    def __init__(self, settings: Settings, missing: NoGpuError, link: Link | None = None) -> None:
        self.open_run(settings, link)
        super().__init__(settings, missing, environment(NO_GPU, settings.root, ""))
