"""A run of `pytest --gpuperf`: live on a GPU, replayed, compiling only, or as the child of another run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import NoGpuError
from pytest_gpuperf.session.base import Session

if TYPE_CHECKING:
    from pytest_gpuperf.settings.settings import Settings

__all__ = ["Session", "start"]


def start(settings: Settings) -> Session:
    """The session that the options and the machine call for.

    Where there is neither a GPU nor a recording, what needs one of them fails, test by test: kernels can be
    compiled all the same.

    Raises:
        GpuperfError: The run to replay cannot be read, or an option asks for what cannot be.
    """
    if settings.profiling_pass is not None:
        from pytest_gpuperf.session.profiling import ProfilingSession

        return ProfilingSession(settings, settings.profiling_pass)
    if settings.sanitizing_pass is not None:
        from pytest_gpuperf.session.sanitizing import SanitizingSession

        return SanitizingSession(settings, settings.sanitizing_pass)
    if settings.worker is not None:
        from pytest_gpuperf.session.worker import WorkerSession

        return WorkerSession(settings, settings.worker)
    reason = ""
    if settings.replay in ("auto", "never"):
        from pytest_gpuperf.session.live import LiveSession, why_not_live

        reason = why_not_live()
        if not reason:
            return LiveSession(settings)
        if settings.replay == "never":
            missing = NoGpuError(
                f"{reason}, and --gpuperf-replay=never forbids a replay",
                expected="a CUDA GPU",
                next_step="look at `nvidia-smi` and at the CUDA version of your torch",
            )
            if settings.against:
                # Nothing that is compiled has a time to compare.
                raise missing
            return _static_session(settings, missing)
    from pytest_gpuperf.session.replay import ReplaySession

    try:
        return ReplaySession(settings, reason)
    except NoGpuError as error:
        return _static_session(settings, error)


def _static_session(settings: Settings, missing: NoGpuError) -> Session:
    from pytest_gpuperf.session.static import StaticSession

    return StaticSession(settings, missing)
