"""`gpuperf baseline record`: measure in several fresh processes, and accept their runs together."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.merge import accept, refuse_in_ci
from pytest_gpuperf.baseline.sessions import MAX_SESSIONS
from pytest_gpuperf.cli.accepting import APPEND, ONLY, TOLERANCE, rule_of, show_plans, show_written
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.cli.said import echo
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import NO_GPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.baseline.entry import Which
    from pytest_gpuperf.records import Run

GRACE_S = 30.0
"""Time in which an interrupted pytest has to end its test and write its run, in seconds."""


@click.command("record")
@click.option(
    "--sessions",
    "count",
    type=click.IntRange(1, MAX_SESSIONS),
    default=5,
    show_default=True,
    help="Measure in this many processes; more of them detect smaller changes.",
)
@ONLY
@APPEND
@TOLERANCE
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_ARGUMENTS]")
@project_options
def record_command(
    project: Project,
    count: int,
    only: Which,
    append: bool | None,
    tolerance: float | None,
    arguments: tuple[str, ...],
) -> None:
    """Measure in fresh processes and accept their runs together.

    Times differ more between processes than within one, so it takes sessions of several processes to know how
    small a change is detectable. Only the first process reads hardware counters. Arguments after -- go to
    pytest; by default pytest runs the tests of its configuration. If a process is interrupted or crashes,
    nothing is accepted. Refused if CI is set, and without a GPU.
    """
    from pytest_gpuperf.session.live import why_not_live

    refuse_in_ci(
        next_step="measure with `pytest --gpuperf` here, download its run.json and type "
        "`gpuperf baseline accept run.json` on your machine"
    )
    reason = why_not_live()
    if reason:
        raise GpuperfError(
            f"nothing can be measured here: {reason}",
            expected="a CUDA GPU",
            next_step="record on a machine with one, or accept its runs here: `gpuperf baseline accept RUNS`",
        )
    runs: list[Run] = []
    try:
        while len(runs) < count:
            number = len(runs) + 1
            runs.append(_measure(project, f"session {number} of {count}", _command(number, arguments)))
    except (GpuperfError, KeyboardInterrupt) as error:
        what = error.found if isinstance(error, GpuperfError) else "interrupted"
        raise GpuperfError(
            f"session {len(runs) + 1} of {count}: {what}; no baseline has changed", next_step=_kept(runs)
        ) from None
    try:
        result = accept(
            runs, project.store, only, tolerance or project.tolerance_pct, sessions=rule_of(append)
        )
    except (GpuperfError, OSError, KeyboardInterrupt):
        echo(_kept(runs))
        raise
    show_plans(project, [(runs, result)])
    show_written(result)


def _command(number: int, arguments: Sequence[str]) -> list[str]:
    """Return the command of one session; its last options override earlier ones."""
    command = ["pytest", "--gpuperf", *arguments, "--gpuperf-replay=never", "--gpuperf-update=never"]
    command.append("--gpuperf-keep=0")  # the runs of the earlier sessions
    if number > 1:
        command.append("--gpuperf-counters=off")
    given = click.get_current_context().params
    if given["root"] is not None:
        command.append(f"--rootdir={given['root']}")
    if given["baselines"] is not None:
        command.append(f"--gpuperf-baselines={given['baselines'].absolute()}")
    return command


def _measure(project: Project, session: str, command: Sequence[str]) -> Run:
    """Run pytest, and return its run.

    The run is the new one among the project's runs: output of tests cannot garble that. Two new runs mean
    that another process measured at the same time.

    Raises:
        GpuperfError: pytest crashed, was interrupted, or has not measured.
    """
    echo(f"{session}: {shlex.join(command)}")
    before = project.runs.ids()
    begin = time.monotonic()
    status = _wait([sys.executable, "-m", *command])
    # Failed tests are fine: they may have regressed against the baseline that this run replaces.
    if status not in (0, 1):
        how = f"exit status {status}" if status > 0 else signal.strsignal(-status) or f"signal {-status}"
        raise GpuperfError(f"pytest ended with {how}")
    new = sorted(project.runs.ids() - before)
    if not new:
        raise GpuperfError("pytest left no run: no test measured, or its rootdir differs (--root)")
    if len(new) > 1:
        raise GpuperfError(f"another process measured meanwhile: {', '.join(new)}")
    run = project.load(new[0])
    if not run.complete:
        raise GpuperfError(f"pytest stopped before its end (run {run.id})")
    if run.environment.gpu.slug == NO_GPU.slug:
        raise GpuperfError(f"pytest found no GPU (run {run.id})")
    failed = ", tests failed" if status else ""
    echo(f"{session}: run {run.id}, {count_tests(run.tests)}, {time.monotonic() - begin:.0f} s{failed}")
    return run


def _wait(command: Sequence[str]) -> int:
    with subprocess.Popen(command) as process:  # noqa: S603
        try:
            return process.wait()
        except KeyboardInterrupt:
            # pytest was interrupted too: it has to end ncu and write its run.
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(GRACE_S)
            process.kill()
            raise


def _kept(runs: Sequence[Run]) -> str:
    """Return the command that accepts the complete runs."""
    if not runs:
        return ""
    them = "the run that is complete" if len(runs) == 1 else f"the {len(runs)} runs that are complete"
    return f"`gpuperf baseline accept {' '.join(run.id for run in runs)}` takes {them}"
