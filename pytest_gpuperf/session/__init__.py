"""The ways to run `pytest --gpuperf`: live, replay, static, or as a child of another run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import NoGpuError
from pytest_gpuperf.registry import instrument

if TYPE_CHECKING:
    from pytest_gpuperf.session.progress import News
    from pytest_gpuperf.session.runner import Runner
    from pytest_gpuperf.session.worker_messages import Link
    from pytest_gpuperf.settings.settings import Settings


def start_runner(settings: Settings, news: News, link: Link | None = None) -> Runner:
    """Choose the way to run by the options and the machine.

    Without a GPU and without a recording, kernels can still be compiled; each test that needs a GPU fails.

    Args:
        settings: The options.
        news: What a reader of the run should know besides the verdicts.
        link: Leads to the controller; None if this process does everything.

    Raises:
        GpuperfError: The run to replay cannot be read, or an option asks for something impossible.
    """
    if settings.profiling_pass is not None:
        from pytest_gpuperf.session.ncu_child import ProfilingRunner

        return ProfilingRunner(settings, settings.profiling_pass)
    if settings.sanitizing_pass is not None:
        runner: Runner = instrument("sanitizer").child_runner(settings, settings.sanitizing_pass)
        return runner
    if settings.side is not None:
        from pytest_gpuperf.session.side_child import SideRunner

        return SideRunner(settings, settings.side)
    reason = ""
    if settings.replay in ("auto", "never"):
        from pytest_gpuperf.session.live_runner import LiveRunner, why_not_live

        reason = why_not_live()
        if not reason:
            return LiveRunner(settings, news, link)
        if settings.replay == "never":
            missing = NoGpuError(
                f"{reason}, and --gpuperf-replay=never forbids a replay",
                expected="a CUDA GPU",
                next_step="look at `nvidia-smi` and at the CUDA version of your torch",
            )
            if settings.against:
                # A compiled kernel has no time to compare.
                raise missing
            return _compile_only(settings, missing, news, link)
    from pytest_gpuperf.session.replay_runner import ReplayRunner

    try:
        return ReplayRunner(settings, reason, news, link)
    except NoGpuError as error:
        return _compile_only(settings, error, news, link)


def _compile_only(settings: Settings, missing: NoGpuError, news: News, link: Link | None) -> Runner:
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.records import NO_GPU
    from pytest_gpuperf.session.judge import Judge
    from pytest_gpuperf.session.run_report import RunFile, RunReport
    from pytest_gpuperf.session.runner import Runner

    file = RunFile(settings, link.orders if link is not None else None)
    judge = Judge(settings, environment(NO_GPU, settings.root, ""))
    return Runner(settings, missing, RunReport(judge, news, file, link=link))
