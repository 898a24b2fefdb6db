"""`gpuperf record`: commit runs that machines without a GPU replay."""

from __future__ import annotations

from itertools import filterfalse
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from pytest_gpuperf.cli.output import echo
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import NO_GPU
from pytest_gpuperf.records.files import show_path, write_files
from pytest_gpuperf.records.run_store import encode_run, load_run, recording_path, recordings

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import Run, TestRecord


@click.command("record")
@click.argument("run", required=False)
@click.option(
    "--replace", "drops", is_flag=True, help="Delete the GPU's older recordings whose tests are all in RUN."
)
@click.option(
    "--incomplete", is_flag=True, help="Store the right tests of a run that was interrupted or failed."
)
@project_options
def command(project: Project, run: str | None, drops: bool, incomplete: bool) -> None:
    """Store RUN next to the baselines of its GPU.

    RUN is an id, the start of an id, a run.json, or its folder; the newest run by default. Refused if the run
    was interrupted or has a failed test.
    """
    found = [load_run(path) for path in project.runs.resolve_all(run)]
    if incomplete:
        found = [replace(one, complete=True, tests=tuple(filterfalse(_is_wrong, one.tests))) for one in found]
    for measured in found:
        _check(measured)
    for measured in found:
        _add(project, measured, drops=drops)


def _add(project: Project, measured: Run, *, drops: bool) -> None:
    path = recording_path(project.baselines, measured)
    with project.store.locked():
        older = [old for old in recordings(project.baselines) if _is_superseded(old, path, measured)]
        write_files({path: encode_run(measured)})
        echo(f"wrote {show_path(path)} ({count_tests(measured.tests)})")
        for old in older:
            if drops:
                old.unlink()
            echo(f"{'dropped' if drops else 'superseded, --replace drops it:'} {show_path(old)}")


def _check(run: Run) -> None:
    problem = ""
    if not run.complete:
        problem = "was interrupted before its end"
    elif not run.tests:
        problem = "holds no test"
    elif run.environment.gpu.slug == NO_GPU.slug:
        problem = "compiled kernels and measured none, so there is nothing to replay"
    else:
        wrong = next((test.nodeid for test in run.tests if _is_wrong(test)), "")
        problem = f"has a test that failed: {wrong}" if wrong else ""
    if problem:
        raise GpuperfError(
            f"the run {run.id} {problem}",
            expected="a whole run on a GPU, without failures",
            next_step="run pytest --gpuperf again",
        )


def _is_wrong(test: TestRecord) -> bool:
    return test.failed or test.is_wrong


def _is_superseded(path: Path, new_path: Path, new: Run) -> bool:
    if path.parent != new_path.parent or path == new_path:
        return False
    old = load_run(path)
    return old.started_at <= new.started_at and {t.nodeid for t in old.tests} <= {t.nodeid for t in new.tests}
