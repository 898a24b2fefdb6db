"""A run of `pytest --gpuperf`: live on a GPU, replayed from a recording, or as the child under ncu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.session.base import Session

if TYPE_CHECKING:
    from pytest_gpuperf.options import Settings

__all__ = ["Session", "start"]


def start(settings: Settings) -> Session:
    """The session that the options and the machine call for.

    Raises:
        GpuperfError: There is neither a GPU nor a recording, or an option asks for what cannot be.
    """
    if settings.profiling_pass is not None:
        from pytest_gpuperf.session.profiling import ProfilingSession

        return ProfilingSession(settings, settings.profiling_pass)
    if settings.replay in ("auto", "never"):
        from pytest_gpuperf.session.live import LiveSession, live_or_none

        live: LiveSession | None = live_or_none(settings)
        if live is not None:
            return live
    from pytest_gpuperf.session.replay import ReplaySession

    return ReplaySession(settings)
