"""`gpuperf baseline status`: list the baselines of each GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from pytest_gpuperf.cli.acceptance_options import show_run
from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import NO_GPU
from pytest_gpuperf.records.baseline import card_of, suite_of
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.runs import load_run, newest_recordings
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_gpuperf.records import GpuInfo, Run, TestRecord
    from pytest_gpuperf.records.baseline import Baseline, RunNote


@dataclass(frozen=True)
class _Suite:
    """The baseline of a suite on a GPU, and its differences to the tests of a run."""

    gpu: str
    name: str
    known: Baseline | None
    not_in_run: tuple[str, ...]
    without_baseline: tuple[str, ...]

    @property
    def sessions(self) -> tuple[int, int] | None:
        """The fewest and the most sessions of a time; None without times."""
        counts = [len(time.sessions) for time in self.known.times] if self.known else []
        return (min(counts), max(counts)) if counts else None

    @property
    def cards(self) -> int:
        """Number of cards that measured the times."""
        if (known := self.known) is None:
            return 0
        return len({card_of(one, known.runs) for time in known.times for one in time.sessions} - {""})

    @property
    def runs(self) -> list[RunNote]:
        """The runs of its values, oldest first."""
        return sorted(self.known.runs.values(), key=lambda note: note.date) if self.known else []

    @property
    def lines(self) -> list[str]:
        """Remarks besides the numbers."""
        gone = self.known is not None and 1 < len(self.known.tests) == len(self.not_in_run)
        return [
            *([] if self.known else ["no baseline"]),
            *(f"not in the run: {nodeid}" for nodeid in (["all tests"] if gone else self.not_in_run)),
            *(f"without baseline: {nodeid}" for nodeid in self.without_baseline),
        ]


@click.command("status")
@click.argument("run", required=False)
@output_form
@project_options
def status_command(project: Project, run: str | None, form: str) -> None:
    """List the baselines of each GPU, compared with RUN.

    The default is the project's newest run if it is from that GPU, otherwise the GPU's newest recording.
    """
    runs = _newest_runs(project, run)
    gpus = {
        slug: f"{slug}: {f'compared with {show_run(runs[slug])}' if slug in runs else 'no run from it'}"
        for slug in sorted({*project.store.slugs(), *runs})
    }
    suites = [suite for slug in gpus for suite in _suites(project, slug, runs.get(slug))]
    with_suites = {suite.gpu for suite in suites}
    notes = [line for slug, line in gpus.items() if slug not in with_suites]
    notes += [] if gpus else [f"no baselines in {show_path(project.baselines)}"]
    records = [_record(suite, runs.get(suite.gpu)) for suite in suites]
    show(Report([Table(_columns(suites, gpus), notes=notes)], records), form)


def _suites(project: Project, slug: str, newest: Run | None) -> Iterator[_Suite]:
    ran = _by_suite(newest)
    for name in sorted({*project.store.suites(slug), *ran}):
        known = project.store.load(slug, name)
        expected = set(known.tests) if known else set()
        tests = ran.get(name, set()) if newest is not None else expected
        yield _Suite(slug, name, known, tuple(sorted(expected - tests)), tuple(sorted(tests - expected)))


def _columns(suites: Sequence[_Suite], gpus: Mapping[str, str]) -> list[Column]:
    newest = [_show_note(suite.runs[-1]) if suite.runs else "" for suite in suites]
    oldest = [_show_note(suite.runs[0]) if len(suite.runs) > 1 else "" for suite in suites]
    columns = [
        Column("gpu", [gpus[suite.gpu] for suite in suites], "group"),
        Column("suite", [suite.name for suite in suites], "name", code=True),
        Column("tests", [str(len(suite.known.tests)) if suite.known else "" for suite in suites]),
        Column("sessions", [_show_range(suite.sessions) for suite in suites]),
        Column("cards", [str(suite.cards or "") for suite in suites]),
        Column("newest", newest, left=True),
        Column("oldest", oldest, left=True),
        Column("differences", ["\n".join(suite.lines) for suite in suites], "detail"),
    ]
    return columns if suites else []


def _record(suite: _Suite, newest: Run | None) -> dict[str, Any]:
    fewest, most = suite.sessions or (0, 0)
    runs = suite.runs
    return {
        "gpu": suite.gpu,
        "suite": suite.name,
        "run": newest.id if newest else "",
        "tests": len(suite.known.tests) if suite.known else 0,
        "fewest_sessions": fewest,
        "most_sessions": most,
        "cards": suite.cards,
        "newest": runs[-1].date if runs else "",
        "oldest": runs[0].date if runs else "",
        "not_in_run": suite.not_in_run,
        "without_baseline": suite.without_baseline,
    }


def _show_range(sessions: tuple[int, int] | None) -> str:
    fewest, most = sessions or (0, 0)
    return f"{fewest} to {most}" if fewest < most else str(most or "")


def _newest_runs(project: Project, ref: str | None) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for recording in newest_recordings(project.baselines):
        for part in _split_run(recording):
            runs.setdefault(part.environment.gpu.slug, part)
    try:
        paths = project.find_for_baseline(ref)
    except GpuperfError:
        if ref is not None:
            raise
        return runs
    parts = [part for path in paths for part in _split_run(load_run(path))]
    return {**runs, **{part.environment.gpu.slug: part for part in parts}}


def _split_run(run: Run) -> list[Run]:
    """Split a run by folder of baselines: that of its GPU, and that of compiled kernels."""
    if run.environment.gpu.slug == NO_GPU.slug:
        return [run]
    parts: dict[GpuInfo, list[TestRecord]] = {run.environment.gpu: [], NO_GPU: []}
    for test in run.tests:
        for tests, part in zip(parts.values(), test.parts, strict=True):
            tests += [replace(test, measurements=part)] if part else []
    found = [
        replace(run, environment=replace(run.environment, gpu=gpu), tests=tuple(tests))
        for gpu, tests in parts.items()
        if tests
    ]
    return found or [run]


def _by_suite(run: Run | None) -> dict[str, set[str]]:
    suites: dict[str, set[str]] = {}
    for test in run.tests if run else ():
        # Tests that only check or warm up have no baseline.
        if any(one.timing or one.profile for one in test.measurements.values()):
            suites.setdefault(suite_of(test.nodeid), set()).add(test.nodeid)
    return suites


def _show_note(note: RunNote) -> str:
    commit = f" {note.commit[:7]}{'+' if note.dirty else ''}" if note.commit else ""
    return f"{note.date[:10]}{commit}"
