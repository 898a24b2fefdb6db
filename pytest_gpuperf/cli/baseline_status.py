"""`gpuperf baseline status`: list the baselines of each GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.sessions import count_sessions
from pytest_gpuperf.cli.accepting import show_run
from pytest_gpuperf.cli.project import Project, count_tests, echo, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.parts import split_run
from pytest_gpuperf.records.baseline import suite_of
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.runs import load_run, newest_recordings
from pytest_gpuperf.report.show import count

if TYPE_CHECKING:
    from pytest_gpuperf.records import Run
    from pytest_gpuperf.records.baseline import Baseline, RunNote


@click.command("status")
@click.argument("run", required=False)
@project_options
def status_command(project: Project, run: str | None) -> None:
    """List the baselines of each GPU, compared with RUN.

    The default is the project's newest run if it is from that GPU, otherwise the GPU's newest recording.
    """
    store = project.store
    runs = _newest_runs(project, run)
    for slug in sorted({*store.slugs(), *runs}):
        newest = runs.get(slug)
        comparison = f"compared with {show_run(newest)}" if newest else "no run from it"
        echo(f"{slug}: {comparison}")
        ran = _by_suite(newest)
        for suite in sorted({*store.suites(slug), *ran}):
            known = store.load(slug, suite)
            echo(f"  {suite}: {_suite_line(known)}")
            for line in (*_pins(known), *_suite_gaps(known, ran.get(suite))):
                echo(f"    {line}")
    if not store.slugs() and not runs:
        echo(f"no baselines in {show_path(project.baselines)}")


def _newest_runs(project: Project, ref: str | None) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for recording in newest_recordings(project.baselines):
        for part in split_run(recording):
            runs.setdefault(part.environment.gpu.slug, part)
    try:
        path = project.find_for_baseline(ref)
    except GpuperfError:
        if ref is not None:
            raise
        return runs
    return {**runs, **{part.environment.gpu.slug: part for part in split_run(load_run(path))}}


def _by_suite(run: Run | None) -> dict[str, set[str]]:
    suites: dict[str, set[str]] = {}
    for test in run.tests if run else ():
        # Tests that only check or warm up have no baseline.
        if any(measured.timing or measured.profile for measured in test.measurements.values()):
            suites.setdefault(suite_of(test.nodeid), set()).add(test.nodeid)
    return suites


def _suite_line(known: Baseline | None) -> str:
    if known is None:
        return "no baseline"
    times = known.times
    parts = [count_tests(known.tests)]
    if times:
        counts = sorted({len(time.sessions) for time in times})
        fewest = f"{counts[0]} to " if len(counts) > 1 else ""
        parts.append(f"{fewest}{count_sessions(counts[-1])}")
    runs = {session.run for time in times for session in time.sessions}
    cards = {note.gpu_uuid for run, note in known.runs.items() if run in runs} - {""}
    if cards:
        parts.append(count(len(cards), "card"))
    # A pinned run may be older than every other run of the baseline.
    used = runs | {m.counters_run for test in known.tests.values() for m in test.measurements.values()}
    notes = sorted((note for run, note in known.runs.items() if run in used), key=lambda note: note.date)
    if notes:
        parts.append(f"newest {_show_note(notes[-1])}")
    if len(notes) > 1:
        parts.append(f"oldest {_show_note(notes[0])}")
    return ", ".join(parts)


def _pins(known: Baseline | None) -> list[str]:
    times = known.times if known else []
    pins = [str(time.pinned) for time in times if time.pinned is not None]
    return [f"pinned: {pin} ({pins.count(pin)} of {len(times)} times)" for pin in sorted(set(pins))]


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
