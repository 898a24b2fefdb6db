"""`gpuperf baseline`: accept a run as baseline, see what that would change, see what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.merge import Which, accept, plan
from pytest_gpuperf.baseline.schema import suite_of
from pytest_gpuperf.cli.project import Project, count_tests, echo, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.json_files import show_path
from pytest_gpuperf.runs import load_run, newest_recordings
from pytest_gpuperf.static.parts import split_run

if TYPE_CHECKING:
    from pytest_gpuperf.baseline.merge import Entry, Plan
    from pytest_gpuperf.baseline.schema import Baseline, RunNote
    from pytest_gpuperf.records import Run

RUN = click.argument("run", required=False)
ONLY = click.option(
    "--only",
    type=click.Choice(["new", "changed", "all"]),
    default="all",
    show_default=True,
    help="new: tests without a baseline; changed: also what moved beyond its tolerance; all: everything.",
)
TOLERANCE = click.option(
    "--tolerance",
    type=click.FloatRange(min=0, min_open=True),
    help="By how much a time may move before it counts as changed, in per cent, where neither the baseline "
    "file nor the run says (default: gpuperf_tolerance of pytest's configuration, else 5).",
)


@click.group()
def baseline() -> None:
    """What the tests are expected to do on each GPU."""


@baseline.command("accept")
@RUN
@ONLY
@TOLERANCE
@click.option("--incomplete", is_flag=True, help="Take a run that was interrupted.")
@project_options
def accept_command(
    project: Project, run: str | None, only: Which, tolerance: float | None, incomplete: bool
) -> None:
    """Make RUN the baseline of its GPU.

    RUN is the id of a run, the start of one, a run.json, or a folder that holds one; the newest run if
    left out. Limits and notes made by hand stay. Refused where CI is set.
    """
    measured = project.load(run)
    result = accept(measured, project.store, only, tolerance or project.tolerance_pct, incomplete=incomplete)
    _show_entries(project, measured, result)
    for path, content in result.files.items():
        echo(f"wrote {show_path(path)} ({count_tests(content['tests'])})")
    if not result.files:
        echo("no baseline changed")


@baseline.command("diff")
@RUN
@ONLY
@TOLERANCE
@click.option(
    "--exit-code", is_flag=True, help="Exit with 1 where something is new or moved beyond its tolerance."
)
@project_options
def diff_command(
    project: Project, run: str | None, only: Which, tolerance: float | None, exit_code: bool
) -> None:
    """Show what `gpuperf baseline accept RUN` would change; writes nothing."""
    measured = project.load(run)
    result = plan(measured, project.store, only, tolerance or project.tolerance_pct)
    _show_entries(project, measured, result)
    if exit_code and result.of_kind("new", "changed"):
        raise click.exceptions.Exit(1)


@baseline.command("status")
@RUN
@project_options
def status_command(project: Project, run: str | None) -> None:
    """Show the baselines of each GPU beside RUN, or beside each GPU's newest run.

    That is the project's newest run if it is of that GPU, else the GPU's newest recording.
    """
    store = project.store
    runs = _newest_runs(project, run)
    for slug in sorted({*store.slugs(), *runs}):
        newest = runs.get(slug)
        beside = f"beside {_show_run(newest)}" if newest else "no run of it at hand"
        echo(f"{slug}: {beside}")
        ran = _by_suite(newest)
        for suite in sorted({*store.suites(slug), *ran}):
            echo(f"  {suite}: {_suite_line(store.load(slug, suite))}")
            for line in _suite_gaps(store.load(slug, suite), ran.get(suite)):
                echo(f"    {line}")
    if not store.slugs() and not runs:
        echo(f"no baselines in {show_path(project.baselines)}")


def _show_entries(project: Project, run: Run, result: Plan) -> None:
    gpu = run.environment.gpu
    echo(f"{_show_run(run)}, {gpu.name}, beside {show_path(project.baselines / gpu.slug)}")
    for entry in result.entries:
        if entry.kind != "refreshed":
            _show_entry(entry)
    within = len(result.of_kind("refreshed"))
    counts = [
        f"{len(result.of_kind(kind))} {kind}"
        for kind in ("new", "changed", "refused")
        if result.of_kind(kind)
    ]
    if within:
        counts.append(f"{within} within the tolerance")
    echo(", ".join(counts) or "nothing to accept")


def _show_entry(entry: Entry) -> None:
    label = "" if entry.label in ("", "main") else f" ({entry.label})"
    echo(f"  {entry.kind:8} {entry.nodeid}{label}")
    for line in entry.lines:
        echo(f"           {line}")


def _show_run(run: Run) -> str:
    commit = run.environment.commit[:7] + ("+" if run.environment.commit and run.environment.dirty else "")
    return f"run {run.id}" + (f", commit {commit}" if commit else "") + f", {run.started_at[:10]}"


def _newest_runs(project: Project, ref: str | None) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for recording in newest_recordings(project.baselines):
        for part in split_run(recording):
            runs.setdefault(part.environment.gpu.slug, part)
    try:
        path = project.runs.resolve(ref)
    except GpuperfError:
        if ref is not None:
            raise
        return runs
    return {**runs, **{part.environment.gpu.slug: part for part in split_run(load_run(path))}}


def _by_suite(run: Run | None) -> dict[str, set[str]]:
    suites: dict[str, set[str]] = {}
    for test in run.tests if run else ():
        # What only checks or warms up has no baseline.
        if any(measured.timing or measured.profile for measured in test.measurements.values()):
            suites.setdefault(suite_of(test.nodeid), set()).add(test.nodeid)
    return suites


def _suite_line(known: Baseline | None) -> str:
    if known is None:
        return "no baseline"
    notes = sorted(known.runs.values(), key=lambda note: note.date)
    parts = [count_tests(known.tests)]
    if notes:
        parts.append(f"newest {_show_note(notes[-1])}")
    if len(notes) > 1:
        parts.append(f"oldest {_show_note(notes[0])}")
    return ", ".join(parts)


def _suite_gaps(known: Baseline | None, ran: set[str] | None) -> list[str]:
    if ran is None:
        return []
    expected = set(known.tests) if known else set()
    return [
        *(f"not in the run: {nodeid}" for nodeid in sorted(expected - ran)),
        *(f"without baseline: {nodeid}" for nodeid in sorted(ran - expected)),
    ]


def _show_note(note: RunNote) -> str:
    commit = f" (commit {note.commit[:7]}{'+' if note.dirty else ''})" if note.commit else ""
    return f"{note.date[:10]}{commit}"
