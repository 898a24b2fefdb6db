"""`gpuperf baseline record`: several fresh processes measure, and their runs are accepted together."""

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
from pytest_gpuperf.cli.accepting import APPEND, ONLY, TOLERANCE, rule_of, show_plan, show_written
from pytest_gpuperf.cli.project import Project, count_tests, echo, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import NO_GPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.baseline.entry import Which
    from pytest_gpuperf.records import Run

GRACE_S = 30.0
"""How long an interrupted pytest may take to end its test and to write what it has."""


@click.command("record")
@click.option(
    "--sessions",
    "count",
    type=click.IntRange(1, MAX_SESSIONS),
    default=5,
    show_default=True,
    help="How many processes measure; the more, the smaller the change that can be told from chance.",
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
    """Measure in fresh processes, one after the other, and accept their runs together.

    Times differ from process to process by more than within one, so only sessions of several processes tell
    how small a change can be seen. Hardware counters are read in the first process only. What stands after
    -- goes to pytest; without it pytest runs what its configuration says. Nothing is accepted where a
    process is interrupted or crashes. Refused where CI is set and where there is no GPU.
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
            next_step="record where there is one, or accept runs from there: `gpuperf baseline accept RUNS`",
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
    show_plan(project, runs, result)
    show_written(result)


def _command(number: int, arguments: Sequence[str]) -> list[str]:
    """What to type; the options at its end have the last word."""
    command = ["pytest", "--gpuperf", *arguments, "--gpuperf-replay=never", "--gpuperf-update=never"]
    command.append("--gpuperf-counter-cache=refresh" if number == 1 else "--gpuperf-counters=off")
    given = click.get_current_context().params
    if given["root"] is not None:
        command.append(f"--rootdir={given['root']}")
    if given["baselines"] is not None:
        command.append(f"--gpuperf-baselines={given['baselines'].absolute()}")
    return command


def _measure(project: Project, session: str, command: Sequence[str]) -> Run:
    """Run pytest, and return its run.

    That is the one that appears among the project's runs. pytest needs no word of it then, and no test that
    fails or prints can garble it. Two that appear mean that somebody else measured on the GPU meanwhile.

    Raises:
        GpuperfError: pytest crashed, was interrupted, or has not measured; `found` says how.
    """
    echo(f"{session}: {shlex.join(command)}")
    before = project.runs.ids()
    begin = time.monotonic()
    status = _wait([sys.executable, "-m", *command])
    # Tests that fail are no obstacle: they may have regressed against the baseline that is to be replaced.
    if status not in (0, 1):
        how = f"exit status {status}" if status > 0 else signal.strsignal(-status) or f"signal {-status}"
        raise GpuperfError(f"pytest ended with {how}")
    new = sorted(project.runs.ids() - before)
    if not new:
        raise GpuperfError("pytest left no run: no test of it measured, or its rootdir is another (--root)")
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
            # The terminal has told pytest too, which has an ncu to end and a run to write.
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(GRACE_S)
            process.kill()
            raise


def _kept(runs: Sequence[Run]) -> str:
    """What to type to take what has been measured."""
    if not runs:
        return ""
    them = "the run that is complete" if len(runs) == 1 else f"the {len(runs)} runs that are complete"
    return f"`gpuperf baseline accept {' '.join(run.id for run in runs)}` takes {them}"
