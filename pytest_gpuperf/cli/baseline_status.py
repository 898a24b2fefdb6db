"""`gpuperf baseline status`: list the baselines of each GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pytest_gpuperf.baseline.run_verdicts import not_measured
from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.records.baseline import card_of
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pytest_gpuperf.records.baseline import Baseline, RunNote


@dataclass(frozen=True)
class _Suite:
    """The baseline of a suite on a GPU."""

    gpu: str
    name: str
    known: Baseline
    not_in_run: tuple[str, ...]

    @property
    def sessions(self) -> tuple[int, int]:
        """The fewest and the most sessions of a time; 0 without times."""
        counts = [len(time.sessions) for time in self.known.times] or [0]
        return min(counts), max(counts)

    @property
    def cards(self) -> int:
        """Number of cards that measured the times."""
        known = self.known
        return len({card_of(one, known.runs) for time in known.times for one in time.sessions} - {""})

    @property
    def runs(self) -> list[RunNote]:
        """The runs of its values, oldest first."""
        return sorted(self.known.runs.values(), key=lambda note: note.date)


@click.command("status")
@click.argument("run", required=False)
@output_form
@project_options
def status_command(project: Project, run: str | None, form: str) -> None:
    """List the baselines of each GPU, and the tests in them that RUN has not measured."""
    runs = project.load_all(run) if run is not None else []
    missing = {
        (one.environment.gpu.slug, nodeid) for one in runs for nodeid in not_measured(one, project.store)
    }
    suites = list(_suites(project, missing))
    notes = [] if suites else [f"no baselines in {show_path(project.baselines)}"]
    show(Report([Table(_columns(suites), notes=notes)], [_record(suite) for suite in suites]), form)


def _suites(project: Project, missing: Collection[tuple[str, str]]) -> Iterator[_Suite]:
    for slug in project.store.slugs():
        for name in project.store.suites(slug):
            if (known := project.store.load(slug, name)) is not None:
                gone = tuple(nodeid for nodeid in known.tests if (slug, nodeid) in missing)
                yield _Suite(slug, name, known, gone)


def _columns(suites: Sequence[_Suite]) -> list[Column]:
    newest = [_show_note(suite.runs[-1]) if suite.runs else "" for suite in suites]
    oldest = [_show_note(suite.runs[0]) if len(suite.runs) > 1 else "" for suite in suites]
    gone = ["\n".join(f"not in the run: {nodeid}" for nodeid in suite.not_in_run) for suite in suites]
    sessions = [suite.sessions for suite in suites]
    columns = [
        Column("gpu", [suite.gpu for suite in suites], "group"),
        Column("suite", [suite.name for suite in suites], "name", code=True),
        Column("tests", [str(len(suite.known.tests)) for suite in suites]),
        Column("sessions", [f"{low} to {high}" if low < high else str(high or "") for low, high in sessions]),
        Column("cards", [str(suite.cards or "") for suite in suites]),
        Column("newest", newest, left=True),
        Column("oldest", oldest, left=True),
        Column("differences", gone, "detail"),
    ]
    return columns if suites else []


def _record(suite: _Suite) -> dict[str, Any]:
    fewest, most = suite.sessions
    runs = suite.runs
    return {
        "gpu": suite.gpu,
        "suite": suite.name,
        "tests": len(suite.known.tests),
        "fewest_sessions": fewest,
        "most_sessions": most,
        "cards": suite.cards,
        "newest": runs[-1].date if runs else "",
        "oldest": runs[0].date if runs else "",
        "not_in_run": suite.not_in_run,
    }


def _show_note(note: RunNote) -> str:
    commit = f" {note.commit[:7]}{'+' if note.dirty else ''}" if note.commit else ""
    return f"{note.date[:10]}{commit}"
